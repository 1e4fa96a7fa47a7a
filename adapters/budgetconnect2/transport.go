package budgetconnect2

import (
	"time"

	"connectrpc.com/connect/v2"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// transport is what is below a call, and the caller's own view of the call.
type transport struct {
	next   connect.ClientFunc
	spec   connect.Spec
	caller *connect.CallInfo
	latest *connect.CallInfo // of the latest attempt
	last   *connect.Error    // of the latest failed attempt
}

// conn is the stream of one attempt, with call info of its own: headers that connect, and interceptors further in, may write.
type conn struct {
	connect.ClientStream
	info *connect.CallInfo
}

// open opens the stream of an attempt. Nothing is sent: connect sends when a message, the end, or nothing is to be sent, and
// even when a stream is closed that was never used. An attempt that could not be opened fails as it is used.
func (t *transport) open(a *connectrpc.Attempt) conn {
	ctx, info := connect.NewClientContext(a)
	below, err := t.next(ctx, t.spec)
	if err != nil {
		below = unopened{err}
	}
	t.latest = info
	c := t.caller
	c.Spec, c.PeerAddr, c.Protocol, c.Codec = info.Spec, info.PeerAddr, info.Protocol, info.Codec
	c.RequestEncoding, c.TransportInfo = info.RequestEncoding, info.TransportInfo
	return conn{below, info}
}

// address says whom the call is for, as far as what is below knows.
func (t *transport) address(x *connectrpc.Call) {
	x.Protocol = t.latest.Protocol
	x.Address(t.latest.PeerAddr)
}

// write gives an attempt the caller's headers, but for what of ours somebody else put there, and its share. With an outside
// callee nothing of ours is left in the baggage either. The values are shared.
func (t *transport) write(x *connectrpc.Call, a *connectrpc.Attempt, c conn, now time.Time) {
	to := c.info.RequestHeader()
	for k, v := range t.caller.RequestHeader().All() {
		switch k {
		case otelprop.HTTPRequestHeader, otelprop.HTTPReturnHeader:
			continue
		case otelprop.HTTPBaggageHeader:
			if x.External {
				if v, _ = otelprop.StripBaggage(v); len(v) == 0 {
					continue
				}
			}
		}
		to.SetValues(k, v[:len(v):len(v)])
	}
	x.Lend(a, now, to)
}

// pass gives what is below all of the caller's headers, among them what the layer above has written.
func (t *transport) pass(c conn) {
	for k, v := range t.caller.RequestHeader().All() {
		c.info.RequestHeader().SetValues(k, v)
	}
}

// keyed reports whether the request has a key by which the callee tells a repetition.
func (t *transport) keyed() bool {
	h := t.caller.RequestHeader()
	return h.Has("Idempotency-Key") || h.Has("X-Idempotency-Key")
}

// heard shows the caller what came of an attempt so far, without the return. I6: that is of the layer that asked for it,
// which is further out where all is passed on.
func (t *transport) heard(c conn, all bool) {
	to, from := t.caller, c.info
	to.ResponseEncoding, to.ReceiveStats = from.ResponseEncoding, from.ReceiveStats
	show(to.ResponseHeader(), from.ResponseHeader(), all)
	show(to.ResponseTrailer(), from.ResponseTrailer(), all)
}

func show(to, from *connect.Header, all bool) {
	for k, v := range from.All() {
		if all || k != otelprop.HTTPReturnHeader {
			to.SetValues(k, v)
		}
	}
}

// unopened is the stream of an attempt that could not be opened.
type unopened struct{ err error }

func (u unopened) SendHeaders() error { return u.err }
func (u unopened) Send(any) error     { return u.err }
func (u unopened) CloseSend() error   { return u.err }
func (u unopened) Receive(any) error  { return u.err }
func (u unopened) Close() error       { return nil }
