package budgetconnect2

import (
	"context"
	"time"

	"connectrpc.com/connect/v2"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// clientStream is one stream, over as many attempts as it takes until the callee's first message.
type clientStream struct {
	connectrpc.Stream
	transport
	cancel context.CancelFunc
}

var (
	_ connect.ClientStream = (*clientStream)(nil)
	_ connectrpc.Version   = (*clientStream)(nil)
)

// Open implements [connectrpc.Version].
func (s *clientStream) Open(a *connectrpc.Attempt) connectrpc.Conn { return s.open(a) }

// Keep implements [connectrpc.Version]. The caller's headers stay in its own call info.
func (s *clientStream) Keep(c connectrpc.Conn, passes bool) bool {
	if passes {
		s.pass(c.(conn))
	}
	return s.keyed()
}

// Dress implements [connectrpc.Version].
func (s *clientStream) Dress(c connectrpc.Conn, a *connectrpc.Attempt, now time.Time) {
	s.write(&s.Call, a, c.(conn), now)
}

// Judge implements [connectrpc.Version].
func (s *clientStream) Judge(c connectrpc.Conn, a *connectrpc.Attempt, err error) {
	s.last = s.judge(&s.Call, a, c.(conn), err)
}

// Failure implements [connectrpc.Version].
func (s *clientStream) Failure(denied *ownership.DeniedError) error {
	return kinds.Failure(s.Parent(), denied, s.last)
}

// Gone implements [connectrpc.Version].
func (s *clientStream) Gone(err error) error { return kinds.New(connectrpc.ContextCode(err), err) }

// SendHeaders implements [connect.ClientStream]. The headers of a stream with one request go with it.
func (s *clientStream) SendHeaders() error {
	if !s.Method.Streams() {
		return nil
	}
	return s.Stream.SendHeaders(func(c connectrpc.Conn) error { return c.(conn).SendHeaders() })
}

// Send implements [connect.ClientStream].
func (s *clientStream) Send(msg any) error {
	err := s.Stream.Send(msg)
	if err == nil {
		s.caller.SendStats = s.Below().(conn).info.SendStats
	}
	return err
}

// Receive implements [connect.ClientStream].
func (s *clientStream) Receive(msg any) error {
	err := s.Stream.Receive(msg)
	s.heard(s.Below().(conn), s.Passes)
	if err == nil && s.spec.StreamType == connect.StreamTypeClient {
		s.End() // its one message is the end
	} else if err == nil {
		return nil
	}
	if !s.Passes { // what is passed on ends with the layer above
		s.cancel()
	}
	return err
}

// Close implements [connect.ClientStream].
func (s *clientStream) Close() error {
	err := s.Stream.Close()
	s.cancel()
	return err
}
