package chainbudget

import (
	"context"

	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
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

// AttemptFromContext returns the attempt that ctx belongs to, so that a second attempt can land somewhere healthier.
func AttemptFromContext(ctx context.Context) (Attempt, bool) {
	c, _ := ctx.Value(ctxkey.Call{}).(*engine.Call)
	if c == nil {
		return Attempt{}, false
	}
	for c.Outer() != nil { // an inner layer makes one attempt of each of the outer one's
		c = c.Outer()
	}
	a := Attempt{Dependency: c.Dependency().Name(), Number: c.Attempts()}
	a.Status, a.Peer, a.Err = c.Previous()
	return a, true
}
