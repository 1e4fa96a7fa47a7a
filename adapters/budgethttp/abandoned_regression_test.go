package budgethttp_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// A base that panics or ends its goroutine leaves nothing behind: the lease is settled, and the body closed.
func TestRegression_an_abandoned_attempt_is_settled(t *testing.T) {
	ends := map[string]func(){"panic": func() { panic("base") }, "goexit": runtime.Goexit}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			c := newCaller(t, roomy, catalog(3))
			transport := c.transport(t, roundTripperFunc(func(*http.Request) (*http.Response, error) { end(); return nil, nil }))
			ctx := c.chain(t)
			body := newText("streamed")
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { recover() }()
				transport.RoundTrip(request(t, ctx, http.MethodPost, "http://localhost/", body))
			}()
			<-done
			if b := balance(t, ctx); b.Lent != 0 || b.Lost != 2 {
				t.Errorf("the purse is %+v, want the two tokens that went out to be lost", b)
			}
			body.awaitClose(t)
		})
	}
}

// A half-open breaker's probe that panics gives its permit back: the next one need not wait until it counts as hanging.
func TestRegression_a_probe_that_panics_below_the_transport_gives_its_permit_back(t *testing.T) {
	c := newCaller(t, roomy, catalog(3, "breaker: {min_requests: 2, failure_ratio: 50%, open_for: 10ms, probe_timeout: 1h, probes: 1}"))
	var turn int
	transport := c.transport(t, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		switch turn++; {
		case turn <= 2:
			return nil, errors.New("down")
		case turn == 3:
			panic("base")
		default:
			return response(r, http.StatusOK, newText("")), nil
		}
	}))
	call := func() (err error) {
		defer func() {
			if recover() != nil {
				err = errors.New("panicked")
			}
		}()
		resp, err := transport.RoundTrip(request(t, context.Background(), http.MethodPost, "http://localhost/", nil))
		if err == nil {
			read(t, resp)
		}
		return err
	}
	deadline, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	for err := call(); err != nil; err = call() { // opens, is open, panics as the probe, opens again, closes
		if deadline.Err() != nil {
			t.Fatalf("the breaker still refuses: %v", err)
		}
		runtime.Gosched()
	}
	if turn < 4 {
		t.Fatalf("%d attempts were made, want the panicking probe and one more", turn)
	}
}

// A call that is canceled while the connection is made never left: its lease comes home, and it had no effects.
func TestRegression_a_cancel_while_dialing_loses_no_token(t *testing.T) {
	c := newCaller(t, roomy, catalog(3))
	chain := c.chain(t)
	ctx, cancel := context.WithCancel(chain)
	pool := newPool(t)
	pool.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, err := c.transport(t, pool).RoundTrip(request(t, ctx, http.MethodPost, "http://localhost:1/", nil))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v, want the cancellation", err)
	}
	if b := balance(t, chain); b.Held != 3 || b.Lost != 0 {
		t.Errorf("the purse is %+v, want all three tokens held", b)
	}
	if why := ownership.Explain(chain); strings.Contains(why, "must not run twice") {
		t.Errorf("the request counts as sent: %s", why)
	}
}

// A service that calls a handler of its own within the process sends it a request like any other: the handler reads the
// lease, takes it off the request (I6), and returns it.
func TestRegression_a_call_within_the_process_is_a_request_of_its_own(t *testing.T) {
	c := newCaller(t, roomy, catalog(3))
	inner := budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Chainbudget", "Baggage"} {
			if v := r.Header[name]; len(v) > 0 {
				t.Errorf("I6: the inner handler's code gets %s: %q", name, v)
			}
		}
	}), c.SDK)
	client := c.client(t, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		inner.ServeHTTP(w, r.Clone(r.Context()))
		resp := w.Result()
		resp.Request = r
		return resp, nil
	}))
	outer := entry(t, c, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		send(t, client, request(t, r.Context(), http.MethodGet, "http://callee/", nil))
		if b := balance(t, r.Context()); b.Held != 3 {
			t.Errorf("the purse is %+v, want the lease to have come home", b)
		}
	}))
	outer.ServeHTTP(httptest.NewRecorder(), request(t, context.Background(), http.MethodGet, "/", nil))
	if totals := c.SDK.Totals(); totals.Entries != 1 || totals.Callees != 1 {
		t.Errorf("%d entries and %d callees, want one of each", totals.Entries, totals.Callees)
	}
}

// A request that is withdrawn by its Cancel channel is a cancellation: no retry, and no failure of the dependency. The one
// that http.Client's Timeout ends by the same channel ran out of time.
func TestRegression_a_request_that_its_Cancel_channel_ends_is_canceled(t *testing.T) {
	for _, withTimeout := range []bool{false, true} {
		arrived := make(chan struct{}, 9)
		server := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-r.Context().Done()
		}))
		c := newCaller(t, roomy, catalog(3))
		client := c.client(t, nil)
		req := request(t, c.chain(t), http.MethodGet, server.URL, nil)
		want := ownership.ReasonCanceled
		if withTimeout {
			client.Timeout = 50 * time.Millisecond
			want = ownership.ReasonDeadline
		} else {
			withdraw := make(chan struct{})
			//lint:ignore SA1019 deprecated, and honored by net/http
			req.Cancel = withdraw
			go func() {
				<-arrived
				close(withdraw)
			}()
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			t.Fatal("the request succeeds")
		}
		if got := c.Reasons(); len(got) != 1 || got[0] != want {
			t.Errorf("with a timeout %v: the decisions are %v, want %v", withTimeout, got, want)
		}
	}
}
