package connectrpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// Stream is one stream, over as many attempts as it takes until the callee's first message. Only a stream with one request is
// attempted again: what a client streams is not kept. Nothing is asked, lent or sent before the caller sends.
type Stream struct {
	Call
	version Version

	mu      sync.Mutex // guards the call's state and what follows
	below   Conn
	started bool // the first attempt was asked for
	out     bool // and something may go out below
	sent    any  // the one request of a server stream, kept until the first message
	asked   bool
	closed  bool
	over    error // what the stream ended with, once it is final

	heard    atomic.Bool // a message came
	seen     atomic.Bool // the caller has seen, or may have seen, something of the attempt
	deciding sync.Mutex  // one goroutine decides about a failure
}

// Conn is the stream of one attempt.
type Conn interface {
	Send(msg any) error
	CloseSend() error
	Receive(msg any) error
	Close() error
}

// Version is what a version of connect does in its own way for one stream.
type Version interface {
	// Open opens the stream of an attempt, which is its context. Nothing is sent.
	Open(a *Attempt) Conn
	// Keep keeps the headers that the caller set, as the first attempt goes out, and reports whether they have a key by which
	// the callee tells a repetition. Where the call passes on what the layer above has written, all of them stay.
	Keep(c Conn, passes bool) (keyed bool)
	// Dress writes the caller's headers on those of an attempt, and gives it its share by Call.Lend.
	Dress(c Conn, a *Attempt, now time.Time)
	// Judge says what an attempt came to that ended with err, which is io.EOF for a success, by Call.TakeReturn and
	// Call.Succeed or Call.Fail.
	Judge(c Conn, a *Attempt, err error)
	// Failure is the error of a call that was given up.
	Failure(denied *ownership.DeniedError) error
	// Gone is the error of a stream whose caller's context has ended with err.
	Gone(err error) error
}

// Open opens the stream of the first attempt. refused is what a call ends with that must not begin: below stands in then.
func (s *Stream) Open(v Version, below Conn, refused error) {
	s.version = v
	a := s.Next()
	if refused != nil {
		s.below, s.started, s.over = below, true, refused
		return
	}
	s.Enter(a, s.Begun)
	s.below = v.Open(a)
}

// Below is the stream of the latest attempt.
func (s *Stream) Below() Conn {
	below, _, _ := s.now()
	return below
}

// start asks for the first attempt, and writes its wire on the header that is about to go out. message is the first that
// the caller sends, or nil.
func (s *Stream) start(message any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return s.over
	}
	s.started = true
	if s.Pass(s.Parent()) != nil {
		s.Passes, s.out = true, true
		s.MarkWritten() // for a layer below
		s.version.Keep(s.below, true)
		return nil
	}
	if s.Method.Streams() {
		message = nil // what it asks is in all of them
	}
	s.Ask(message, s.version.Keep(s.below, false))
	now := time.Now()
	if reason, err := s.Admit(now); reason != ownership.ReasonAllowed {
		s.Refuse(reason, err)
		s.over = s.version.Failure(s.GiveUp(message))
		return s.over
	}
	s.out = true
	s.dress(s.below, s.Current, now)
	return nil
}

// dress makes an attempt ready to be sent.
func (s *Stream) dress(below Conn, a *Attempt, now time.Time) {
	s.version.Dress(below, a, now)
	a.unhook = context.AfterFunc(s.Parent(), func() {
		s.settleAttempt(below, a, s.version.Gone(s.Parent().Err()))
	})
}

// attempt opens another stream below, and sends again what the caller has sent.
func (s *Stream) attempt(now time.Time) error {
	s.mu.Lock()
	a := s.Next()
	old := s.below
	sent, asked, closed := s.sent, s.asked, s.closed
	s.mu.Unlock()
	_ = old.Close() // it has failed already
	s.Enter(a, now)
	returned := false
	defer func() {
		if !returned {
			s.mu.Lock()
			defer s.mu.Unlock()
			a.settled = true
			s.Abandon(a)
		}
	}()
	below := s.version.Open(a)
	s.dress(below, a, now)
	var err error
	if asked {
		err = below.Send(sent)
	}
	if closed && (err == nil || errors.Is(err, io.EOF)) { // io.EOF: receiving says what happened
		err = below.CloseSend()
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
func (s *Stream) settleAttempt(below Conn, a *Attempt, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.settled {
		return
	}
	a.settled = true
	a.stop()
	s.version.Judge(below, a, err)
	s.Settle(a)
	s.unhook(a)
}

// unhook frees what a settled attempt holds. A stream on which the caller may still send keeps its context: sending says
// then that the stream has ended, and not that it was canceled.
func (s *Stream) unhook(a *Attempt) {
	if a.unhook != nil {
		a.unhook()
	}
	if !s.Method.Streams() {
		a.Release()
	}
}

// now returns the stream below and the attempt that it belongs to, or what the stream ended with.
func (s *Stream) now() (Conn, *Attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.below, s.Current, s.over
}

// message is the one request of a server stream, as long as it is kept.
func (s *Stream) message() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// began notes the first message: from here on nothing is repeated.
func (s *Stream) began(a *Attempt) {
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

// Seen says that the caller has seen something of the latest attempt, and gets nothing else than what belongs to it.
// answered says that it was the beginning of the answer.
func (s *Stream) Seen(answered bool) {
	s.seen.Store(true)
	if answered {
		_, a, _ := s.now()
		a.stop()
	}
}

// SendHeaders asks for the first attempt, and lets send send its headers.
func (s *Stream) SendHeaders(send func(Conn) error) error {
	if err := s.start(nil); err != nil {
		return err
	}
	return send(s.Below())
}

// Send sends one message of the caller.
func (s *Stream) Send(msg any) error {
	if err := s.start(msg); err != nil {
		if errors.Is(err, io.EOF) { // the stream ended by its callee's word
			return io.EOF
		}
		return err
	}
	s.mu.Lock()
	below, a := s.below, s.Current
	if !s.Method.Streams() && !s.heard.Load() {
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

// CloseSend says that the caller has sent everything.
func (s *Stream) CloseSend() error {
	err := s.start(nil)
	s.mu.Lock()
	below, out := s.below, s.out
	s.closed = true
	s.mu.Unlock()
	if !out {
		return nil // below it would send a request, although it has nothing to send
	}
	closed := below.CloseSend()
	if err != nil {
		return nil // receiving says what happened
	}
	return closed
}

// Receive receives one message of the callee.
func (s *Stream) Receive(msg any) error {
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
func (s *Stream) failed(a *Attempt, below Conn, err error) (again bool, final error) {
	if !s.ours() {
		return false, err
	}
	s.settleAttempt(below, a, err)
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
		repeats := !s.Method.Streams() && !s.heard.Load() && !s.seen.Load()
		if !repeats {
			s.Commit()
		}
		if !s.Result.Failed && !s.Result.Canceled || s.Inner() {
			return false, s.conclude(err)
		}
		if !s.again() {
			return false, s.conclude(s.version.Failure(s.GiveUp(s.message())))
		}
		now := time.Now()
		if reason, refusal := s.Admit(now); reason != ownership.ReasonAllowed {
			s.Refuse(reason, refusal)
			return false, s.conclude(s.version.Failure(s.GiveUp(s.message())))
		}
		if err = s.attempt(now); err != nil {
			below, a, _ = s.now()
			s.settleAttempt(below, a, err)
		}
	}
	return true, nil
}

// ours reports whether this layer has asked for the attempt.
func (s *Stream) ours() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started && !s.Passes
}

// conclude makes err what the stream ended with.
func (s *Stream) conclude(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = err
	return err
}

// Close is called when the caller wants nothing more of the callee. A stream that it leaves before its end is one that was
// canceled.
func (s *Stream) Close() error {
	s.mu.Lock()
	below, a, out := s.below, s.Current, s.out
	if s.started && !s.Passes && !a.settled && s.over == nil {
		a.settled = true
		a.stop()
		s.Result = engine.Result{Canceled: true}
		s.Done(s.Now())
		s.unhook(a)
	}
	s.mu.Unlock()
	defer a.Release()
	if !out {
		return nil // as CloseSend
	}
	return below.Close()
}

// End says that the stream has ended well with its one message.
func (s *Stream) End() {
	below, a, over := s.now()
	if over != nil || !s.ours() {
		return
	}
	s.settleAttempt(below, a, io.EOF)
	s.conclude(io.EOF)
}
