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
	rangeRequests   = span[int]{1, 1_000_000}
	rangeProbes     = span[int]{1, 1000}
	rangeHedges     = span[int]{1, 9}
	rangeProcess    = span[int]{0, 1_000_000}
	rangeTimeout    = span[time.Duration]{0, time.Hour}
	rangeWait       = span[time.Duration]{time.Millisecond, time.Hour}
	rangeWindow     = span[time.Duration]{100 * time.Millisecond, time.Hour}
	rangeOpen       = span[time.Duration]{10 * time.Millisecond, time.Hour}
	rangeHedgeAfter = span[time.Duration]{time.Millisecond, time.Minute}
	rangeGrace      = span[time.Duration]{0, 7 * 24 * time.Hour}
	rangeRatio      = span[float64]{0.0001, 1}
	rangeFailure    = span[float64]{0.01, 1}
	rangeShare      = span[float64]{0, 1}
	maxNameLen      = 100    // bytes of the name of a dependency, a service or an owner
	maxEntries      = 10_000 // of one list or mapping
	fixProfileName  = "use 1 to 40 of a-z, 0-9, _ and -"
	maxProfileName  = 40
	maxStatuses     = 40 // in one list
)

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

// checkProfile is the one place that says which profiles are valid.
func checkProfile(p *Profile, report reportFunc) {
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
	if p.Budget != (Budget{}) {
		checkBudget(p.Budget, report)
	}
	if p.Breaker != (Breaker{}) {
		checkBreaker(p.Breaker, report)
	}
	checkHedge(p, report)
	checkRange(report, rangeShare, p.AvailabilityFloor, "availability_floor")
}

func checkRetry(r *Retry, report reportFunc) {
	checkRange(report, rangeAttempts, r.MaxAttempts, "retry.max_attempts")
	checkStatuses(r.Statuses, "retry.statuses", report)
	checkRange(report, rangeTimeout, r.AttemptTimeout, "retry.attempt_timeout")
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

func checkBudget(b Budget, report reportFunc) {
	checkWord(report, kindWords, uint8(b.Kind), "budget.kind")
	checkWord(report, fundWords, uint8(b.Fund), "budget.fund")
	checkRange(report, rangeBurst, b.Burst, "budget.burst")
	if b.Kind != BudgetQuota {
		checkRange(report, rangeRatio, b.Ratio, "budget.ratio")
		if b.Cost != 0 {
			report("cost belongs to kind: quota", "remove it, or set kind: quota", "budget.cost")
		}
		if b.ThrottledCost != 0 {
			report("throttled_cost belongs to kind: quota", "remove it, or set kind: quota", "budget.throttled_cost")
		}
		return
	}
	if b.Ratio != 0 {
		report("ratio belongs to kind: ratio", "remove it, or set kind: ratio", "budget.ratio")
	}
	if b.Fund != FundSuccesses {
		report("fund belongs to kind: ratio", "remove it, or set kind: ratio", "budget.fund")
	}
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
}

func checkHedge(p *Profile, report reportFunc) {
	h := p.Hedge
	if h == (Hedge{}) {
		return
	}
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
