package ownership

// Claim says what a hop tells its caller about a failure: whether a retry by the caller can still be the one next to
// the cause. The zero value is [ClaimMissing]: nobody said anything.
type Claim uint8

// The claims, in the order in which they restrict the caller.
const (
	// ClaimMissing means that nothing was said: no SDK there, no response at all, or a relayed return.
	// The caller is the first that can tell, so a retry there is eligible.
	ClaimMissing Claim = iota
	// ClaimNone means that the answer is no failure.
	ClaimNone
	// ClaimClaimed means that nobody at or below the callee has retried this failure: the caller may.
	ClaimClaimed
	// ClaimUnclaimed means that the failure was already retried next to its cause, or that a protecting gate refused
	// to: nobody above retries.
	ClaimUnclaimed
	// ClaimStop means that the owner asks everybody to stop retrying.
	ClaimStop
)

var claimNames = [...]string{"missing", "none", "claimed", "unclaimed", "stop"}

// String returns the claim's name as the documents and the metrics spell it.
func (c Claim) String() string {
	if int(c) < len(claimNames) {
		return claimNames[c]
	}
	return "invalid"
}

// restriction orders the claims of several causes: the most restrictive one is sent up.
func (c Claim) restriction() int {
	switch c {
	case ClaimStop:
		return 3
	case ClaimUnclaimed:
		return 2
	case ClaimClaimed, ClaimMissing:
		return 1
	default:
		return 0
	}
}
