package profiles

import (
	"fmt"
	"math"
)

// Outage is what the retries of one process to one dependency come to while nothing succeeds, breaker and floor aside.
type Outage struct {
	// PerCall is how many retries one call makes at most, hedges included; 0 = none.
	PerCall int
	// Ends says that a bucket ends them, after AtMost of the process together; AtMostThrottled where the answers ask for less
	// load.
	Ends                    bool
	AtMost, AtMostThrottled int
	// Share is how many go on for each call, for as long as the outage lasts: PerCall, or the share that a bucket pays for
	// by requests. PerSecond comes on top of it in each process. PerMinute limits them there, 0 = it does not.
	Share                float64
	PerSecond, PerMinute int
}

// Outage returns what retries to the dependency come to in an outage, when code names the profile inCode for it. Switches of
// Overrides are not looked at.
func (c *Catalog) Outage(dependency string, inCode Name) Outage {
	c = c.orBuiltin()
	e, _ := c.Resolve(dependency, inCode) // what is usable without a profile makes one attempt
	return (&situation{catalog: c, dependency: dependency, profile: e.Profile, mode: e.Mode}).retries()
}

func (s *situation) retries() Outage {
	b, n := s.profile.Budget, s.callAttempts()-1
	if n == 0 {
		return Outage{Ends: true}
	}
	o := Outage{PerCall: n}
	switch {
	case !b.Enabled():
		o.Share = float64(n)
	case b.Kind == BudgetQuota:
		o.Ends, o.AtMost, o.AtMostThrottled = true, b.Burst/max(1, b.Cost), b.Burst/max(1, b.ThrottledCost) // a catalog made in code may say 0
	case b.Kind == BudgetThrottle:
		// The failure that leaves half of the tokens or less is not repeated.
		o.Ends, o.AtMost = true, int(math.Ceil(float64(b.Burst)/2))-1
	case b.Kind == BudgetReserve:
		o.Share, o.PerSecond = b.Ratio, b.MinPerSecond
	case b.Fund == FundRequests:
		o.Share = b.Ratio
	default:
		o.Ends, o.AtMost = true, b.Burst
	}
	if o.Ends {
		if b.Kind != BudgetQuota {
			o.AtMostThrottled = o.AtMost
		}
		return o
	}
	o.PerMinute = s.profile.ProcessBudget
	if whole := s.catalog.Chain.ProcessBudget; o.PerMinute == 0 || whole > 0 && whole < o.PerMinute {
		o.PerMinute = whole
	}
	return o
}

// String says it in a few words.
func (o Outage) String() string {
	switch {
	case o.PerCall == 0:
		return "no retries"
	case o.Ends && o.AtMost != o.AtMostThrottled:
		return fmt.Sprintf("at most %d, %d where the answers ask for less load, so they end", o.AtMost, o.AtMostThrottled)
	case o.Ends:
		return fmt.Sprintf("at most %d, so they end", o.AtMost)
	}
	text := fmt.Sprintf("%d for each call", o.PerCall)
	if o.Share != float64(o.PerCall) || o.PerSecond > 0 {
		text = ratioOf(o.Share, "requests")
		if o.PerSecond > 0 {
			text += fmt.Sprintf(" and %d a second", o.PerSecond)
		}
	}
	text += ", so they go on"
	if o.PerMinute > 0 {
		text += fmt.Sprintf(", up to %d a minute", o.PerMinute)
	}
	return text
}
