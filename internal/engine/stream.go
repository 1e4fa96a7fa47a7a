package engine

import (
	"time"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// Answered notes that the answer to the attempt has begun at now, and goes on: a stream. The attempt is a success for the
// breaker, and its time is over: what follows may take as long as it likes. Done still comes at its end.
func (c *Call) Answered(now time.Time) {
	if c.outer != nil || c.streams {
		return
	}
	c.streams, c.answer = true, now.Sub(c.started)
	c.policy.breaker.Done(&c.permit, breaker.Success)
}

// took is how long the attempt took that ends now.
func (c *Call) took(now time.Time) time.Duration {
	if c.streams {
		return c.answer
	}
	return now.Sub(c.started)
}

// Commit says that the request cannot be sent again from now on: its caller has seen some of the answer, or has sent what
// nobody keeps.
func (c *Call) Commit() { c.options.Replayable = false }

// Ask sets what Begin did not know yet where its options said so: CallOptions.Operation, 0 if it cannot be known.
func (c *Call) Ask(operation uint64) {
	c.options.Operation = operation
	if c.outer == nil {
		c.lookForRepeat()
	}
}

// Leave sets what Begin did not know yet: that the request leaves the fleet, CallOptions.External.
func (c *Call) Leave() { c.options.External = true }

// AllowRepeat sets what Begin did not know yet: that the request may run twice, CallOptions.Idempotent.
func (c *Call) AllowRepeat() { c.options.Idempotent = true }

// Identify sets what Begin did not know yet: CallOptions.Operation. It is for adapters to which it costs something, before
// Finish.
func (c *Call) Identify(operation uint64) { c.options.Operation = operation }

// Resend is Repeat for a request of which the callee has said that it did nothing with it: its lease is home again, and
// goes out with the repetition.
func (c *Call) Resend(now time.Time) (ownership.Reason, error) {
	reason, err := c.Repeat(now)
	c.unlent = false
	return reason, err
}

// maxAttempts is the profile's limit, or the call's own lower one.
func (c *Call) maxAttempts() int {
	n := c.policy.profile.Retry.Attempts()
	if own := c.options.MaxAttempts; own > 0 {
		n = min(n, own)
	}
	return n
}
