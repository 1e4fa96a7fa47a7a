package budgetgrpc

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// clientStream is one stream, over as many attempts as it takes until the callee's first message. Only a stream with one
// request is attempted again: what a client streams is not kept.
type clientStream struct {
	call
	desc *grpc.StreamDesc
	open grpc.Streamer
	end  func()

	mu     sync.Mutex // guards the call's state and what follows
	below  grpc.ClientStream
	sent   any // the one request of a server stream, kept until the first message
	asked  bool
	closed bool

	heard    atomic.Bool // a message came
	seen     atomic.Bool // the caller has seen, or may have seen, something of the attempt
	deciding sync.Mutex  // one goroutine decides about a failure
	over     error       // what the stream ended with, once it is final; guarded by deciding
}

var _ grpc.ClientStream = (*clientStream)(nil)

// start makes attempts until a stream is open.
func (s *clientStream) start() error {
	reason, refusal := s.Admit(s.begun)
	_, err := s.proceed(s.begun, reason, refusal)
	return err
}

// proceed makes the attempt that was asked for, and others as long as none opens a stream.
func (s *clientStream) proceed(now time.Time, reason ownership.Reason, refusal error) (opened bool, err error) {
	for {
		if reason != ownership.ReasonAllowed {
			s.Refuse(reason, refusal)
			return false, s.conclude()
		}
		if err := s.attempt(now); err == nil {
			return true, nil
		} else if now, reason, refusal, err = s.next(err); err != nil {
			return false, err
		}
	}
}

// next decides what follows a failed attempt: err is what the stream ends with if nothing does.
func (s *clientStream) next(err error) (time.Time, ownership.Reason, error, error) {
	s.mu.Lock()
	repeats := !s.desc.ClientStreams && !s.heard.Load() && !s.seen.Load() || s.below == nil
	if !repeats {
		s.Commit()
	}
	s.mu.Unlock()
	switch {
	case s.free && repeats:
		now := time.Now()
		reason, refusal := s.resend(now)
		return now, reason, refusal, nil
	case !s.Result.Failed && !s.Result.Canceled, s.Inner():
		s.end()
		return time.Time{}, 0, nil, err
	case !s.again():
		return time.Time{}, 0, nil, s.conclude()
	}
	now := time.Now()
	reason, refusal := s.admit(now)
	return now, reason, refusal, nil
}

// conclude ends the call with its error.
func (s *clientStream) conclude() error {
	err := s.giveUp()
	s.end()
	return err
}

// attempt opens a stream below, and sends again what the caller has sent.
func (s *clientStream) attempt(now time.Time) error {
	s.mu.Lock()
	a := s.call.next()
	sent, asked, closed := s.sent, s.asked, s.closed
	s.mu.Unlock()
	ctx := s.prepare(a, now)
	returned := false
	defer func() {
		if !returned {
			s.mu.Lock()
			defer s.mu.Unlock()
			a.settled = true
			s.abandon(a)
		}
	}()
	below, err := s.open(ctx, s.desc, s.cc, s.method, a.options()...)
	if err == nil && asked {
		err = askAgain(below, sent, closed)
	}
	returned = true
	if err != nil {
		s.settleAttempt(a, err)
		return err
	}
	s.mu.Lock()
	s.below = below
	s.mu.Unlock()
	return nil
}

// askAgain sends the request of a server stream again.
func askAgain(below grpc.ClientStream, request any, closed bool) error {
	if err := below.SendMsg(request); err != nil && err != io.EOF { // io.EOF: receiving says what happened
		return err
	}
	if closed {
		return below.CloseSend()
	}
	return nil
}

// arm limits an attempt until its answer begins.
func (s *clientStream) arm(a *attempt, limit time.Duration) {
	a.timer = time.AfterFunc(limit, func() {
		if !s.begins(a) {
			a.Cancel(engine.ErrAttemptTimeout)
		}
	})
}

// lookTime is how long an attempt whose time is over is given to say whether its headers are there.
const lookTime = 10 * time.Millisecond

// begins reports whether the answer to an attempt has begun: its headers are enough. It is asked only when the attempt's
// time is over, because gRPC has no way to ask that does not wait.
func (s *clientStream) begins(a *attempt) bool {
	s.mu.Lock()
	below, current := s.below, s.current
	s.mu.Unlock()
	if s.heard.Load() {
		return true
	}
	if below == nil || current != a {
		return false
	}
	found := make(chan bool, 1)
	go func() {
		md, err := below.Header() // ends with the attempt
		found <- err == nil && md != nil
	}()
	wait := time.NewTimer(lookTime)
	defer wait.Stop()
	select {
	case yes := <-found:
		return yes
	case <-wait.C:
		return false
	}
}

// settleAttempt settles an attempt once, whoever hears of its end first.
func (s *clientStream) settleAttempt(a *attempt, err error) {
	if err == io.EOF {
		err = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.settled {
		return
	}
	a.settled = true
	a.stop()
	s.settle(a, err)
	s.hideReturn()
	a.Release()
}

// now returns the stream below and the attempt that it belongs to.
func (s *clientStream) now() (grpc.ClientStream, *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.below, s.current
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

// SendMsg implements [grpc.ClientStream].
func (s *clientStream) SendMsg(m any) error {
	s.mu.Lock()
	below, a := s.below, s.current
	if !s.desc.ClientStreams && !s.heard.Load() {
		s.sent, s.asked = m, true
	}
	s.mu.Unlock()
	err := below.SendMsg(m)
	if err == nil || err == io.EOF {
		return err
	}
	s.seen.Store(true) // it could not be sent, and can no better again
	_, err = s.failed(a, err)
	return err
}

// CloseSend implements [grpc.ClientStream].
func (s *clientStream) CloseSend() error {
	s.mu.Lock()
	below := s.below
	s.closed = true
	s.mu.Unlock()
	return below.CloseSend()
}

// RecvMsg implements [grpc.ClientStream].
func (s *clientStream) RecvMsg(m any) error {
	for {
		below, a := s.now()
		err := below.RecvMsg(m)
		if err == nil {
			s.began(a)
			if !s.desc.ServerStreams { // the one message is the end
				s.settleAttempt(a, nil)
				s.end()
			}
			return nil
		}
		again, err := s.failed(a, err)
		if !again {
			return err
		}
	}
}

// failed deals with the end of an attempt: it returns what the caller gets, or true if another attempt is under way.
func (s *clientStream) failed(a *attempt, err error) (again bool, final error) {
	s.settleAttempt(a, err)
	s.deciding.Lock()
	defer s.deciding.Unlock()
	if s.over != nil {
		return false, s.over
	}
	if _, current := s.now(); current != a {
		return true, nil
	}
	now, reason, refusal, err := s.next(err)
	if err == nil {
		if again, err = s.proceed(now, reason, refusal); again {
			return true, nil
		}
	}
	s.over = err
	return false, err
}

// Header implements [grpc.ClientStream]. A caller that has seen headers gets nothing else than what belongs to them.
func (s *clientStream) Header() (metadata.MD, error) {
	below, a := s.now()
	md, err := below.Header()
	if err == nil && md != nil {
		s.seen.Store(true)
		a.stop()
	}
	return md, err
}

// Trailer implements [grpc.ClientStream]. I6: it is without the return.
func (s *clientStream) Trailer() metadata.MD {
	below, _ := s.now()
	return withoutReturn(below.Trailer())
}

// Context implements [grpc.ClientStream]. It is the current attempt's, so that nothing is repeated once it was asked for.
func (s *clientStream) Context() context.Context {
	below, _ := s.now()
	s.seen.Store(true)
	return below.Context()
}
