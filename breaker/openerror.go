package breaker

import (
	"strconv"
	"time"
)

// An OpenError refuses an attempt that was not sent: the breaker is open, or half-open with all its probes out, or as many
// attempts are in flight as may be. It is made once for each change of state or of settings, and shared by all that are
// refused until the next.
type OpenError struct {
	Name string // of the dependency

	// MaxInFlight is the limit that refused; 0 = the state did.
	MaxInFlight int

	breaker *Breaker
	until   time.Duration // 0 = not open
}

// Error names the dependency and says how long it is refused, or what else refused.
func (e *OpenError) Error() string {
	switch {
	case e.MaxInFlight > 0:
		return "chainbudget: breaker of " + e.Name + " has all of its " + strconv.Itoa(e.MaxInFlight) + " attempts in flight"
	case e.until == 0:
		return "chainbudget: breaker of " + e.Name + " is half-open and its probes are out"
	}
	return "chainbudget: breaker of " + e.Name + " is open for another " + e.RetryIn().Round(time.Millisecond).String()
}

// RetryIn returns how long it takes from now until a probe may be admitted. It is 0 when the time is over, and while
// probes or other attempts are out, whose end nobody knows.
func (e *OpenError) RetryIn() time.Duration {
	if e.breaker == nil {
		return 0
	}
	return max(0, e.until-e.breaker.now())
}
