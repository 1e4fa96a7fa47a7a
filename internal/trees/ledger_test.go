package trees

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/chainbudget/chainbudget-go/internal/testnet"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// A ledger is what an observer of the wire writes down about one run of a tree. It knows the headers and nothing of the
// SDK's purses.
type ledger struct {
	tree *tree

	mu         sync.Mutex
	minted     int
	entered    bool
	hops       int
	calls      map[callID]int // attempts of each call, as they leave the caller
	arrived    map[callID]int // and as they reach the callee
	sent       []int          // attempts towards each node, by its id
	received   []int          // attempts that reached it
	executions []int          // of its handler
	retries    int
	saw        [events]bool
	violations []string
}

// callID names one call: one execution of a handler, and which of its calls.
type callID struct{ hop, call int }

func (c callID) String() string { return strconv.Itoa(c.hop) + "." + strconv.Itoa(c.call) }

func parseCallID(s string) (c callID) {
	hop, call, _ := strings.Cut(s, ".")
	c.hop, _ = strconv.Atoi(hop)
	c.call, _ = strconv.Atoi(call)
	return c
}

// event is something that must not be rare in random trees.
type event uint8

const (
	sawLost       event = iota // tokens were lent, and no return came
	sawLate                    // a response came after its caller had given up
	sawDuplicated              // a return came twice
	sawHang                    // nobody answered
	sawPanic                   // a handler panicked
	sawWait                    // a decision waited for a lease to come home, and got a token
	sawRetry
	sawCancel
	sawHedge // an attempt was sent beside a slow one
	events
)

// narrow are the events that depend on which of two things on the wire comes first.
var narrow = [events]bool{sawLate: true, sawWait: true, sawHedge: true}

var eventNames = [events]string{"lost", "late", "duplicated return", "hang", "panic", "wait for a lease", "retry", "cancellation", "hedge"}

func newLedger(t *tree) *ledger {
	return &ledger{
		tree: t, calls: make(map[callID]int), arrived: make(map[callID]int),
		sent: make([]int, len(t.nodes)), received: make([]int, len(t.nodes)), executions: make([]int, len(t.nodes)),
	}
}

// A hop is one execution of a handler, seen from the wire: what it was granted, and what became of it.
type hop struct {
	ledger *ledger
	node   *node
	number int

	granted  int
	spent    int // retries that left
	out      int // lent, and not home
	returned int
	closed   bool
}

func (l *ledger) violate(format string, arguments ...any) {
	if len(l.violations) < 8 {
		l.violations = append(l.violations, fmt.Sprintf(format, arguments...))
	}
}

func (l *ledger) note(e event) {
	l.mu.Lock()
	l.saw[e] = true
	l.mu.Unlock()
}

// check holds a hop to I3 as the wire shows it: it can never have given out more than it has got. A token that came home
// counts as here from the moment when the answer was on the wire, so the check never cries wolf.
func (h *hop) check(what string) {
	if left := h.granted - h.spent - h.out - h.returned; left < 0 {
		h.ledger.violate("I3: node %d (execution by hop %d): %s: granted %d, spent %d, lent out %d, returned %d",
			h.node.id, h.number, what, h.granted, h.spent, h.out, h.returned)
	}
}

// arrive opens the account of a hop and returns the ordinal of the execution. An entry's grant is what it mints.
func (l *ledger) arrive(n *node, call callID, granted int) (*hop, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hops++
	h := &hop{ledger: l, node: n, number: l.hops, granted: granted}
	if n.id == 0 {
		l.minted += granted
		l.entered = true
	} else {
		l.arrived[call]++
		l.received[n.id]++
	}
	if granted > maxBudget || n.id > 0 && granted > l.minted {
		l.violate("I4: node %d was granted %d of %d minted", n.id, granted, l.minted)
	}
	l.executions[n.id]++
	return h, l.executions[n.id]
}

// closeWith closes a hop with the return that it sends.
func (h *hop) closeWith(lines []string) {
	l := h.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	if h.node.id == 0 && len(lines) > 0 {
		l.violate("I6: the entry sends a return: %q", lines)
	}
	if len(lines) > 1 {
		l.violate("I6: node %d sends %d returns", h.node.id, len(lines))
	}
	if len(lines) == 1 {
		fields := strings.Split(lines[0], ".")
		h.returned, _ = strconv.Atoi(fields[1])
		h.check("the return")
	}
}

// attempt is one request on the wire.
type attempt struct {
	hop     *hop
	node    *node
	lease   int
	nonce   otelprop.Nonce
	number  int // among all towards the node
	ordinal int // within its call
	fault   testnet.Fault
}

// leave writes down an attempt that leaves a hop.
func (h *hop) leave(call callID, n *node, lease int, nonce otelprop.Nonce) attempt {
	l := h.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[call]++
	l.sent[n.id]++
	a := attempt{hop: h, node: n, lease: lease, nonce: nonce, number: l.sent[n.id], ordinal: l.calls[call]}
	a.fault = l.tree.fault(n, a.number)
	if a.ordinal > 1 {
		l.retries++
		h.spent++
		l.saw[sawRetry] = true
	}
	h.out += lease
	h.check(fmt.Sprintf("attempt %d of the call to node %d", a.ordinal, n.id))
	return a
}

// answered writes down what came back. unsent says that there was no connection to send anything on.
func (a attempt) answered(resp *http.Response, err error, unsent bool) {
	l := a.hop.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	home := 0
	if resp != nil {
		lines := resp.Header[otelprop.HTTPReturnHeader]
		ret, ok, _ := otelprop.ReadReturn(lines, a.nonce, a.lease)
		if ok {
			home = int(ret.Returned)
		}
		l.saw[sawLost] = l.saw[sawLost] || !ok && a.lease > 0
		l.saw[sawDuplicated] = l.saw[sawDuplicated] || len(lines) > 1
	} else if op := (*net.OpError)(nil); unsent || errors.As(err, &op) && op.Op == "dial" {
		home = a.lease
	} else {
		l.saw[sawLost] = l.saw[sawLost] || a.lease > 0
		switch {
		case a.fault.Kind == testnet.Hang, a.fault.Kind == testnet.Swallow:
			l.saw[sawHang] = true
		case a.fault.Kind == testnet.Deliver && max(a.fault.Before, a.fault.After) >= l.tree.late():
			l.saw[sawLate] = l.saw[sawLate] || errors.Is(err, context.DeadlineExceeded)
		}
	}
	a.hop.out -= home
}

// finish judges the run once nothing of it runs any more.
func (l *ledger) finish() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retries > l.minted {
		l.violate("I1: %d retries, %d tokens minted", l.retries, l.minted)
	}
	again := 0
	for _, n := range l.arrived {
		again += n - 1
	}
	if again > l.minted {
		l.violate("I1: %d retries reached their callees, %d tokens minted", again, l.minted)
	}
	for id, n := range l.sent {
		if n > 1+l.minted {
			l.violate("I2: %d attempts towards node %d, %d tokens minted", n, id, l.minted)
		}
		if l.received[id] > 1+l.minted {
			l.violate("I2: %d attempts reached node %d, %d tokens minted", l.received[id], id, l.minted)
		}
	}
	return l.violations
}
