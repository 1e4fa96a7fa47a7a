package budgetconnect

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// clientStream is one stream, over as many attempts as it takes until the callee's first message. Only a stream with one
// request is attempted again: what a client streams is not kept. Nothing is asked, lent or sent before the caller sends.
type clientStream struct {
	call
	spec connect.Spec
	next connect.StreamingClientFunc

	mu      sync.Mutex // guards the call's state and what follows
	below   connect.StreamingClientConn
	started bool        // the first attempt was asked for
	header  http.Header // of the caller, as the first attempt went out
	sent    any         // the one request of a server stream, kept until the first message
	asked   bool
	closed  bool
	over    error // what the stream ended with, once it is final

	heard    atomic.Bool // a message came
	seen     atomic.Bool // the caller has seen, or may have seen, something of the attempt
	deciding sync.Mutex  // one goroutine decides about a failure
}

var _ connect.StreamingClientConn = (*clientStream)(nil)

// open makes the stream of a call.
func (c *client) open(ctx context.Context, spec connect.Spec, next connect.StreamingClientFunc, in *engine.Inbound, policy *engine.Policy) connect.StreamingClientConn {
	s := &clientStream{spec: spec, next: next}
	s.client, s.info = c, c.methods.of(spec, c.idempotent)
	a := s.call.next()
	if refused := c.refusal(ctx, in, policy); refused != nil {
		s.below = next(ctx, spec) // never sent; connect asks it whose it is
		s.peer = s.below.Peer()
		s.started, s.over = true, refused
		return s
	}
	s.begin(ctx, in, policy, nil, nil)
	a.enter(ctx)
	s.below = next(a, spec)
	s.peer = s.below.Peer()
	if s.external = policy.External(s.peer.Addr); s.external {
		s.Leave()
	}
	return s
}

// start asks for the first attempt, and writes its wire on the header that is about to go out. message is the first that
// the caller sends, or nil.
func (s *clientStream) start(message any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return s.over
	}
	s.started = true
	if s.Pass(s.Parent()) != nil {
		s.passes = true
		s.MarkWritten() // for a layer below
		return nil
	}
	if s.info.streams() {
		message = nil // what it asks is in all of them
	}
	s.Ask(s.operation(s.Inbound(), message))
	header := s.below.RequestHeader()
	s.keyed = keyed(header)
	s.header = cleanHeader(header, s.external)
	now := time.Now()
	if reason, err := s.Admit(now); reason != ownership.ReasonAllowed {
		s.Refuse(reason, err)
		s.over = s.giveUp(message)
		return s.over
	}
	s.dress(s.current, now, header)
	return nil
}

// dress writes the caller's headers and an attempt's wire on the headers of the stream below.
func (s *clientStream) dress(a *attempt, now time.Time, header http.Header) {
	delete(header, otelprop.HTTPRequestHeader)
	delete(header, otelprop.HTTPReturnHeader)
	delete(header, otelprop.HTTPBaggageHeader)
	for k, v := range s.header {
		header[k] = v
	}
	s.lend(a, now, header)
	a.unhook = context.AfterFunc(s.Parent(), func() {
		s.settleAttempt(a, outcome{err: connect.NewError(contextCode(s.Parent().Err()), s.Parent().Err())})
	})
}

// attempt opens another stream below, and sends again what the caller has sent.
func (s *clientStream) attempt(now time.Time) error {
	s.mu.Lock()
	a := s.call.next()
	old := s.below
	sent, asked, closed := s.sent, s.asked, s.closed
	s.mu.Unlock()
	_ = old.CloseResponse() // it has failed already
	a.enter(s.Parent())
	returned := false
	defer func() {
		if !returned {
			s.mu.Lock()
			defer s.mu.Unlock()
			a.settled = true
			s.abandon(a)
		}
	}()
	below := s.next(a, s.spec)
	s.dress(a, now, below.RequestHeader())
	var err error
	if asked {
		err = below.Send(sent)
	}
	if closed && (err == nil || errors.Is(err, io.EOF)) { // io.EOF: receiving says what happened
		err = below.CloseRequest()
	}
	returned = true
	s.mu.Lock()
	s.below = below
	s.mu.Unlock()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// settleAttempt settles an attempt once, whoever hears of its end first.
func (s *clientStream) settleAttempt(a *attempt, o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.settled {
		return
	}
	a.settled = true
	a.stop()
	s.settle(a, o)
	s.unhook(a)
}

// unhook frees what a settled attempt holds. A stream on which the caller may still send keeps its context: sending says
// then that the stream has ended, and not that it was canceled.
func (s *clientStream) unhook(a *attempt) {
	if a.unhook != nil {
		a.unhook()
	}
	if !s.info.streams() {
		a.Release()
	}
}

// now returns the stream below and the attempt that it belongs to, or what the stream ended with.
func (s *clientStream) now() (connect.StreamingClientConn, *attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.below, s.current, s.over
}

// message is the one request of a server stream, as long as it is kept.
func (s *clientStream) message() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// began notes the first message: from here on nothing is repeated.
func (s *clientStream) began(a *attempt) {
	if s.heard.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard.Store(true)
	s.sent = nil
	if a.settled {
		return
	}
	a.stop()
	s.Answered(s.Now())
}

// Spec implements [connect.StreamingClientConn].
func (s *clientStream) Spec() connect.Spec { return s.spec }

// Peer implements [connect.StreamingClientConn].
func (s *clientStream) Peer() connect.Peer { return s.peer }

// RequestHeader implements [connect.StreamingClientConn].
func (s *clientStream) RequestHeader() http.Header {
	below, _, _ := s.now()
	return below.RequestHeader()
}

// Send implements [connect.StreamingClientConn].
func (s *clientStream) Send(msg any) error {
	if err := s.start(msg); err != nil {
		if s.ended() {
			return io.EOF
		}
		return err
	}
	s.mu.Lock()
	below, a := s.below, s.current
	if !s.info.streams() && !s.heard.Load() {
		s.sent, s.asked = msg, true
	}
	s.mu.Unlock()
	err := below.Send(msg)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if again, err := s.failed(a, below, err); !again {
		return err
	}
	return nil // the attempt that is under way now has sent it
}

// ended reports whether the stream ended by its callee's word.
func (s *clientStream) ended() bool {
	_, _, over := s.now()
	return errors.Is(over, io.EOF)
}

// CloseRequest implements [connect.StreamingClientConn].
func (s *clientStream) CloseRequest() error {
	if err := s.start(nil); err != nil {
		below, _, _ := s.now()
		_ = below.CloseRequest()
		return nil // receiving says what happened
	}
	s.mu.Lock()
	below := s.below
	s.closed = true
	s.mu.Unlock()
	return below.CloseRequest()
}

// Receive implements [connect.StreamingClientConn].
func (s *clientStream) Receive(msg any) error {
	for {
		below, a, over := s.now()
		if over != nil {
			return over
		}
		err := below.Receive(msg)
		if err == nil {
			s.began(a)
			return nil
		}
		again, err := s.failed(a, below, err)
		if !again {
			return err
		}
	}
}

// failed deals with the end of an attempt: it returns what the caller gets, or true if another attempt is under way.
func (s *clientStream) failed(a *attempt, below connect.StreamingClientConn, err error) (again bool, final error) {
	s.mu.Lock()
	ours := s.started && !s.passes
	s.mu.Unlock()
	if !ours {
		return false, err
	}
	s.settleAttempt(a, ending(below, err))
	s.deciding.Lock()
	defer s.deciding.Unlock()
	_, current, over := s.now()
	switch {
	case over != nil:
		return false, over
	case current != a:
		return true, nil
	}
	for err != nil {
		if errors.Is(err, io.EOF) { // a success, whatever the clock said meanwhile
			return false, s.conclude(err)
		}
		repeats := !s.info.streams() && !s.heard.Load() && !s.seen.Load()
		if !repeats {
			s.Commit()
		}
		if !s.Result.Failed && !s.Result.Canceled || s.Inner() {
			return false, s.conclude(err)
		}
		if !s.again() {
			return false, s.conclude(s.giveUp(s.message()))
		}
		now := time.Now()
		if reason, refusal := s.Admit(now); reason != ownership.ReasonAllowed {
			s.Refuse(reason, refusal)
			return false, s.conclude(s.giveUp(s.message()))
		}
		if err = s.attempt(now); err != nil {
			below, a, _ = s.now()
			s.settleAttempt(a, ending(below, err))
		}
	}
	return true, nil
}

// ending is what an attempt ended with: the stream below keeps nothing of ours. I6.
func ending(below connect.StreamingClientConn, err error) outcome {
	if errors.Is(err, io.EOF) {
		return outcome{header: below.ResponseHeader(), trailer: below.ResponseTrailer()}
	}
	if connect.IsWireError(err) {
		delete(below.ResponseHeader(), otelprop.HTTPReturnHeader)
		delete(below.ResponseTrailer(), otelprop.HTTPReturnHeader)
	}
	return outcome{err: err}
}

// conclude makes err what the stream ended with.
func (s *clientStream) conclude(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = err
	return err
}

// ResponseHeader implements [connect.StreamingClientConn]. A caller that has seen headers gets nothing else than what
// belongs to them.
func (s *clientStream) ResponseHeader() http.Header {
	below, a, _ := s.now()
	h := below.ResponseHeader()
	if len(h) > 0 {
		s.seen.Store(true)
		a.stop()
	}
	return h
}

// ResponseTrailer implements [connect.StreamingClientConn].
func (s *clientStream) ResponseTrailer() http.Header {
	below, _, _ := s.now()
	t := below.ResponseTrailer()
	if len(t) > 0 {
		s.seen.Store(true)
	}
	return t
}

// CloseResponse implements [connect.StreamingClientConn]. A stream that the caller leaves before its end is one that was
// canceled.
func (s *clientStream) CloseResponse() error {
	s.mu.Lock()
	below, a := s.below, s.current
	if s.started && !s.passes && !a.settled && s.over == nil {
		a.settled = true
		a.stop()
		s.Result = engine.Result{Canceled: true}
		s.Done(s.Now())
		s.unhook(a)
	}
	s.mu.Unlock()
	err := below.CloseResponse()
	a.Release()
	return err
}
