package subject

import (
	"context"
	"errors"
)

// decisions are the retry decision alone, on a failed attempt of a call that may be repeated. The token that an allowed
// retry reserves is given back, which is part of the cost.
func decisions() []Subject {
	return []Subject{{Path: "decision/allowed", Who: SDK, open: func() *stage {
		s := new(stage)
		sdk := newSDK(catalog)
		dep := dependency(sdk, "endless")
		s.worker = func() Op {
			caller := &caller{Context: s.inRequest(sdk)}
			call := failedCall(caller, dep)
			return func() error {
				if !call.Decide(call.Now()) {
					return errors.New("the retry was refused")
				}
				caller.gone = true
				if call.Backoff() {
					return errors.New("the token was not given back")
				}
				caller.gone = false
				return nil
			}
		}
		return s
	}}}
}

// caller is a context whose owner can leave and come back, so that one call can be decided about again and again.
type caller struct {
	context.Context
	gone bool
}

// Err implements [context.Context].
func (c *caller) Err() error {
	if c.gone {
		return context.Canceled
	}
	return c.Context.Err()
}
