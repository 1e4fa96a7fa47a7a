package breaker

import "strconv"

// State is what a breaker does with attempts. The zero value is Closed.
type State uint8

// The states.
const (
	Closed   State = iota // admits all
	Open                  // refuses all, for a while
	HalfOpen              // admits the profile's probes, and refuses the rest
)

// String returns "closed", "open" or "half_open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	}
	return "invalid(" + strconv.Itoa(int(s)) + ")"
}

// Outcome is what an admitted attempt says about its dependency.
type Outcome uint8

// The outcomes. Ignored is the zero value: an attempt about which nothing is known counts for nothing.
const (
	Ignored Outcome = iota // canceled, never sent, a 4xx or 429: neither good nor bad
	Success                // the dependency did its work
	Failure                // it did not: no answer, too late, or a 5xx
)
