package subject

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// Each side that is said to have a breaker has one that counts what the others count: it opens while calls fail, and does
// not while the terms say that they may.
func TestBreakersAreReal(t *testing.T) {
	for _, c := range []struct {
		name   string
		open   func(*stage) layer
		opens  bool
		opened func(error) bool
	}{
		{"chainbudget", sdk("plain"), true, func(err error) bool {
			var denied *chainbudget.DeniedError
			return errors.As(err, &denied) && denied.Reason == ownership.ReasonBreakerOpen
		}},
		{"failsafe", failsafeOn(terms{}), true, func(err error) bool { return errors.Is(err, circuitbreaker.ErrOpen) }},
		{"backoff_gobreaker", byHandOn(terms{refuses: true}), true, func(err error) bool { return errors.Is(err, gobreaker.ErrOpenState) }},
		{"chainbudget_failing", sdk("failing"), false, nil},
		{"failsafe_failing", failsafeOn(terms{fails: true}), false, nil},
		{"backoff_gobreaker_failing", byHandOn(terms{fails: true}), false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := new(stage)
			l := c.open(s)
			run := &Run{stage: s}
			defer run.Close()
			rt, ctx := l.wrap(&callee{tally: s.tally(), answers: failing}), l.context()
			const calls = 100
			var last error
			for range calls {
				last = getStatus(ctx, rt, nil, http.StatusServiceUnavailable)
			}
			reached := run.Reached()[0]
			switch {
			case c.opens && (reached < 20 || reached >= calls || !c.opened(last)):
				t.Errorf("%d attempts of %d calls got through, the last ended with %v: want a breaker that has opened after 20 or more", reached, calls, last)
			case !c.opens && (reached < calls || last != nil):
				t.Errorf("%d attempts of %d calls got through, the last ended with %v: want all", reached, calls, last)
			}
		})
	}
}

// What is composed by hand is composed with care: a second attempt sends the whole body, and the first one's response is
// closed.
func TestHandmadeSendsBodiesAgain(t *testing.T) {
	var got []string
	closed := 0
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		got = append(got, string(body))
		status := http.StatusOK
		if len(got) == 1 {
			status = http.StatusServiceUnavailable
		}
		return &http.Response{StatusCode: status, Body: closing{strings.NewReader("down"), &closed}, Request: req}, nil
	})
	s := new(stage)
	l := s.byHand(terms{fails: true})
	defer (&Run{stage: s}).Close()
	req, err := http.NewRequestWithContext(l.context(), http.MethodPut, target, bytes.NewReader([]byte("order")))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := l.wrap(base).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || len(got) != 2 || got[0] != "order" || got[1] != "order" || closed != 1 {
		t.Errorf("status %d, bodies %q, %d responses closed: want 200, the body twice, and the first response closed", resp.StatusCode, got, closed)
	}
}

type closing struct {
	io.Reader
	closed *int
}

func (c closing) Close() error {
	*c.closed++
	return nil
}
