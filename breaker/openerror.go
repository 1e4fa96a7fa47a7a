package breaker

import (
	"time"
)

// An OpenError refuses an attempt that was not sent. It is made once for each change of state and shared by
// all that are refused until the next.
type OpenError struct {
	Name string // of the dependency

	breaker *Breaker
	until   time.Duration // 0 = half-open, all probes are out
}

// Error names the dependency and says how long it is refused.
func (e *OpenError) Error() string {
	if e.until == 0 {
		return "chainbudget: breaker of " + e.Name + " is half-open and its probes are out"
	}
	return "chainbudget: breaker of " + e.Name + " is open for another " + e.RetryIn().Round(time.Millisecond).String()
}

// RetryIn returns how long it takes from now until a probe may be admitted. It is 0 when the time is over, and while
// probes are out, whose end nobody knows.
func (e *OpenError) RetryIn() time.Duration {
	if e.breaker == nil {
		return 0
	}
	return max(0, e.until-e.breaker.now())
}
