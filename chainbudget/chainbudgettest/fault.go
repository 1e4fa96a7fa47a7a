package chainbudgettest

import "fmt"

// Fault is one line of a [Chain]'s plan: what goes wrong at a hop, and for how many of the requests that reach it.
type Fault struct {
	// Hop is where, from 1.
	Hop int
	// Kind is what.
	Kind FaultKind
	// Times is for how many requests, counted from the first that reaches the hop; 0 is all.
	Times int
}

// FaultKind is what goes wrong.
type FaultKind uint8

// The kinds.
const (
	// Nothing goes wrong.
	Nothing FaultKind = iota
	// Fails: the hop answers 503 and calls nobody. In front of a service under test it is a proxy that does, and so an
	// answer without a return.
	Fails
	// Hangs: the hop takes the request and does not answer until its caller gives up.
	Hangs
	// Silent: the hop works, and its answer comes without a return.
	Silent
	// Breaks: the hop works, and its connection breaks in place of the answer.
	Breaks
	// DropsContext: a made-up hop calls with a context of its own and not with its request's.
	DropsContext
)

var faultNames = [...]string{"nothing", "fails", "hangs", "silent", "breaks", "drops the context"}

// String returns the kind's name.
func (k FaultKind) String() string {
	if int(k) < len(faultNames) {
		return faultNames[k]
	}
	return "invalid"
}

// String says the fault in a few words.
func (f Fault) String() string {
	times := "always"
	if f.Times > 0 {
		times = fmt.Sprintf("%d times", f.Times)
	}
	return fmt.Sprintf("%s %s, %s", hopName(f.Hop), f.Kind, times)
}

// problem says why a fault cannot happen, "" if it can.
func (f Fault) problem(r *run) string {
	switch {
	case f.Hop < 1 || f.Hop > r.depth:
		return fmt.Sprintf("hops are 1 to Depth, which is %d", r.depth)
	case f.Times < 0:
		return "Times is at least 0"
	case int(f.Kind) >= len(faultNames):
		return "there is no such kind"
	case f.Kind == DropsContext && r.chain.Services[f.Hop] != nil:
		return "what a service under test does with its context is its own"
	}
	return ""
}

// next takes the fault of a request that reaches a hop off the plan.
func (r *run) next(hop int) FaultKind {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.faults {
		f := &r.faults[i]
		if f.Hop != hop || f.Times < 0 {
			continue
		}
		kind := f.Kind
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				f.Times = -1 // used up
			}
		}
		return kind
	}
	return Nothing
}
