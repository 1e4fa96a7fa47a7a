package chainbudgettest

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// replayCases are about bodies.
var replayCases = []Case{
	{Name: "every_attempt_sends_the_body", check: everyAttemptSendsTheBody,
		Checks: "each attempt brings the whole body"},
	{Name: "sent_once", check: sentOnce, Needs: []Capability{Unreplayable},
		Checks: "a request that cannot be sent again is sent once, whole, and costs no token"},
	{Name: "bodies_closed_once", check: bodiesClosedOnce, Needs: []Capability{NetHTTP},
		Checks: "GetBody is called once for each retry, and every body is closed exactly once"},
}

func everyAttemptSendsTheBody(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(failsTwice()...)
	body := strings.Repeat("0123456789", 3000)
	s.succeeded(s.dial(rec, c.address)(s.chain(rec), Request{Body: body}), "done")
	expect(s, "attempts", len(c.all()), 3)
	for i, a := range c.all() {
		if a.Body != body {
			s.Errorf("attempt %d brings %d bytes of %d", i+1, len(a.Body), len(body))
		}
	}
}

func sentOnce(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(says(ownership.ClaimClaimed, fails(503)), says(ownership.ClaimNone, answers("done")))
	ctx := s.chain(rec)
	a := s.dial(rec, c.address)(ctx, Request{Body: "a stream", Once: true})
	s.denied(a, ownership.ReasonNotReplayable)
	expect(s, "attempts", len(c.all()), 1)
	for _, arrived := range c.all() {
		expect(s, "body", arrived.Body, "a stream")
	}
	expect(s, "tokens held", s.balance(ctx).Held, 3)
}

// countedBody counts how often it is closed.
type countedBody struct {
	io.Reader
	closes atomic.Int32
}

// Close implements [io.Closer].
func (b *countedBody) Close() error {
	b.closes.Add(1)
	return nil
}

func bodiesClosedOnce(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(failsTwice()...)
	transport, url := s.a.Transport(s.TB, Link{Address: c.address, Dependency: rec.Dependency("callee", suiteProfile)})
	var bodies []*countedBody
	next := func() *countedBody {
		bodies = append(bodies, &countedBody{Reader: strings.NewReader("asked")})
		return bodies[len(bodies)-1]
	}
	req, err := http.NewRequestWithContext(s.chain(rec), http.MethodPut, url, next())
	if err != nil {
		s.Fatal(err)
	}
	req.ContentLength = int64(len("asked"))
	req.GetBody = func() (io.ReadCloser, error) { return next(), nil }
	resp, err := transport.RoundTrip(req)
	if err != nil {
		s.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	expect(s, "bodies", len(bodies), 3)
	for i, b := range bodies {
		// net/http closes a body on a goroutine of its own.
		s.eventually("a body is closed", func() bool { return b.closes.Load() > 0 })
		if n := b.closes.Load(); n != 1 {
			s.Errorf("the body of attempt %d was closed %d times", i+1, n)
		}
	}
}

// eventually waits until something that goes on elsewhere is so.
func (s *stage) eventually(what string, so func() bool) {
	s.Helper()
	if !within(patience/4, so) {
		s.Fatalf("not within %v: %s", patience/4, what)
	}
}

// within waits until something is so, and reports whether it came to that.
func within(limit time.Duration, so func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !so(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
