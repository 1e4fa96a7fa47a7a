package ownership

// Reason is the outcome of one retry decision: [ReasonAllowed], or the gate that refused. The same word stands in
// errors, metrics, span events and documents. The zero value is [ReasonAllowed].
type Reason uint8

// The gates in the order in which the decision asks them.
const (
	ReasonAllowed           Reason = iota
	ReasonDisabled                 // retries are switched off in the catalog
	ReasonCanceled                 // the caller has gone
	ReasonSettled                  // the request's return has been sent; its purse is closed
	ReasonNotRetryable             // this failure does not go away by asking again
	ReasonStop                     // the owner asked everybody to stop
	ReasonUnclaimed                // it was already retried next to its cause
	ReasonPushback                 // the callee asked for no retry, or for a longer wait than the profile's cap
	ReasonNotIdempotent            // the request may have run and must not run twice
	ReasonBreakerOpen              // the dependency's circuit breaker refuses, or adaptive throttling does
	ReasonAvailabilityFloor        // the dependency answers too few first attempts
	ReasonDependencyBudget         // the dependency's share of retries is used up
	ReasonProcessBudget            // the process's or the profile's retries of this minute are used up
	ReasonMaxAttempts              // the profile's attempts are used up
	ReasonNoPolicy                 // the profile has one attempt
	ReasonNotReplayable            // the request's body cannot be sent again
	ReasonChainExhausted           // the purse is empty
	ReasonDeadline                 // too little time is left for the delay and a typical attempt

	numReasons = int(ReasonDeadline) + 1
)

var reasonNames = [numReasons]string{
	"allowed", "disabled", "canceled", "settled", "not_retryable", "stop", "unclaimed", "pushback", "not_idempotent",
	"breaker_open", "availability_floor", "dependency_budget", "process_budget", "max_attempts", "no_policy",
	"not_replayable", "chain_exhausted", "deadline",
}

// String returns the reason's word.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "invalid"
}

// Where the pages are that say of each reason what it means, when it is right, and what to change.
const (
	pages   = "https://github.com/chainbudget/chainbudget-go/blob/main/docs/denied/"
	pageEnd = ".md"
)

// page returns the address of the page about a refusal, "" for anything else.
func (r Reason) page() string {
	if r == ReasonAllowed || int(r) >= numReasons {
		return ""
	}
	return pages + reasonNames[r] + pageEnd
}

// Reasons returns every reason in decision order, [ReasonAllowed] first. The slice is the caller's own.
func Reasons() []Reason {
	all := make([]Reason, numReasons)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

// Protects reports whether the gate refuses to protect the dependency or the data, so that nobody above may retry
// either. The other refusals are this hop's own inability (a caller above that is able may retry), or give no verdict
// ([ReasonSettled], [ReasonCanceled]).
func (r Reason) Protects() bool {
	switch r {
	case ReasonStop, ReasonUnclaimed, ReasonPushback, ReasonNotIdempotent, ReasonBreakerOpen, ReasonAvailabilityFloor,
		ReasonDependencyBudget, ReasonProcessBudget, ReasonDisabled, ReasonNotRetryable, ReasonMaxAttempts:
		return true
	default:
		return false
	}
}
