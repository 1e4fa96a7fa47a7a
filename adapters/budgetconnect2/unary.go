package budgetconnect2

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"connectrpc.com/connect/v2"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
)

// unary is one unary call. Its caller hands it one message and asks for one: all attempts are made when it asks.
type unary struct {
	connectrpc.Call
	transport
	cancel   context.CancelFunc
	opened   conn // the latest attempt's
	tried    bool // it was sent
	req, res any
	err      error // of the latest attempt
	received atomic.Bool
}

var _ connect.ClientStream = (*unary)(nil)

// SendHeaders implements [connect.ClientStream] with nothing: the headers go with the message.
func (x *unary) SendHeaders() error { return nil }

// Send implements [connect.ClientStream].
func (x *unary) Send(msg any) error {
	if x.req != nil {
		return errors.New("chainbudget: a unary call has one message")
	}
	x.req = msg
	return nil
}

// CloseSend implements [connect.ClientStream] with nothing: there is one message.
func (x *unary) CloseSend() error { return nil }

// Receive implements [connect.ClientStream].
func (x *unary) Receive(msg any) error {
	if x.received.Swap(true) {
		return io.EOF
	}
	defer x.cancel()
	x.res = msg
	if x.Pass(x.Parent()) != nil {
		x.Passes = true
		x.MarkWritten() // for a layer below
		x.pass(x.opened)
		err := x.exchange(x.opened)
		x.heard(x.opened, true)
		x.Current.Release()
		return err
	}
	defer func() { x.heard(x.opened, false) }()
	x.Ask(x.req, x.keyed())
	if denied := x.Run(time.Now(), x.req, x); denied != nil {
		return kinds.Failure(x.Parent(), denied, x.last)
	}
	return x.err
}

// Close implements [connect.ClientStream]. Of a call that was never made nothing is closed: connect would make it.
func (x *unary) Close() error {
	x.received.Store(true)
	x.cancel()
	return nil
}

// Try makes one attempt and settles it. The first is open already, to know whom it is for.
func (x *unary) Try(now time.Time) {
	a := x.Current
	returned := false
	defer func() {
		if !returned {
			x.Abandon(a)
		}
	}()
	if x.tried {
		a = x.Next()
		x.Enter(a, now)
		x.opened = x.open(a)
	}
	x.tried = true
	x.write(&x.Call, a, x.opened, now)
	x.err = x.exchange(x.opened)
	returned = true
	a.Disarm()
	x.last = x.judge(&x.Call, a, x.opened, x.err)
	x.Settle(a)
	a.Release()
}

// exchange sends the message and receives the answer.
func (x *unary) exchange(c conn) (err error) {
	if x.req != nil {
		if err = c.Send(x.req); err != nil && !errors.Is(err, io.EOF) { // io.EOF: receiving says what happened
			_ = c.Close()
			return err
		}
	}
	if err = c.CloseSend(); err == nil || errors.Is(err, io.EOF) {
		err = c.Receive(x.res)
	}
	x.caller.SendStats = c.info.SendStats
	_ = c.Close()
	return err
}
