package ownership

import (
	"errors"
	"strconv"
	"time"
)

// DeniedError is the final failure of one call: why it was not, or not again, retried, who owns it, and what this hop
// tells its caller when it causes the hop's own failure. Every error that the SDK hands out for a call wraps one, so
// that errors.As finds it and an exact cause is known. It wraps the last attempt's error: what the server said is never
// hidden. A DeniedError is immutable once handed out. The methods of a nil one say that nothing failed.
type DeniedError struct {
	// Reason is the gate that refused a further retry.
	Reason Reason
	// Dependency names what was called.
	Dependency string
	// Owner is the slug of the service that caused the failure: as received, or the dependency's own name.
	Owner string
	// OwnerDepth is how many hops below this one the owner is, as far as returns told: 1 is the direct callee, 0 is not
	// known.
	OwnerDepth int
	// Claim is what goes up if this failure causes the hop's own: claimed, unclaimed or stop. It is none for a call that was
	// canceled for a reason other than time: that is no failure, and causes none.
	Claim Claim
	// Attempts is how many attempts went out; 0 means that the call was refused here, before the first.
	Attempts int
	// Status is the HTTP status of the last attempt, 0 if it got no response.
	Status int
	// RetryAfter is a hint for the caller's own pacing: how long the callee asked to wait, or else a wait that suits
	// the reason; 0 where waiting does not help.
	RetryAfter time.Duration
	// Operation identifies what was asked of the dependency: equal requests have equal values, 0 is not known.
	Operation uint64
	// FailOpen and FailClosed are set when the catalog declares whether this dependency's failure fails its caller.
	FailOpen, FailClosed bool
	// Err is the last attempt's error, or nil when it got a response.
	Err error
}

// maxErrorText bounds how much of a wrapped error is printed.
const maxErrorText = 512

// Error says in one line what was refused, why, who owns the failure, and what the last attempt came to.
func (e *DeniedError) Error() string {
	if e == nil {
		return "chainbudget: no failure"
	}
	b := make([]byte, 0, 160)
	b = append(b, "chainbudget: "...)
	b = append(b, e.Dependency...)
	if e.Attempts == 0 {
		b = append(b, ": refused here, no attempt made: "...)
	} else {
		b = append(b, ": no retry after attempt "...)
		b = strconv.AppendInt(b, int64(e.Attempts), 10)
		b = append(b, ": "...)
	}
	b = append(b, e.Reason.String()...)
	b = append(b, " (owner "...)
	b = append(b, e.Owner...)
	b = append(b, ", "...)
	if e.OwnerDepth > 1 {
		b = strconv.AppendInt(b, int64(e.OwnerDepth), 10)
		b = append(b, " hops below, "...)
	}
	b = append(b, e.Claim.String()...)
	b = append(b, ')')
	if e.Status != 0 {
		b = append(b, ": status "...)
		b = strconv.AppendInt(b, int64(e.Status), 10)
	}
	if e.Err != nil {
		text := e.Err.Error()
		b = append(b, ": "...)
		b = append(b, text[:min(len(text), maxErrorText)]...)
	}
	return string(b)
}

// Unwrap returns the last attempt's error.
func (e *DeniedError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// Timeout reports whether the last attempt, or the caller's own time, ran out. It makes a *url.Error around e say the
// same.
func (e *DeniedError) Timeout() bool {
	if e == nil {
		return false
	}
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// maxWalk bounds how many errors of a tree are looked at.
const maxWalk = 256

// appendFailures appends the failures that err wraps, each once, in the order of the tree.
func appendFailures(found []*DeniedError, err error) []*DeniedError {
	left := maxWalk
	return walk(found, err, &left)
}

func walk(found []*DeniedError, err error, left *int) []*DeniedError {
	for err != nil && *left > 0 {
		*left--
		if f, ok := err.(*DeniedError); ok {
			if f == nil {
				return found
			}
			for _, have := range found {
				if have == f {
					return found
				}
			}
			return append(found, f)
		}
		switch u := err.(type) {
		case interface{ Unwrap() error }:
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				found = walk(found, e, left)
			}
			return found
		default:
			return found
		}
	}
	return found
}
