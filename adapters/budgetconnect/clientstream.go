package budgetconnect

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// clientStream is one stream, over as many attempts as it takes until the callee's first message.
type clientStream struct {
	connectrpc.Stream
	spec   connect.Spec
	peer   connect.Peer
	next   connect.StreamingClientFunc
	header http.Header    // of the caller, as the first attempt went out
	last   *connect.Error // of the latest failed attempt
}

var (
	_ connect.StreamingClientConn = (*clientStream)(nil)
	_ connectrpc.Version          = (*clientStream)(nil)
)

// conn is the stream of one attempt.
type conn struct{ connect.StreamingClientConn }

// CloseSend implements [connectrpc.Conn].
func (c conn) CloseSend() error { return c.CloseRequest() }

// Close implements [connectrpc.Conn].
func (c conn) Close() error { return c.CloseResponse() }

// open makes the stream of a call.
func (c *client) open(ctx context.Context, spec connect.Spec, next connect.StreamingClientFunc, in *engine.Inbound, policy *engine.Policy) connect.StreamingClientConn {
	s := &clientStream{spec: spec, next: next}
	s.Method = c.method(spec)
	refused := c.Refusal(ctx, in, policy, s.Method.Idempotent)
	if refused != nil {
		below := next(ctx, spec) // never sent; connect asks it whose it is
		s.peer = below.Peer()
		s.Stream.Open(s, conn{below}, refused)
		return s
	}
	s.Begin(ctx, in, policy)
	s.Stream.Open(s, nil, nil)
	s.peer = s.Below().(conn).Peer()
	s.Protocol = s.peer.Protocol
	s.Address(s.peer.Addr)
	return s
}

// Open implements [connectrpc.Version].
func (s *clientStream) Open(a *connectrpc.Attempt) connectrpc.Conn { return conn{s.next(a, s.spec)} }

// Keep implements [connectrpc.Version].
func (s *clientStream) Keep(c connectrpc.Conn, passes bool) bool {
	if passes {
		return false
	}
	header := c.(conn).RequestHeader()
	s.header = cleanHeader(header, s.External)
	return keyed(header)
}

// Dress implements [connectrpc.Version].
func (s *clientStream) Dress(c connectrpc.Conn, a *connectrpc.Attempt, now time.Time) {
	header := c.(conn).RequestHeader()
	delete(header, otelprop.HTTPRequestHeader)
	delete(header, otelprop.HTTPReturnHeader)
	delete(header, otelprop.HTTPBaggageHeader)
	for k, v := range s.header {
		header[k] = v
	}
	s.Lend(a, now, member.HTTP(header))
}

// Judge implements [connectrpc.Version]. The stream below keeps nothing of ours. I6.
func (s *clientStream) Judge(c connectrpc.Conn, a *connectrpc.Attempt, err error) {
	below := c.(conn)
	if errors.Is(err, io.EOF) {
		judge(&s.Call, a, nil, below.ResponseHeader(), below.ResponseTrailer())
		return
	}
	if connect.IsWireError(err) {
		delete(below.ResponseHeader(), otelprop.HTTPReturnHeader)
		delete(below.ResponseTrailer(), otelprop.HTTPReturnHeader)
	}
	s.last = judge(&s.Call, a, err, nil, nil)
}

// Failure implements [connectrpc.Version].
func (s *clientStream) Failure(denied *ownership.DeniedError) error {
	return kinds.Failure(s.Parent(), denied, s.last)
}

// Gone implements [connectrpc.Version].
func (s *clientStream) Gone(err error) error { return kinds.New(connectrpc.ContextCode(err), err) }

// Spec implements [connect.StreamingClientConn].
func (s *clientStream) Spec() connect.Spec { return s.spec }

// Peer implements [connect.StreamingClientConn].
func (s *clientStream) Peer() connect.Peer { return s.peer }

// RequestHeader implements [connect.StreamingClientConn].
func (s *clientStream) RequestHeader() http.Header { return s.Below().(conn).RequestHeader() }

// CloseRequest implements [connect.StreamingClientConn].
func (s *clientStream) CloseRequest() error { return s.CloseSend() }

// ResponseHeader implements [connect.StreamingClientConn]. A caller that has seen headers gets nothing else than what
// belongs to them.
func (s *clientStream) ResponseHeader() http.Header {
	h := s.Below().(conn).ResponseHeader()
	if len(h) > 0 {
		s.Seen(true)
	}
	return h
}

// ResponseTrailer implements [connect.StreamingClientConn].
func (s *clientStream) ResponseTrailer() http.Header {
	t := s.Below().(conn).ResponseTrailer()
	if len(t) > 0 {
		s.Seen(false)
	}
	return t
}

// CloseResponse implements [connect.StreamingClientConn].
func (s *clientStream) CloseResponse() error { return s.Close() }
