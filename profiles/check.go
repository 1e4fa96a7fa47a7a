package profiles

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// The ranges of all settings, ends included. The loader and Validate both read them here, and nowhere else.
var (
	rangeAttempts   = span[int]{1, 99}
	rangeTokens     = span[int]{0, 99}
	rangeStatus     = span[int]{400, 599}
	rangeBurst      = span[int]{1, 100_000}
	rangeThrottle   = span[int]{1, 1000} // burst of kind throttle: gRPC's range of maxTokens
	rangeReserve    = span[int]{0, 100_000}
	rangeOptional   = span[int]{0, 1_000_000}
	rangeRequests   = span[int]{1, 1_000_000}
	rangeProbes     = span[int]{1, 1000}
	rangeHedges     = span[int]{1, 9}
	rangeTimeout    = span[time.Duration]{0, time.Hour}
	rangeWait       = span[time.Duration]{time.Millisecond, time.Hour}
	rangeWindow     = span[time.Duration]{100 * time.Millisecond, time.Hour}
	rangeOpen       = span[time.Duration]{10 * time.Millisecond, time.Hour}
	rangeHedgeAfter = span[time.Duration]{time.Millisecond, time.Minute}
	rangeTTL        = span[time.Duration]{time.Second, time.Minute}
	rangeLong       = span[time.Duration]{time.Second, time.Hour}
	rangeGrace      = span[time.Duration]{0, 7 * 24 * time.Hour}
	rangeRatio      = span[float64]{0.0001, 1}
	rangeFailure    = span[float64]{0.01, 1}
	rangeShare      = span[float64]{0, 1}
	rangeK          = span[factor]{1.01, 100}
	maxNameLen      = 100    // bytes of the name of a dependency, a service or an owner
	maxEntries      = 10_000 // of one list or mapping
	fixProfileName  = "use 1 to 40 of a-z, 0-9, _ and -"
	maxProfileName  = 40
	maxStatuses     = 40 // in one list
)

// factor is a plain number, where a float64 is a share that is shown in percent.
type factor float64

type span[T cmp.Ordered] struct{ min, max T }

func (s span[T]) holds(v T) bool { return v >= s.min && v <= s.max } // false for NaN

func (s span[T]) String() string { return show(s.min) + " to " + show(s.max) }

// show writes a value as a catalog would.
func show(v any) string {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
		return strconv.FormatFloat(v*100, 'g', 6, 64) + "%"
	default:
		return fmt.Sprint(v)
	}
}

// reportFunc takes one problem; keys are the settings it is about, relative to the profile, the one to blame first.
type reportFunc func(what, fix string, keys ...string)

func checkRange[T cmp.Ordered](report reportFunc, r span[T], v T, key string) {
	if !r.holds(v) {
		report(show(v)+" is out of range", "use "+r.String(), key)
	}
}

// checkProfile is the one place that says which profiles are valid. A group whose settings are all zero is off, unless a
// file wrote one of them: there the word for that is disabled, and a zero is out of range as any other number.
func checkProfile(p *Profile, written func(group string) bool, report reportFunc) {
	checkRetry(&p.Retry, report)
	b := p.Backoff
	checkRange(report, rangeWait, b.Base, "backoff.base")
	checkRange(report, rangeWait, b.ThrottledBase, "backoff.throttled_base")
	checkRange(report, rangeWait, b.Cap, "backoff.cap")
	checkWord(report, hintWords, uint8(b.Hint), "backoff.hint")
	// Of a value that is out of range it would say nothing new.
	inRange := rangeWait.holds(b.Cap)
	if inRange && rangeWait.holds(b.Base) && b.Base > b.Cap {
		report(fmt.Sprintf("base %v is above cap %v", b.Base, b.Cap), "lower base or raise cap", "backoff.base", "backoff.cap")
	}
	if inRange && rangeWait.holds(b.ThrottledBase) && b.ThrottledBase > b.Cap {
		report(fmt.Sprintf("throttled_base %v is above cap %v", b.ThrottledBase, b.Cap),
			"lower throttled_base or raise cap", "backoff.throttled_base", "backoff.cap")
	}
	if p.Budget != (Budget{}) || written("budget") {
		checkBudget(p.Budget, report)
	}
	if p.Breaker != (Breaker{}) || written("breaker") {
		checkBreaker(p.Breaker, report)
	}
	if p.Hedge != (Hedge{}) || written("hedge") {
		checkHedge(p, report)
	}
	checkTimes(p, report)
	if p.Throttle != (Throttle{}) || written("adaptive_throttle") {
		checkRange(report, rangeK, factor(p.Throttle.K), "adaptive_throttle.k")
		checkRange(report, rangeLong, p.Throttle.Window, "adaptive_throttle.window")
	}
	checkRange(report, rangeOptional, p.ProcessBudget, "process_budget")
	checkRange(report, rangeShare, p.AvailabilityFloor, "availability_floor")
}

func checkRetry(r *Retry, report reportFunc) {
	checkRange(report, rangeAttempts, r.MaxAttempts, "retry.max_attempts")
	checkStatuses(r.Statuses, "retry.statuses", report)
	checkRange(report, rangeTimeout, r.AttemptTimeout, "retry.attempt_timeout")
	checkRange(report, rangeTimeout, r.Timeout, "retry.timeout")
	checkRange(report, rangeTokens, r.Reserve, "retry.reserve")
	checkWord(report, repeatsWords, uint8(r.Repeats), "retry.repeats")
	checkWord(report, missingWords, uint8(r.Missing), "retry.missing")
}

func checkStatuses(statuses []int, key string, report reportFunc) {
	if len(statuses) > maxStatuses {
		report(fmt.Sprintf("%d statuses", len(statuses)), fmt.Sprintf("list at most %d", maxStatuses), key)
		return
	}
	for i, s := range statuses {
		at := key + "[" + strconv.Itoa(i) + "]"
		checkRange(report, rangeStatus, s, at)
		if slices.Contains(statuses[:i], s) {
			report(fmt.Sprintf("%d is listed twice", s), "list it once", at)
		}
	}
}

// budgetKeys are the settings of a budget that only some kinds have.
var budgetKeys = []struct {
	name  string
	kinds []BudgetKind
	set   func(Budget) bool
}{
	{"ratio", []BudgetKind{BudgetRatio, BudgetThrottle, BudgetReserve}, func(b Budget) bool { return b.Ratio != 0 }},
	{"fund", []BudgetKind{BudgetRatio}, func(b Budget) bool { return b.Fund != FundSuccesses }},
	{"burst", []BudgetKind{BudgetRatio, BudgetQuota, BudgetThrottle}, func(b Budget) bool { return b.Burst != 0 }},
	{"cost", []BudgetKind{BudgetQuota}, func(b Budget) bool { return b.Cost != 0 }},
	{"throttled_cost", []BudgetKind{BudgetQuota}, func(b Budget) bool { return b.ThrottledCost != 0 }},
	{"min_per_second", []BudgetKind{BudgetReserve}, func(b Budget) bool { return b.MinPerSecond != 0 }},
	{"ttl", []BudgetKind{BudgetReserve}, func(b Budget) bool { return b.TTL != 0 }},
}

func checkBudget(b Budget, report reportFunc) {
	checkWord(report, kindWords, uint8(b.Kind), "budget.kind")
	checkWord(report, fundWords, uint8(b.Fund), "budget.fund")
	for _, k := range budgetKeys {
		// What belongs to a kind that does not exist cannot be said.
		if int(b.Kind) < len(kindWords) && k.set(b) && !slices.Contains(k.kinds, b.Kind) {
			kinds := alternatives(k.kinds)
			report(k.name+" belongs to kind: "+kinds, "remove it, or set kind: "+kinds, "budget."+k.name, "budget.kind")
		}
	}
	switch b.Kind {
	case BudgetQuota:
		checkQuota(b, report)
	case BudgetThrottle:
		checkRange(report, rangeRatio, b.Ratio, "budget.ratio")
		checkRange(report, rangeThrottle, b.Burst, "budget.burst")
	case BudgetReserve:
		checkRange(report, rangeRatio, b.Ratio, "budget.ratio")
		checkRange(report, rangeReserve, b.MinPerSecond, "budget.min_per_second")
		checkRange(report, rangeTTL, b.TTL, "budget.ttl")
	default:
		checkRange(report, rangeRatio, b.Ratio, "budget.ratio")
		checkRange(report, rangeBurst, b.Burst, "budget.burst")
	}
}

// alternatives writes "a, b or c".
func alternatives(kinds []BudgetKind) string {
	list := kinds[0].String()
	for i, k := range kinds[1:] {
		if i == len(kinds)-2 {
			list += " or " + k.String()
		} else {
			list += ", " + k.String()
		}
	}
	return list
}

func checkQuota(b Budget, report reportFunc) {
	checkRange(report, rangeBurst, b.Burst, "budget.burst")
	checkRange(report, rangeBurst, b.Cost, "budget.cost")
	checkRange(report, rangeBurst, b.ThrottledCost, "budget.throttled_cost")
	if rangeBurst.holds(b.Burst) && rangeBurst.holds(b.Cost) && b.Cost > b.Burst {
		report(fmt.Sprintf("cost %d is above burst %d: no retry would ever pass", b.Cost, b.Burst),
			"lower cost or raise burst", "budget.cost", "budget.burst")
	}
	if rangeBurst.holds(b.Burst) && rangeBurst.holds(b.ThrottledCost) && b.ThrottledCost > b.Burst {
		report(fmt.Sprintf("throttled_cost %d is above burst %d: no such retry would ever pass", b.ThrottledCost, b.Burst),
			"lower throttled_cost or raise burst", "budget.throttled_cost", "budget.burst")
	}
}

func checkBreaker(b Breaker, report reportFunc) {
	checkRange(report, rangeWindow, b.Window, "breaker.window")
	checkRange(report, rangeFailure, b.FailureRatio, "breaker.failure_ratio")
	checkRange(report, rangeRequests, b.MinRequests, "breaker.min_requests")
	checkRange(report, rangeOpen, b.OpenFor, "breaker.open_for")
	checkRange(report, rangeProbes, b.Probes, "breaker.probes")
	if b.ProbeTimeout != 0 {
		checkRange(report, rangeOpen, b.ProbeTimeout, "breaker.probe_timeout")
	}
	checkRange(report, rangeOptional, b.ConsecutiveFailures, "breaker.consecutive_failures")
	checkRange(report, rangeOptional, b.MaxInFlight, "breaker.max_in_flight")
	switch {
	case b.SlowCall != 0:
		checkRange(report, rangeWait, b.SlowCall, "breaker.slow_call")
		checkRange(report, rangeFailure, b.SlowRatio, "breaker.slow_ratio")
	case b.SlowRatio != 0:
		report("slow_ratio means nothing without slow_call", "set slow_call, or remove slow_ratio", "breaker.slow_ratio", "breaker.slow_call")
	}
}

// checkTimes compares limits of time that stand in different groups. Of a value out of range it would say nothing new.
func checkTimes(p *Profile, report reportFunc) {
	attempt, whole, slow := p.Retry.AttemptTimeout, p.Retry.Timeout, p.Breaker.SlowCall
	inRange := rangeTimeout.holds(attempt) && rangeTimeout.holds(whole)
	if inRange && attempt > 0 && whole > 0 && attempt >= whole {
		report(fmt.Sprintf("attempt_timeout %v is not below timeout %v: it never acts", attempt, whole),
			"lower attempt_timeout or raise timeout, which spans all attempts", "retry.attempt_timeout", "retry.timeout")
	}
	if !inRange || !rangeWait.holds(slow) {
		return
	}
	switch {
	case attempt > 0 && slow >= attempt:
		report(fmt.Sprintf("slow_call %v is not below attempt_timeout %v: no attempt is ever seen as slow", slow, attempt),
			"lower slow_call or raise retry.attempt_timeout", "breaker.slow_call", "retry.attempt_timeout")
	case whole > 0 && slow >= whole:
		report(fmt.Sprintf("slow_call %v is not below timeout %v: no attempt is ever seen as slow", slow, whole),
			"lower slow_call or raise retry.timeout", "breaker.slow_call", "retry.timeout")
	}
}

func checkHedge(p *Profile, report reportFunc) {
	h := p.Hedge
	checkRange(report, rangeHedgeAfter, h.After, "hedge.after")
	checkRange(report, rangeHedges, h.Max, "hedge.max")
	if rangeHedges.holds(h.Max) && rangeAttempts.holds(p.Retry.MaxAttempts) && h.Max >= p.Retry.MaxAttempts {
		report(fmt.Sprintf("%d hedges and the first attempt are more than max_attempts %d", h.Max, p.Retry.MaxAttempts),
			"lower max or raise retry.max_attempts", "hedge.max", "retry.max_attempts")
	}
	if limit := p.Retry.AttemptTimeout; limit > 0 && rangeTimeout.holds(limit) && rangeHedgeAfter.holds(h.After) && h.After >= limit {
		report(fmt.Sprintf("after %v never comes before attempt_timeout %v", h.After, limit),
			"lower after or raise retry.attempt_timeout", "hedge.after", "retry.attempt_timeout")
	}
	if limit := p.Retry.Timeout; limit > 0 && rangeTimeout.holds(limit) && rangeHedgeAfter.holds(h.After) && h.After >= limit {
		report(fmt.Sprintf("after %v never comes before timeout %v", h.After, limit),
			"lower after or raise retry.timeout", "hedge.after", "retry.timeout")
	}
}

func checkWord(report reportFunc, words []string, v uint8, key string) {
	if int(v) >= len(words) {
		report(fmt.Sprintf("%d is not one of its constants", v), "use "+listNames(words), key)
	}
}

func validProfileName(s string) bool {
	if s == "" || len(s) > maxProfileName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
