package otelprop

import "math"

// Reject is the reason why a member, a header line or a return was not used. Values that are no constant of this
// package have the name "invalid".
type Reject uint8

// The reasons for a rejection.
const (
	// RejectMalformed means that it does not follow the grammar.
	RejectMalformed Reject = iota
	// RejectVersion means that it is well formed and of a version that this reader does not know.
	RejectVersion
	// RejectTooLong means that it is longer than its limit.
	RejectTooLong
	// RejectRelayed means that a return answers another attempt than the one that was sent.
	RejectRelayed
	// RejectDuplicate means that there was more than one return line, or more than [MaxHeaderLines] header lines.
	RejectDuplicate

	numRejects = int(RejectDuplicate) + 1
)

var rejectNames = [numRejects]string{"malformed", "version", "too_long", "relayed", "duplicate"}

// String returns the reason's name as metrics and documents spell it.
func (r Reject) String() string {
	if int(r) < len(rejectNames) {
		return rejectNames[r]
	}
	return "invalid"
}

// Rejects counts what one read refused, indexed by [Reject]. Counts stop at 65535. The zero value is: nothing.
type Rejects [numRejects]uint16

// add counts one rejection.
func (r *Rejects) add(why Reject) {
	if r[why] < math.MaxUint16 {
		r[why]++
	}
}
