package chainbudget

import (
	"context"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// Attempt is what an inner client or a balancer can know about the attempt that it serves.
type Attempt struct {
	// Dependency names what is called.
	Dependency string
	// Number is the attempt's ordinal, from 1.
	Number int
	// Err and Status are the previous attempt's, nil and 0 at the first.
	Err    error
	Status int
	// Peer is the address that the previous attempt talked to, "" where it is not known.
	Peer string
}

// AttemptFromContext returns the attempt that ctx belongs to, so that a second attempt can land somewhere healthier. It may be
// asked at any time, also when the call is at a later attempt.
func AttemptFromContext(ctx context.Context) (Attempt, bool) {
	of := engine.AttemptOf(ctx)
	if of == nil {
		return Attempt{}, false
	}
	var a Attempt
	a.Dependency, a.Number, a.Status, a.Peer, a.Err = of.Known()
	return a, true
}
