package testnet

import "time"

// Kind is what becomes of one request.
type Kind uint8

// The kinds. With all of them but Refuse, Drop and Hang the handler runs.
const (
	// Deliver hands the request over and the response back.
	Deliver Kind = iota
	// Refuse fails to connect: the request provably never left.
	Refuse
	// Drop breaks the connection before the request arrives. The client cannot tell that from Crash.
	Drop
	// Hang loses the request without a word: the client waits until its context ends.
	Hang
	// Lose closes the connection in place of the response: the client gets io.EOF.
	Lose
	// Swallow loses the response without a word: the client waits until its context ends.
	Swallow
	// Crash ends the handler's process After it began: its context is canceled, the client's connection is reset, and
	// whatever the handler still says goes nowhere.
	Crash
)

var kindNames = [...]string{"deliver", "refuse", "drop", "hang", "lose", "swallow", "crash"}

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid"
}

// Tampering is what becomes of the return in a response that is delivered.
type Tampering uint8

// The ways to tamper with a return.
const (
	// Keep leaves it as it is.
	Keep Tampering = iota
	// Remove drops the return's header.
	Remove
	// Duplicate sends the return's header line twice.
	Duplicate
	// Stale puts the return that this host sent before in its place, as a cache would. There is none before the first.
	Stale
)

// Never as Fault.Notice means that a handler does not notice that its client has gone.
const Never time.Duration = -1

// Fault is what the network does to one request. The zero value delivers it at once. Negative delays count as 0.
type Fault struct {
	Kind Kind
	// Before is the time until the request arrives at the handler, or until the failure to connect shows. A request
	// whose client gives up meanwhile still arrives.
	Before time.Duration
	// After is the time between the end of the handler and the arrival of its response; of a Crash, between the start
	// of the handler and its end. A response later than the client's patience is a late return: nobody reads it.
	After time.Duration
	// Return is what becomes of the return.
	Return Tampering
	// Notice is the time between the client's giving up and the cancellation of the handler's context, or Never.
	Notice time.Duration
}
