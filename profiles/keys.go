package profiles

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A profileKey is one setting of a profile for everything that lists them all: explanations, differences, the schema and
// the documents. A test holds the list against what the loader knows.
type profileKey struct {
	name  string // with its group, such as "retry.max_attempts"
	about string // what it sets, with what no range says
	shape shape
	value func(*Profile) string // as a catalog writes it
	used  func(*Profile) bool   // whether it means anything beside the others; nil = always
}

// group is the part of the name before the point, "" where there is none.
func (k *profileKey) group() string {
	group, _, found := strings.Cut(k.name, ".")
	if !found {
		return ""
	}
	return group
}

// profileGroups are the groups that `disabled` can stand for, each with whether a profile has it on.
var profileGroups = []struct {
	name  string
	about string
	on    func(*Profile) bool
}{
	{"budget", "The bucket of retries that all calls of one process to one dependency share.", func(p *Profile) bool { return p.Budget.Enabled() }},
	{"breaker", "The circuit breaker of one dependency, in each process. It counts attempts.", func(p *Profile) bool { return p.Breaker.Enabled() }},
	{"hedge", "Further attempts that start before the first has failed; idempotent calls only.", func(p *Profile) bool { return p.Hedge.Enabled() }},
	{"adaptive_throttle", "Client-side throttling (Google SRE book, Handling Overload).", func(p *Profile) bool { return p.Throttle.Enabled() }},
}

// profileKeys lists the settings in the order in which people read them.
var profileKeys = sync.OnceValue(func() []profileKey {
	list := []profileKey{
		{name: "retry.max_attempts", shape: whole(rangeAttempts), about: "Attempts of one call, the first included.",
			value: func(p *Profile) string { return strconv.Itoa(p.Retry.Attempts()) }},
		{name: "retry.statuses", shape: statusList(), about: "HTTP statuses that are worth a retry.",
			value: func(p *Profile) string { return showStatuses(p.Retry.Statuses) }},
		{name: "retry.attempt_timeout", shape: duration(rangeTimeout, "0s = none of its own"), about: "Limit of each attempt.",
			value: func(p *Profile) string { return showDuration(p.Retry.AttemptTimeout) }},
		{name: "retry.timeout", shape: duration(rangeTimeout, "0s = none of its own"), about: "Limit of the whole call, all attempts and waits.",
			value: func(p *Profile) string { return showDuration(p.Retry.Timeout) }},
		{name: "retry.reserve", shape: whole(rangeTokens), about: "Tokens that a lease leaves in the purse.",
			value: func(p *Profile) string { return strconv.Itoa(p.Retry.Reserve) }},
		{name: "retry.repeats", shape: oneOf(repeatsWords), about: "What a call costs that repeats a failed one of the same request: count = nothing, charge = a token, refuse = it is refused.",
			value: func(p *Profile) string { return p.Retry.Repeats.String() }},
		{name: "retry.missing", shape: oneOf(missingWords), about: "What a failure without a claim means: retry = this hop may retry, stop = it may not.",
			value: func(p *Profile) string { return p.Retry.Missing.String() }},

		{name: "backoff.base", shape: duration(rangeWait, ""), about: "Ceiling of the first wait after a transient failure; it doubles with each retry.",
			value: func(p *Profile) string { return showDuration(p.Backoff.Base) }},
		{name: "backoff.throttled_base", shape: duration(rangeWait, ""), about: "The same after a throttled failure (429 and its like).",
			value: func(p *Profile) string { return showDuration(p.Backoff.ThrottledBase) }},
		{name: "backoff.cap", shape: duration(rangeWait, ""), about: "Largest ceiling, and with hint: add the longest hint that is followed.",
			value: func(p *Profile) string { return showDuration(p.Backoff.limit()) }},
		{name: "backoff.hint", shape: oneOf(hintWords), about: "What a server's Retry-After does: add = the jitter goes on top of it, clamp = it is moved into [t, t + 5s] around the drawn delay t.",
			value: func(p *Profile) string { return p.Backoff.Hint.String() }},

		{name: "budget.kind", shape: oneOf(kindWords), about: "The rule of the bucket: ratio = each unit of fund pays in; quota = the AWS SDKs' retry quota; throttle = gRPC's retry throttling; reserve = Finagle's and Linkerd's retry budget.",
			value: func(p *Profile) string { return p.Budget.Kind.String() }},
		{name: "budget.ratio", shape: share(rangeRatio), about: "What a unit of fund (throttle: a success) pays in; reserve: the share of the requests within ttl that may be repeated.",
			value: func(p *Profile) string { return show(p.Budget.Ratio) }},
		{name: "budget.fund", shape: oneOf(fundWords), about: "What pays in: successes, or requests, which go on in a full outage.",
			value: func(p *Profile) string { return p.Budget.Fund.String() }},
		{name: "budget.burst", shape: whole(rangeBurst), about: "Size of the bucket, and its level at the start; throttle: at most 1000.",
			value: func(p *Profile) string { return strconv.Itoa(p.Budget.Burst) }},
		{name: "budget.cost", shape: whole(rangeBurst), about: "Units that a retry takes after a transient failure.",
			value: func(p *Profile) string { return strconv.Itoa(p.Budget.Cost) }},
		{name: "budget.throttled_cost", shape: whole(rangeBurst), about: "Units that a retry takes after a throttled failure.",
			value: func(p *Profile) string { return strconv.Itoa(p.Budget.ThrottledCost) }},
		{name: "budget.min_per_second", shape: whole(rangeReserve), about: "Retries a second that each process may make whatever its traffic is.",
			value: func(p *Profile) string { return strconv.Itoa(p.Budget.MinPerSecond) }},
		{name: "budget.ttl", shape: duration(rangeTTL, ""), about: "How long a request counts.",
			value: func(p *Profile) string { return showDuration(p.Budget.TTL) }},

		{name: "breaker.window", shape: duration(rangeWindow, ""), about: "Rolling window that attempts are counted over.",
			value: func(p *Profile) string { return showDuration(p.Breaker.Window) }},
		{name: "breaker.failure_ratio", shape: share(rangeFailure), about: "It opens at this share of failures in the window.",
			value: func(p *Profile) string { return show(p.Breaker.FailureRatio) }},
		{name: "breaker.min_requests", shape: whole(rangeRequests), about: "And not before so many finished attempts are in the window.",
			value: func(p *Profile) string { return strconv.Itoa(p.Breaker.MinRequests) }},
		{name: "breaker.open_for", shape: duration(rangeOpen, ""), about: "How long it stays open, plus or minus 20 % drawn per process.",
			value: func(p *Profile) string { return showDuration(p.Breaker.OpenFor) }},
		{name: "breaker.probes", shape: whole(rangeProbes), about: "Attempts let through while half-open; all must succeed to close it.",
			value: func(p *Profile) string { return strconv.Itoa(p.Breaker.Probes) }},
		{name: "breaker.probe_timeout", shape: duration(rangeOpen, "0s = open_for, or a second more than an attempt_timeout that is not below it"), about: "After so long a probe without a result gives its permit back.",
			value: func(p *Profile) string { return showDuration(p.Breaker.ProbeTimeout) }},
		{name: "breaker.consecutive_failures", shape: whole(rangeOptional), about: "It opens after so many failures in a row, too; 0 = only by the ratio.",
			value: func(p *Profile) string { return strconv.Itoa(p.Breaker.ConsecutiveFailures) }},
		{name: "breaker.slow_call", shape: duration(rangeWait, "0s = none is slow"), about: "An attempt that takes so long counts as slow, whatever it answers.",
			value: func(p *Profile) string { return showDuration(p.Breaker.SlowCall) }},
		{name: "breaker.slow_ratio", shape: share(rangeFailure), about: "It opens at this share of slow attempts in the window; 50% where only slow_call is set.",
			value: func(p *Profile) string { return show(p.Breaker.SlowRatio) },
			used:  func(p *Profile) bool { return p.Breaker.SlowCall > 0 }},
		{name: "breaker.max_in_flight", shape: whole(rangeOptional), about: "Attempts that may be on their way at once; 0 = no limit.",
			value: func(p *Profile) string { return strconv.Itoa(p.Breaker.MaxInFlight) }},

		{name: "hedge.after", shape: duration(rangeHedgeAfter, ""), about: "Wait before each hedge.",
			value: func(p *Profile) string { return showDuration(p.Hedge.After) }},
		{name: "hedge.max", shape: whole(rangeHedges), about: "Hedges of one call, each one of its attempts; below max_attempts.",
			value: func(p *Profile) string { return strconv.Itoa(p.Hedge.Max) }},

		{name: "adaptive_throttle.k", shape: plain(rangeK), about: "How many times the accepted load goes through.",
			value: func(p *Profile) string { return showFactor(p.Throttle.K) }},
		{name: "adaptive_throttle.window", shape: duration(rangeLong, ""), about: "Window that requests and accepts are counted over.",
			value: func(p *Profile) string { return showDuration(p.Throttle.Window) }},

		{name: "process_budget", shape: whole(rangeOptional), about: "Retries a minute of one process with this profile; 0 = no limit.",
			value: func(p *Profile) string { return strconv.Itoa(p.ProcessBudget) }},
		{name: "availability_floor", shape: share(rangeShare), about: "No retry while the dependency's first-attempt success is below it; 0% = off.",
			value: func(p *Profile) string { return show(p.AvailabilityFloor) }},
		{name: "external", shape: trueFalse(), about: "Everything called with this profile belongs to somebody else: no tokens and headers go there.",
			value: func(p *Profile) string { return strconv.FormatBool(p.External) }},
	}
	for i, k := range list {
		key, ok := strings.CutPrefix(k.name, "budget.")
		for _, b := range budgetKeys {
			if ok && b.name == key {
				list[i].used = func(p *Profile) bool { return slices.Contains(b.kinds, p.Budget.Kind) }
			}
		}
	}
	return list
})

// settingsOf calls each with what the profile sets, in the fixed order: a group that is off as one key with the value
// "disabled", and no key that means nothing beside the others.
func settingsOf(p *Profile, each func(key, value string)) {
	var off string
	for _, k := range profileKeys() {
		group := k.group()
		if group != "" && group == off {
			continue
		}
		off = ""
		for _, g := range profileGroups {
			if g.name == group && !g.on(p) {
				off = group
			}
		}
		switch {
		case off != "":
			each(off, "disabled")
		case k.used == nil || k.used(p):
			each(k.name, k.value(p))
		}
	}
}

// A chainKey is one setting of the chain, as a profileKey is one of a profile.
type chainKey struct {
	name  string
	about string
	shape shape
	value func(*Chain) string
}

var chainKeys = sync.OnceValue(func() []chainKey {
	return []chainKey{
		{"mode", "How much of the SDK acts on its findings, for dependencies that set none.", oneOf(modeWords),
			func(c *Chain) string { return c.mode().String() }},
		{"budget", "Tokens that an entry mints: retries of one chain, anywhere in it. At most max_budget.", whole(rangeTokens),
			func(c *Chain) string { return strconv.Itoa(c.Budget) }},
		{"max_budget", "Largest grant that is believed.", whole(rangeTokens),
			func(c *Chain) string { return strconv.Itoa(c.MaxBudget) }},
		{"orphan_budget", "Tokens that a hop mints that was given nothing. At most max_budget.", whole(rangeTokens),
			func(c *Chain) string { return strconv.Itoa(c.OrphanBudget) }},
		{"process_budget", "Retries a minute of the whole process; 0 = no limit.", whole(rangeOptional),
			func(c *Chain) string { return strconv.Itoa(c.ProcessBudget) }},
		{"deadlines", "Whether the time left for an attempt goes to the callee.", oneOf(deadlinesWords),
			func(c *Chain) string { return c.Deadlines.String() }},
		{"unknown", "Whose failure it is when nothing tells: compare = downstream's unless failure rates say otherwise, claim = ours.", oneOf(unknownWords),
			func(c *Chain) string { return c.Unknown.String() }},
		{"learn", "Whether what the edges have taught decides claims (enforce) or is only shown (observe).", oneOf(learningWords),
			func(c *Chain) string { return c.Learn.String() }},
		{"holdout", "Share of ownership's refusals that are let through, to measure them.", share(rangeShare),
			func(c *Chain) string { return show(c.Holdout) }},
		{"grace", "How long a digest of the previous catalog counts as older and not as divergent.", duration(rangeGrace, ""),
			func(c *Chain) string { return showDuration(c.Grace) }},
	}
})

// mode is the mode of dependencies that set none; a Chain made in code may leave it unset.
func (c *Chain) mode() Mode {
	if c.Mode == ModeInherit {
		return ModeEnforce
	}
	return c.Mode
}

// showDuration writes 1m30s and 1h, not 1m30s and 1h0m0s.
func showDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func showFactor(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func showStatuses(statuses []int) string {
	list := make([]string, len(statuses))
	for i, s := range statuses {
		list[i] = strconv.Itoa(s)
	}
	return "[" + strings.Join(list, ", ") + "]"
}
