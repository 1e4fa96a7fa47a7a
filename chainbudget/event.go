package chainbudget

import (
	"context"
	"time"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// Event is one final retry decision: a gate refused, or the retry that was allowed goes out.
type Event struct {
	// Context is the context of the call.
	Context context.Context
	// Dependency and Profile name what was called and by which profile.
	Dependency, Profile string
	// Attempt is the ordinal of the attempt that failed, 1 or more; 0 when the call was refused before the first. Of a hedge
	// it is the latest attempt that had not answered.
	Attempt int
	// Reason is the outcome. WouldDeny is the gate whose refusal a milder mode let through, or
	// [ownership.ReasonAllowed].
	Reason, WouldDeny ownership.Reason
	// Hedge says that the decision was about a hedge: nothing has failed yet, and the fields about a failure are zero.
	Hedge bool
	// Delay is the drawn backoff before the retry, 0 if there is none.
	Delay time.Duration
	// Claim and Owner came with the failure.
	Claim ownership.Claim
	Owner string
	// Status is the failed attempt's HTTP status, 0 without a response. Err is its error, or nil.
	Status int
	Err    error
	// Before and After are the tokens that the purse held around the decision.
	Before, After int
}
