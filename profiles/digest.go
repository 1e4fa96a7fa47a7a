package profiles

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// SchemaVersion is the version of the catalog's keys and of their defaults. Digests are bound to it.
const SchemaVersion = 1

// Digest returns 8 lower-case hex digits that stand for every setting of the profile: the beginning of the SHA-256 of
// its canonical form. Two profiles have the same digest if they do the same, however their files spell it. Its name and
// what it extends are not part of it: the name travels beside the digest, so that a renamed profile and a
// changed one can be told apart. It is computed on each call; keep it where it is needed often.
func (p *Profile) Digest() string {
	return digest(p.canonical())
}

// Digest returns 8 lower-case hex digits that stand for everything that holds under the catalog, the built-in profiles
// included: two catalogs that mean the same have the same one, however many files they are made of and in whatever order
// and spelling. [Catalog.Source] is not part of it. It is computed on each call.
func (c *Catalog) Digest() string { return digest(c.orBuiltin().canonical()) }

func digest(canonical string) string {
	sum := sha256.Sum256([]byte(canonical))
	return hex.EncodeToString(sum[:4])
}

// canonical writes one line "key=value" for each setting that differs from the schema's default, sorted by key, below
// a line with the schema's version. Durations are in nanoseconds, ratios are the shortest decimals that read back the
// same, lists are sorted. A key that a later minor change adds with a default leaves old digests as they are.
func (p *Profile) canonical() string {
	own, unset := p.settings(), Default()
	unset.Retry.MaxAttempts = 0 // not a default: every profile states it
	base := unset.settings()
	var b strings.Builder
	b.WriteString("chainbudget profile v" + strconv.Itoa(SchemaVersion) + "\n")
	for i, s := range own {
		if s != base[i] {
			b.WriteString(s + "\n")
		}
	}
	return b.String()
}

// settings lists all of them in the order of their keys.
func (p *Profile) settings() []string {
	statuses := slices.Clone(p.Retry.Statuses)
	slices.Sort(statuses)
	list := make([]string, len(statuses))
	for i, s := range statuses {
		list[i] = strconv.Itoa(s)
	}
	integer := strconv.Itoa
	ratio := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	return []string{
		"adaptive_throttle.k=" + ratio(p.Throttle.K),
		"adaptive_throttle.window=" + nanos(p.Throttle.Window),
		"availability_floor=" + ratio(p.AvailabilityFloor),
		"backoff.base=" + nanos(p.Backoff.Base),
		"backoff.cap=" + nanos(p.Backoff.Cap),
		"backoff.hint=" + p.Backoff.Hint.String(),
		"backoff.throttled_base=" + nanos(p.Backoff.ThrottledBase),
		"breaker.consecutive_failures=" + integer(p.Breaker.ConsecutiveFailures),
		"breaker.failure_ratio=" + ratio(p.Breaker.FailureRatio),
		"breaker.max_in_flight=" + integer(p.Breaker.MaxInFlight),
		"breaker.min_requests=" + integer(p.Breaker.MinRequests),
		"breaker.open_for=" + nanos(p.Breaker.OpenFor),
		"breaker.probe_timeout=" + nanos(p.Breaker.ProbeTimeout),
		"breaker.probes=" + integer(p.Breaker.Probes),
		"breaker.slow_call=" + nanos(p.Breaker.SlowCall),
		"breaker.slow_ratio=" + ratio(p.Breaker.SlowRatio),
		"breaker.window=" + nanos(p.Breaker.Window),
		"budget.burst=" + integer(p.Budget.Burst),
		"budget.cost=" + integer(p.Budget.Cost),
		"budget.fund=" + p.Budget.Fund.String(),
		"budget.kind=" + p.Budget.Kind.String(),
		"budget.min_per_second=" + integer(p.Budget.MinPerSecond),
		"budget.ratio=" + ratio(p.Budget.Ratio),
		"budget.throttled_cost=" + integer(p.Budget.ThrottledCost),
		"budget.ttl=" + nanos(p.Budget.TTL),
		"external=" + strconv.FormatBool(p.External),
		"hedge.after=" + nanos(p.Hedge.After),
		"hedge.max=" + integer(p.Hedge.Max),
		"process_budget=" + integer(p.ProcessBudget),
		"retry.attempt_timeout=" + nanos(p.Retry.AttemptTimeout),
		"retry.max_attempts=" + integer(p.Retry.MaxAttempts),
		"retry.missing=" + p.Retry.Missing.String(),
		"retry.repeats=" + p.Retry.Repeats.String(),
		"retry.reserve=" + integer(p.Retry.Reserve),
		"retry.statuses=" + strings.Join(list, ","),
		"retry.timeout=" + nanos(p.Retry.Timeout),
	}
}

func nanos[D ~int64](d D) string { return strconv.FormatInt(int64(d), 10) }
