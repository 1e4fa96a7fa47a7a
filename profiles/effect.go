package profiles

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// situation is one side of a comparison: what holds for a dependency, or for a profile by itself.
type situation struct {
	catalog    *Catalog
	dependency string   // "" = none
	profile    *Profile // nil = code chooses it
	mode       Mode
}

// effect is one consequence of some settings. It is told where it differs, beside the first of its keys that changed.
type effect struct {
	keys []string                         // in the order in which it is looked for them
	what string                           // what the two values are of
	says func(s *situation) string        // the value; "" = it cannot be said
	note func(old, new *situation) string // stands behind the two values; nil = nothing
	tell func(old, new *situation) string // the whole sentence; nil = what, the two values and note
}

// explain writes what the changes mean beside them: each effect beside the first of its keys that changed.
func (d *differ) explain(changes []Change, effects []effect, old, new *situation) {
	for _, e := range effects {
		at := -1
		for _, key := range e.keys {
			// A group that changed as a whole has the group's name.
			group, _, _ := strings.Cut(key, ".")
			if at = slices.IndexFunc(changes, func(c Change) bool { return c.Key == key || c.Key == group }); at >= 0 {
				break
			}
		}
		if at < 0 {
			continue
		}
		if text := e.text(old, new); text != "" {
			changes[at].Means = append(changes[at].Means, text)
		}
	}
}

// text is the sentence about an effect, "" if there is none.
func (e *effect) text(old, new *situation) string {
	was, is := e.says(old), e.says(new)
	if was == is || was == "" || is == "" {
		return ""
	}
	if e.tell != nil {
		return e.tell(old, new)
	}
	what := strings.ReplaceAll(e.what, "DEPENDENCY", clip(new.dependency, maxText))
	if new.dependency == "" {
		what = strings.ReplaceAll(e.what, " at DEPENDENCY", "")
	}
	text := what + ": " + was + " -> " + is
	if e.note != nil {
		text += e.note(old, new)
	}
	return text
}

var budgetNames = []string{"budget.kind", "budget.ratio", "budget.fund", "budget.burst", "budget.cost", "budget.throttled_cost",
	"budget.min_per_second", "budget.ttl", "process_budget", "retry.max_attempts", "profile"}

// profileEffects are the consequences of a profile's settings, in the order in which they are told.
var profileEffects = []effect{
	{
		keys: []string{"retry.max_attempts", "profile"},
		what: "worst case at DEPENDENCY, of one call",
		says: func(s *situation) string { return s.ifProfile(s.attempts) },
		note: func(_, new *situation) string {
			if new.mode < ModeBudget {
				return "; in mode " + new.mode.String() + " no budget of the chain caps that"
			}
			tokens := new.catalog.mostTokens()
			return fmt.Sprintf("; with budget %d a chain still makes at most %s on one path", tokens, chainAttempts(tokens))
		},
	},
	{
		keys: []string{"retry.attempt_timeout", "retry.timeout", "retry.max_attempts", "backoff.base", "backoff.cap", "profile"},
		what: "a call whose every attempt times out takes at most",
		says: func(s *situation) string { return s.ifProfile(s.longest) },
	},
	{
		keys: []string{"retry.statuses", "profile"},
		says: func(s *situation) string {
			return s.ifProfile(func() string { return showStatuses(s.profile.Retry.Statuses) })
		},
		tell: func(old, new *situation) string {
			more, less := beyond(new, old), beyond(old, new)
			var list []string
			if len(more) > 0 {
				list = append(list, "repeated from now on: "+showStatuses(more))
			}
			if len(less) > 0 {
				list = append(list, "no longer: "+showStatuses(less))
			}
			if slices.Contains(more, 500) {
				list = append(list, "a 500 is mostly a bug, which fails again")
			}
			return strings.Join(list, "; ")
		},
	},
	{
		keys: []string{"backoff.base", "backoff.cap", "retry.max_attempts", "profile"},
		what: "waits before the retries, each drawn from 0 up to",
		says: func(s *situation) string { return s.ifProfile(func() string { return s.ceilings(false) }) },
	},
	{
		keys: []string{"backoff.throttled_base", "backoff.cap", "retry.max_attempts", "profile"},
		what: "the same after a throttled answer",
		says: func(s *situation) string { return s.ifProfile(func() string { return s.ceilings(true) }) },
	},
	{
		keys: []string{"backoff.hint", "profile"},
		what: "when a server asks to wait, the retry comes",
		says: func(s *situation) string {
			return s.ifProfile(func() string {
				if s.profile.Backoff.Hint == HintClamp {
					return "at most 5s after the drawn delay, even if that is sooner than it asked"
				}
				return "no sooner than it asked, and not at all if that is beyond " + showDuration(s.profile.Backoff.limit())
			})
		},
	},
	{
		keys: []string{"retry.repeats", "profile"},
		what: "a loop around the SDK that repeats a failed call",
		says: func(s *situation) string {
			return s.ifProfile(func() string { return repeatsMean[s.profile.Retry.Repeats] })
		},
	},
	{
		keys: []string{"retry.missing", "profile"},
		what: "a failure that comes without a claim, from a dependency without the SDK",
		says: func(s *situation) string {
			return s.ifProfile(func() string { return missingMean[s.profile.Retry.Missing] })
		},
	},
	{
		keys: []string{"retry.reserve", "profile"},
		what: "tokens of a request that its callees cannot use",
		says: func(s *situation) string {
			return s.ifProfile(func() string { return strconv.Itoa(s.profile.Retry.Reserve) })
		},
	},
	{
		keys: budgetNames,
		what: "retries of each process in a full outage, breaker and floor aside",
		says: func(s *situation) string { return s.ifProfile(s.outage) },
	},
	{
		keys: budgetNames,
		what: "load that retries may add while most calls succeed",
		says: func(s *situation) string { return s.ifProfile(s.steady) },
	},
	{
		keys: []string{"breaker.min_requests", "breaker.consecutive_failures", "breaker.window", "breaker.failure_ratio", "profile"},
		what: "when every attempt fails the breaker opens",
		says: func(s *situation) string { return s.ifProfile(s.opens) },
	},
	{
		keys: []string{"breaker.failure_ratio", "profile"},
		what: "it opens at failures of",
		says: func(s *situation) string {
			return s.ifBreaker(func(b *Breaker) string { return show(b.FailureRatio) })
		},
	},
	{
		keys: []string{"breaker.open_for", "profile"},
		what: "once open it lets nothing out for",
		says: func(s *situation) string {
			return s.ifBreaker(func(b *Breaker) string {
				return showDuration(b.OpenFor*4/5) + " to " + showDuration(b.OpenFor*6/5)
			})
		},
	},
	{
		keys: []string{"breaker.slow_call", "breaker.slow_ratio", "profile"},
		what: "slow answers open it",
		says: func(s *situation) string {
			return s.ifBreaker(func(b *Breaker) string {
				if b.SlowCall == 0 {
					return "never"
				}
				return "when " + show(b.SlowRatio) + " of attempts take " + showDuration(b.SlowCall) + " or more"
			})
		},
	},
	{
		keys: []string{"breaker.max_in_flight", "profile"},
		what: "attempts on their way at once, in each process",
		says: func(s *situation) string {
			return s.ifBreaker(func(b *Breaker) string { return limit(b.MaxInFlight) })
		},
	},
	{
		keys: []string{"hedge.max", "hedge.after", "profile"},
		what: "hedges of a slow call",
		says: func(s *situation) string {
			return s.ifProfile(func() string {
				if !s.profile.Hedge.Enabled() {
					return none
				}
				return fmt.Sprintf("up to %d, one every %s", s.profile.Hedge.Max, showDuration(s.profile.Hedge.After))
			})
		},
	},
	{
		keys: []string{"adaptive_throttle.k", "adaptive_throttle.window", "profile"},
		what: "attempts that each process refuses by itself",
		says: func(s *situation) string {
			return s.ifProfile(func() string {
				if !s.profile.Throttle.Enabled() {
					return "none"
				}
				return "what is beyond " + showFactor(s.profile.Throttle.K) + " times the accepted load"
			})
		},
	},
	{
		keys: []string{"process_budget", "profile"},
		what: "retries a minute of each process with this profile",
		says: func(s *situation) string {
			return s.ifProfile(func() string { return limit(s.profile.ProcessBudget) })
		},
	},
	{
		keys: []string{"availability_floor", "profile"},
		what: "retries stop below a first-attempt success of",
		says: func(s *situation) string {
			return s.ifProfile(func() string {
				if s.profile.AvailabilityFloor == 0 {
					return "nothing: they never stop for that"
				}
				return show(s.profile.AvailabilityFloor)
			})
		},
	},
	{
		keys: []string{"mode"},
		what: "in force",
		says: func(s *situation) string { return modeMeans[s.mode] },
	},
}

// chainEffects are the consequences of the chain's settings.
var chainEffects = []effect{
	{
		keys: []string{"budget"},
		what: "attempts that one chain brings to a service on one path, at most",
		says: func(s *situation) string { return chainAttempts(s.catalog.Chain.Budget) },
		note: func(_, new *situation) string {
			if new.catalog.Chain.mode() < ModeBudget {
				return "; in mode " + new.catalog.Chain.mode().String() + " that is counted and not enforced"
			}
			return ""
		},
	},
	{
		keys: []string{"max_budget"},
		what: "a larger grant is cut to",
		says: func(s *situation) string { return strconv.Itoa(s.catalog.Chain.MaxBudget) },
	},
	{
		keys: []string{"orphan_budget"},
		what: "retries of each hop that was given no budget",
		says: func(s *situation) string { return strconv.Itoa(s.catalog.Chain.OrphanBudget) },
	},
	{
		keys: []string{"process_budget"},
		what: "retries a minute of each process",
		says: func(s *situation) string { return limit(s.catalog.Chain.ProcessBudget) },
	},
	{
		keys: []string{"holdout"},
		what: "of the retries that ownership refuses, made all the same",
		says: func(s *situation) string { return show(s.catalog.Chain.Holdout) },
	},
	{
		keys: []string{"deadlines"},
		what: "callees go on working after their caller has given up",
		says: func(s *situation) string {
			if s.catalog.Chain.Deadlines == DeadlinesIgnore {
				return "as long as they like"
			}
			return "no longer than the caller waits"
		},
	},
	{
		keys: []string{"mode"},
		what: "in force, for dependencies that set none",
		says: func(s *situation) string { return modeMeans[s.catalog.Chain.mode()] },
	},
}

var modeMeans = map[Mode]string{
	ModeBypass:  "nothing: one attempt, no gates, no breaker",
	ModeObserve: "the profile's own gates; what the chain, ownership and the floor refuse is counted and goes on",
	ModeBudget:  "everything but ownership: two hops may repeat the same failure",
	ModeEnforce: "everything",
}

var repeatsMean = map[Repeats]string{RepeatsCount: "is counted", RepeatsCharge: "pays a token of the chain", RepeatsRefuse: "is refused"}

var missingMean = map[Missing]string{MissingRetry: "may be repeated here", MissingStop: "is not repeated"}

var onFailureMeans = map[OnFailure]string{
	OnFailureUndeclared: "whether its failure is its caller's is learned",
	OnFailureClosed:     "its failure is its caller's: retries happen beside it and nowhere above",
	OnFailureOpen:       "its caller answers without it: a failure of that caller is another's, and claimed as such",
}

var placements = map[string]string{
	"by":       "each host decides whether tokens go there",
	"internal": "tokens and headers go there",
	"external": "no tokens and headers go there; attempts to it lend nothing",
}

func (s *situation) ifProfile(says func() string) string {
	if s.profile == nil {
		return ""
	}
	return says()
}

func (s *situation) ifBreaker(says func(*Breaker) string) string {
	if s.profile == nil || !s.profile.Breaker.Enabled() {
		return ""
	}
	return says(&s.profile.Breaker)
}

// beyond lists the statuses that s repeats and other does not.
func beyond(s, other *situation) []int {
	return slices.DeleteFunc(slices.Clone(s.profile.Retry.Statuses), other.profile.Retry.RetryStatus)
}

// mostTokens is the largest budget that an entry or an orphan mints by this catalog.
func (c *Catalog) mostTokens() int {
	most := max(c.Chain.Budget, c.Chain.OrphanBudget)
	for _, s := range c.Services {
		for _, route := range s.Routes {
			most = max(most, route.Budget)
		}
	}
	return most
}

// chainAttempts writes I2: the attempts that reach a service on one path.
func chainAttempts(tokens int) string { return fmt.Sprintf("1 + %d", tokens) }

// callAttempts is how many attempts one call makes at most.
func (s *situation) callAttempts() int {
	n := s.profile.Retry.Attempts()
	if s.mode >= ModeBudget || s.mode == ModeInherit {
		n = min(n, 1+s.catalog.mostTokens()) // each further one costs a token
	}
	if s.mode == ModeBypass {
		n = 1
	}
	return n
}

func (s *situation) attempts() string {
	n := s.callAttempts()
	text := strconv.Itoa(n) + " attempt"
	if n != 1 {
		text += "s"
	}
	if own := s.profile.Retry.Attempts(); own > n && s.mode != ModeBypass {
		text += fmt.Sprintf(" (of its %d, because the chain's tokens end first)", own)
	}
	return text
}

// longest is how long a call takes when every attempt runs into its limit and every wait is the longest that can be drawn.
// Hints make waits longer.
func (s *situation) longest() string {
	r, b := &s.profile.Retry, s.profile.Backoff
	n := s.callAttempts()
	if r.AttemptTimeout == 0 {
		if r.Timeout > 0 {
			return showDuration(r.Timeout)
		}
		return "as long as its context allows"
	}
	total := time.Duration(n) * r.AttemptTimeout // at most 99 hours
	for i := range n - 1 {
		total += b.Ceiling(i, false)
	}
	if r.Timeout > 0 {
		total = min(total, r.Timeout)
	}
	return showDuration(total)
}

// ceilings lists the longest waits before each retry, the first few of them.
func (s *situation) ceilings(throttled bool) string {
	const most = 6
	n := s.callAttempts() - 1
	if n == 0 {
		return "no retry"
	}
	var list []string
	for i := range min(n, most) {
		list = append(list, showDuration(s.profile.Backoff.Ceiling(i, throttled)))
	}
	if n > most {
		list = append(list, "...")
	}
	return strings.Join(list, ", ")
}

// outage says how many retries the budgets of the dependency and of the process let through when nothing succeeds any more.
func (s *situation) outage() string { return s.retries().String() }

// ratioOf writes 10 % as what people count.
func ratioOf(ratio float64, of string) string {
	return strings.TrimSuffix(show(ratio), "%") + " % of " + of
}

// steady says how much load retries may add for long.
func (s *situation) steady() string {
	b := s.profile.Budget
	n := s.callAttempts() - 1
	if n == 0 {
		return "nothing"
	}
	if !b.Enabled() {
		return fmt.Sprintf("%d %%", n*100)
	}
	switch b.Kind {
	case BudgetQuota:
		return fmt.Sprintf("a retry for each %d first attempts that succeed, beside those that help", b.Cost)
	case BudgetThrottle:
		return fmt.Sprintf("no limit until failures outnumber %s of successes", show(b.Ratio))
	case BudgetReserve:
		text := ratioOf(b.Ratio, "requests")
		if b.MinPerSecond > 0 {
			text += fmt.Sprintf(" and %d a second in each process", b.MinPerSecond)
		}
		return text
	}
	return ratioOf(min(b.Ratio, float64(n)), b.Fund.String())
}

// opens says when the breaker opens if nothing succeeds.
func (s *situation) opens() string {
	b := &s.profile.Breaker
	if !b.Enabled() {
		return "never: there is none"
	}
	byRatio := fmt.Sprintf("after %d in a process, if they come within %s", b.MinRequests, showDuration(b.Window))
	switch {
	case b.ConsecutiveFailures > 0 && b.ConsecutiveFailures <= b.MinRequests:
		return fmt.Sprintf("after %d in a process", b.ConsecutiveFailures)
	case b.ConsecutiveFailures > 0:
		return byRatio + fmt.Sprintf(", else after %d", b.ConsecutiveFailures)
	}
	return byRatio
}

func limit(n int) string {
	if n == 0 {
		return "no limit"
	}
	return "at most " + strconv.Itoa(n)
}

// summary is what matters about a profile that is new.
func (s *situation) summary() string {
	return s.attempts() + " a call at most; retries of each process in a full outage, breaker and floor aside: " + s.outage()
}
