package engine

import (
	"context"
	"time"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// Event is one final decision, for observers. chainbudget.Event, which has the same shape, says what the fields mean.
type Event struct {
	Context             context.Context
	Dependency, Profile string
	Attempt             int
	Reason              ownership.Reason
	WouldDeny           ownership.Reason
	Hedge               bool
	Delay               time.Duration
	Claim               ownership.Claim
	Owner               string
	Status              int
	Err                 error
	Before, After       int
}
