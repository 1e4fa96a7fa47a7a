package budgethttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// stub is a base that answers its nth request with the nth answer, later ones with the last, and counts.
type stub struct {
	calls   int
	answers []func(*http.Request) (*http.Response, error)
	bodies  []*text
	headers []http.Header
}

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls++
	s.headers = append(s.headers, r.Header.Clone())
	return s.answers[min(s.calls, len(s.answers))-1](r)
}

// says adds an answer with that status after a while; header is a list of names and values.
func (s *stub) says(status int, after time.Duration, body string, header ...string) *stub {
	s.answers = append(s.answers, func(r *http.Request) (*http.Response, error) {
		if after > 0 {
			select {
			case <-time.After(after):
			case <-r.Context().Done():
				return nil, context.Cause(r.Context()) // as net/http does
			}
		}
		b := newText(body)
		s.bodies = append(s.bodies, b)
		return response(r, status, b, header...), nil
	})
	return s
}

// hangs adds an answer that never comes.
func (s *stub) hangs() *stub {
	s.answers = append(s.answers, func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	})
	return s
}

func TestRegression_A023_a_hint_beyond_the_deadline_returns_the_answer_at_once(t *testing.T) {
	for name, tc := range map[string]struct {
		setting string
		want    ownership.Reason
	}{
		"within_the_cap": {"backoff: {cap: 20s}", ownership.ReasonDeadline},
		"beyond_the_cap": {"backoff: {cap: 5s}", ownership.ReasonPushback},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCaller(t, roomy, catalog(3, tc.setting, keepsTokens), chainbudgettest.Sleep())
				ctx, end := c.endlessChain(t.Context())
				defer end()
				ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				base := new(stub).says(429, 0, "slow down", "Retry-After", "10")
				began := time.Now()
				resp, err := c.client(t, base).Do(request(t, ctx, "GET", "http://callee.internal/", nil))
				if err != nil {
					t.Fatal(err)
				}
				if spent := time.Since(began); spent != 0 {
					t.Errorf("returned after %v, want at once", spent)
				}
				denied := budgethttp.Denied(resp)
				if denied == nil || denied.Reason != tc.want || denied.RetryAfter != 10*time.Second {
					t.Errorf("Denied says %+v, want %v with a hint of 10 s", denied, tc.want)
				}
				if status, body := read(t, resp); status != 429 || body != "slow down" {
					t.Errorf("got %d %q, want the readable 429", status, body)
				}
				if base.calls != 1 {
					t.Errorf("%d requests, want 1", base.calls)
				}
				if b := balance(t, ctx); b.Held != 3 {
					t.Errorf("the purse is %+v, want nothing spent", b)
				}
			})
		})
	}
}

// cancelDuringBackoff starts a call whose first answer has that status, cancels it 500 ms into a backoff of a second or
// more, and returns what came of it.
func cancelDuringBackoff(t *testing.T, status int, cancelWith func(context.Context) (context.Context, context.CancelFunc)) (*stub, error) {
	c := newCaller(t, roomy, catalog(3, keepsTokens), chainbudgettest.Sleep())
	chain, end := c.endlessChain(t.Context())
	defer end()
	ctx, cancel := cancelWith(chain)
	defer cancel()
	base := new(stub).says(status, 0, "slow down", "Retry-After", "1")
	req := request(t, ctx, "PUT", "http://callee.internal/", nil)
	body := &replayed{content: "order"}
	body.attach(req)
	began := time.Now()
	resp, err := c.client(t, base).Do(req)
	if err == nil {
		resp.Body.Close()
		t.Fatal("a call canceled during its backoff returned a response")
	}
	if spent := time.Since(began); spent != 500*time.Millisecond {
		t.Errorf("returned after %v, want at the moment of the cancellation, 500 ms", spent)
	}
	if b := balance(t, chain); b.Held != 3 || b.Spent != 0 {
		t.Errorf("the purse is %+v: the token of the retry that did not go out did not come back", b)
	}
	events := c.Events()
	if len(events) != 1 || events[0].Before != 3 || events[0].After != 3 {
		t.Errorf("events %+v, want one that leaves 3 of 3 tokens", events)
	}
	for i, b := range base.bodies {
		if n := b.closes.Load(); n != 1 {
			t.Errorf("response body %d was closed %d times, want once", i+1, n)
		}
	}
	for _, copy := range body.copies[:1] {
		if copy.closes.Load() == 0 && copy.reads.Load() > 0 {
			t.Error("the first attempt's body was left open")
		}
	}
	for i, copy := range body.copies[1:] {
		if n := copy.closes.Load(); n != 1 {
			t.Errorf("the copy %d of the body for the retry was closed %d times, want once", i+1, n)
		}
	}
	return base, err
}

func TestRegression_A023_A034_a_cancel_during_the_backoff_says_both_what_ended_it_and_what_the_server_said(t *testing.T) {
	after := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(parent context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(parent)
			time.AfterFunc(d, cancel)
			return ctx, cancel
		}
	}
	for _, status := range []int{429, 503} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base, err := cancelDuringBackoff(t, status, after(500*time.Millisecond))
				if !errors.Is(err, context.Canceled) {
					t.Errorf("errors.Is(err, context.Canceled) is false: %v", err)
				}
				var denied *chainbudget.DeniedError
				if !errors.As(err, &denied) || denied.Status != status || denied.Reason != ownership.ReasonCanceled {
					t.Errorf("got %v, want canceled with status %d", err, status)
				}
				if !strings.Contains(err.Error(), strconv.Itoa(status)) {
					t.Errorf("%q does not name the status", err)
				}
				if base.calls != 1 {
					t.Errorf("%d requests, want 1", base.calls)
				}
			})
		})
	}
	t.Run("with_a_cause", func(t *testing.T) {
		closing := errors.New("the shop is closing")
		synctest.Test(t, func(t *testing.T) {
			_, err := cancelDuringBackoff(t, 503, func(parent context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(parent)
				time.AfterFunc(500*time.Millisecond, func() { cancel(closing) })
				return ctx, func() { cancel(nil) }
			})
			if !errors.Is(err, closing) || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want both the cause and context.Canceled", err)
			}
		})
	})
}

// The same after an attempt that got no answer at all.
func TestRegression_A023_a_cancel_during_the_backoff_after_a_lost_connection_says_both(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, roomy, catalog(3, keepsTokens, "backoff: {base: 10s, cap: 20s}"), chainbudgettest.Sleep(), chainbudgettest.Seed(1))
		chain, end := c.endlessChain(t.Context())
		defer end()
		ctx, cancel := context.WithCancel(chain)
		time.AfterFunc(time.Millisecond, cancel)
		calls := 0
		base := roundTripperFunc(func(*http.Request) (*http.Response, error) {
			calls++
			return nil, syscall.ECONNRESET
		})
		_, err := c.client(t, base).Do(request(t, ctx, "GET", "http://callee.internal/", nil))
		if !errors.Is(err, context.Canceled) || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %v, want both the cancellation and the reset", err)
		}
		if b := balance(t, chain); calls != 1 || b.Held != 3 {
			t.Errorf("%d requests, the purse is %+v; want 1 and all held", calls, b)
		}
	})
}

func TestRegression_A024_a_backoff_beyond_the_deadline_is_not_begun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, roomy, catalog(3, keepsTokens, "backoff: {base: 10s, throttled_base: 10s, cap: 10s}"),
			chainbudgettest.Sleep(), chainbudgettest.Seed(1))
		for range 20 {
			ctx, end := c.endlessChain(t.Context())
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			base := new(stub).says(503, 0, "busy")
			began := time.Now()
			resp, err := c.transport(t, base).RoundTrip(request(t, ctx, "GET", "http://callee.internal/", nil))
			if err != nil {
				t.Fatal(err)
			}
			if spent := time.Since(began); spent != 0 || base.calls != 1 {
				t.Errorf("%d requests in %v, want one and no wait", base.calls, spent)
			}
			if denied := budgethttp.Denied(resp); denied == nil || denied.Reason != ownership.ReasonDeadline {
				t.Errorf("Denied says %v, want deadline", denied)
			}
			if b := balance(t, ctx); b.Held != 3 {
				t.Errorf("the purse is %+v, want nothing spent", b)
			}
			resp.Body.Close()
			cancel()
			end()
		}
	})
}

func TestRegression_A025_a_retry_announces_only_the_time_that_is_left(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []string{"0s", "1s", "300ms"} {
			c := newCaller(t, roomy, catalog(3, "retry: {reserve: 99, attempt_timeout: "+limit+"}"))
			ctx, end := c.endlessChain(t.Context())
			ctx, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
			base := new(stub).says(503, 150*time.Millisecond, "").says(200, 0, "")
			status, _ := send(t, c.client(t, base), request(t, ctx, "GET", "http://callee.internal/", nil))
			if status != 200 {
				t.Errorf("limit %s: got %d, want 200", limit, status)
			}
			want := []string{"400", "250"}
			if limit == "300ms" {
				want[0] = "300"
			}
			for i, h := range base.headers {
				if got := (arrival{header: h}).parameter("timeout"); got != want[i] {
					t.Errorf("limit %s: attempt %d announces %q ms, want %s", limit, i+1, got, want[i])
				}
			}
			cancel()
			end()
		}
	})
}

// The same seen from the callee: its context ends when the caller's does, however often it is asked.
func TestRegression_A025_a_callee_is_given_less_time_on_the_second_attempt(t *testing.T) {
	c := newCaller(t, roomy, catalog(3))
	var left []time.Duration
	server := serve(t, hop(t, "callee", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline, ok := r.Context().Deadline()
		if !ok {
			t.Error("the callee's context has no deadline")
		}
		left = append(left, time.Until(deadline))
		if len(left) == 1 {
			<-time.After(200 * time.Millisecond)
			w.WriteHeader(503)
		}
	})))
	ctx, cancel := context.WithTimeout(c.chain(t), 5*time.Second)
	defer cancel()
	if status, _ := send(t, c.client(t, nil), request(t, ctx, "GET", server.URL, nil)); status != 200 {
		t.Errorf("got %d, want 200", status)
	}
	const rounding = time.Millisecond // the wire says whole milliseconds, rounded down
	if len(left) != 2 || left[0] > 5*time.Second || left[1] > left[0]-200*time.Millisecond+rounding {
		t.Errorf("the callee had %v, want 200 ms less the second time", left)
	}
}

// A027 and A111: the attempt timeout is for the headers. What comes after them may take its time, and is whole.
func TestRegression_A027_A111_the_attempt_timeout_ends_with_the_headers(t *testing.T) {
	const limit = 250 * time.Millisecond
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		t.Run("large_body", func(t *testing.T) {
			c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 250ms}"))
			half := strings.Repeat("h", 256<<10)
			server, seen := callee(t, serve, answer(503, ""), func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, half)
				w.(http.Flusher).Flush()
				<-time.After(2 * limit)
				io.WriteString(w, half)
			})
			resp, err := c.client(t, nil).Do(request(t, c.chain(t), "GET", server.URL, nil))
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(limit + 50*time.Millisecond) // the body is read after the limit has passed
			if status, body := read(t, resp); status != 200 || len(body) != 512<<10 {
				t.Errorf("got %d with %d bytes, want 200 with 524,288", status, len(body))
			}
			if n := len(seen.all()); n != 2 {
				t.Errorf("the server saw %d requests, want 2", n)
			}
		})
		t.Run("slow_stream", func(t *testing.T) {
			c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 250ms}"))
			server, seen := callee(t, serve, func(w http.ResponseWriter, r *http.Request) {
				w.(http.Flusher).Flush()
				for range 10 {
					<-time.After(60 * time.Millisecond)
					io.WriteString(w, "data: x\n\n")
					w.(http.Flusher).Flush()
				}
			})
			status, body := send(t, c.client(t, nil), request(t, c.chain(t), "GET", server.URL, nil))
			if n := strings.Count(body, "data: x"); status != 200 || n != 10 || len(seen.all()) != 1 {
				t.Errorf("got %d with %d events from %d requests, want 200, 10 and 1", status, n, len(seen.all()))
			}
		})
	})
}

func TestRegression_A028_an_expired_attempt_is_retried_and_an_expired_caller_is_not(t *testing.T) {
	cases := map[string]struct {
		deadline time.Duration // of the caller, 0 = none
		calls    int
		spent    time.Duration
		status   int // 0 = an exceeded deadline
	}{
		"attempt_expires":             {0, 2, 50 * time.Millisecond, 200},
		"attempt_expires_before_us":   {time.Second, 2, 50 * time.Millisecond, 200},
		"caller_expires":              {30 * time.Millisecond, 1, 30 * time.Millisecond, 0},
		"caller_expires_at_same_time": {50 * time.Millisecond, 1, 50 * time.Millisecond, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 50ms, reserve: 99}"))
				ctx, end := c.endlessChain(t.Context())
				defer end()
				if tc.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.deadline)
					defer cancel()
				}
				base := new(stub).hangs().says(200, 0, "late but here")
				began := time.Now()
				resp, err := c.client(t, base).Do(request(t, ctx, "GET", "http://callee.internal/", nil))
				if spent := time.Since(began); spent != tc.spent || base.calls != tc.calls {
					t.Errorf("%d requests in %v, want %d in %v", base.calls, spent, tc.calls, tc.spent)
				}
				if tc.status != 0 {
					if err != nil {
						t.Fatal(err)
					}
					if status, _ := read(t, resp); status != tc.status {
						t.Errorf("got %d, want %d", status, tc.status)
					}
					return
				}
				var timeout interface{ Timeout() bool }
				if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("got %v, want an exceeded deadline that is a timeout", err)
				}
				if n := c.SDK.Totals().Dependencies["callee"].Retries; n != 0 {
					t.Errorf("%d retries for a caller that has no time left", n)
				}
			})
		})
	}
}

func TestRegression_A028_an_expired_attempt_is_retried_over_the_network(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 200ms, reserve: 1}"))
		server, seen := callee(t, serve, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done() // the attempt's end reaches the callee
			panic(http.ErrAbortHandler)
		}, answer(200, "fine"))
		ctx := c.chain(t)
		if status, body := send(t, c.client(t, nil), request(t, ctx, "GET", server.URL, nil)); status != 200 || body != "fine" {
			t.Errorf("got %d %q, want 200", status, body)
		}
		if n := len(seen.all()); n != 2 {
			t.Errorf("the server saw %d requests, want 2", n)
		}
		if b := balance(t, ctx); b.Lost != 2 || b.Spent != 1 {
			t.Errorf("the purse is %+v, want the lease of 2 lost with the attempt that hung, and 1 spent", b)
		}
	})
}

func TestRegression_A029_P028_a_context_that_is_dead_already_makes_no_call_and_costs_nothing(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	for name, dead := range map[string]context.Context{"canceled": canceled, "expired": expired} {
		t.Run(name, func(t *testing.T) {
			c := newCaller(t, roomy, catalog(3, "breaker: {min_requests: 1, failure_ratio: 1%}"))
			ctx, end := c.endlessChain(dead)
			defer end()
			base := new(stub).says(200, 0, "")
			client := c.client(t, base)
			for range 10 {
				req := request(t, ctx, "PUT", "http://callee.internal/", nil)
				body := &replayed{content: "x"}
				body.attach(req)
				resp, err := c.transport(t, base).RoundTrip(req)
				if resp != nil || !errors.Is(err, dead.Err()) {
					t.Fatalf("got %v, %v; want %v", resp, err, dead.Err())
				}
				body.check(t, 1)
			}
			if base.calls != 0 {
				t.Errorf("the base was called %d times", base.calls)
			}
			if b := balance(t, ctx); b.Held != 3 {
				t.Errorf("the purse is %+v, want all held", b)
			}
			d := c.SDK.Totals().Dependencies["callee"]
			if d.Attempts != 0 {
				t.Errorf("%d attempts are counted", d.Attempts)
			}
			// One failure would have opened this breaker.
			if status, _ := send(t, client, request(t, c.chain(t), "GET", "http://callee.internal/", nil)); status != 200 {
				t.Errorf("the breaker has opened: got %d", status)
			}
		})
	}
}

func TestRegression_A030_retries_end_with_the_callers_time_however_large_the_budget(t *testing.T) {
	const limit = 200 * time.Millisecond
	for name, base := range map[string]*stub{
		"fails_at_once":    new(stub).says(503, 0, "busy"),
		"fails_after_30ms": new(stub).says(503, 30*time.Millisecond, "busy"),
		"then_hangs":       new(stub).says(503, 0, "busy").hangs(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCaller(t, roomy, catalog(99, "retry: {max_attempts: 99, attempt_timeout: 0s, reserve: 99}",
					"backoff: {base: 1ms, throttled_base: 1ms, cap: 20ms}"), chainbudgettest.Sleep(), chainbudgettest.Seed(7))
				ctx, end := c.endlessChain(t.Context())
				defer end()
				ctx, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				began := time.Now()
				resp, err := c.client(t, base).Do(request(t, ctx, "GET", "http://callee.internal/", nil))
				spent := time.Since(began)
				if spent > limit {
					t.Errorf("returned after %v, the caller had %v", spent, limit)
				}
				if base.calls < 2 {
					t.Errorf("%d requests, want retries while there is time", base.calls)
				}
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v, want the exceeded deadline", err)
					}
					return
				}
				if denied := budgethttp.Denied(resp); denied == nil || denied.Reason != ownership.ReasonDeadline {
					t.Errorf("Denied says %v, want deadline", denied)
				}
				if status, body := read(t, resp); status != 503 || body != "busy" {
					t.Errorf("got %d %q, want the last answer", status, body)
				}
			})
		})
	}
}

func TestRegression_A035_a_caller_that_goes_away_is_no_failure_of_the_callee(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3, "breaker: {min_requests: 2, failure_ratio: 1%}", "availability_floor: 99%"))
		arrived := make(chan struct{})
		var requests atomic.Int64
		server := serve(t, hop(t, "callee", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			if r.URL.Path == "/ok" {
				return
			}
			arrived <- struct{}{}
			<-r.Context().Done()
		})))
		client := c.client(t, nil)
		for range 30 {
			ctx, cancel := context.WithCancel(c.chain(t))
			go func() {
				<-arrived
				cancel()
			}()
			resp, err := client.Do(request(t, ctx, "GET", server.URL+"/wait", nil))
			if err == nil {
				resp.Body.Close()
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v, want context.Canceled", err)
			}
			if b := balance(t, ctx); b.Spent != 0 {
				t.Fatalf("the purse is %+v, want nothing spent", b)
			}
		}
		if n := requests.Load(); n != 30 {
			t.Errorf("the server saw %d requests for 30 canceled calls", n)
		}
		for _, e := range c.Events() {
			if e.Reason != ownership.ReasonCanceled {
				t.Errorf("a canceled call was refused as %v", e.Reason)
			}
		}
		if status, _ := send(t, client, request(t, c.chain(t), "GET", server.URL+"/ok", nil)); status != 200 {
			t.Errorf("cancellations opened the breaker: got %d", status)
		}
	})
}

// P019: an http.Client's Timeout spans all attempts. The profile's limit is what makes an attempt that hangs retryable.
func TestRegression_P019_the_clients_timeout_spans_all_attempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, roomy, catalog(9, "retry: {attempt_timeout: 50ms, reserve: 99}", "backoff: {base: 1ms, throttled_base: 1ms, cap: 1ms}"))
		ctx, end := c.endlessChain(t.Context())
		defer end()

		client := c.client(t, new(stub).hangs().says(200, 0, "fine"))
		client.Timeout = time.Second
		if status, body := send(t, client, request(t, ctx, "GET", "http://callee.internal/", nil)); status != 200 || body != "fine" {
			t.Errorf("got %d %q, want 200 from the second attempt", status, body)
		}

		base := new(stub).hangs()
		client = c.client(t, base)
		client.Timeout = 120 * time.Millisecond
		began := time.Now()
		resp, err := client.Do(request(t, ctx, "GET", "http://callee.internal/", nil))
		if err == nil {
			resp.Body.Close()
			t.Fatal("a server that hangs answered")
		}
		var timeout interface{ Timeout() bool }
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("got %v, want a timeout", err)
		}
		if spent := time.Since(began); spent != 120*time.Millisecond || base.calls != 3 {
			t.Errorf("%d requests in %v, want 3 in 120 ms", base.calls, spent)
		}
	})
}

// P026: an attempt that the deadline cuts off does not hide itself behind the deadline alone.
func TestRegression_P026_the_error_of_an_expired_call_names_the_dependency_and_the_attempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, roomy, catalog(3, keepsTokens))
		ctx, end := c.endlessChain(t.Context())
		defer end()
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := c.transport(t, new(stub).says(503, 0, "").hangs()).RoundTrip(request(t, ctx, "GET", "http://callee.internal/", nil))
		var denied *chainbudget.DeniedError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &denied) ||
			denied.Reason != ownership.ReasonDeadline || denied.Dependency != "callee" || denied.Attempts != 2 {
			t.Errorf("got %v, want deadline at callee after attempt 2", err)
		}
	})
}

// Headers that come just as the attempt's time is over are no answer: the body ends with the attempt's context.
func TestRegression_an_answer_whose_time_is_over_is_a_timeout(t *testing.T) {
	protocols(t, func(t *testing.T, serveCallee func(testing.TB, http.Handler) *httptest.Server) {
		content := strings.Repeat("x", 100<<10)
		server, seen := callee(t, serveCallee, answer(200, content))
		c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 300ms}"))
		pool := newPool(t)
		late := true
		client := c.client(t, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			resp, err := pool.RoundTrip(r)
			if late {
				late = false
				<-r.Context().Done() // between the headers and their return the goroutine had to wait
			}
			return resp, err
		}))
		if status, body := send(t, client, request(t, c.chain(t), http.MethodGet, server.URL, nil)); status != 200 || body != content {
			t.Errorf("status %d with %d bytes, want 200 with %d", status, len(body), len(content))
		}
		if n := len(seen.all()); n < 2 {
			t.Errorf("%d requests arrived, want a retry", n)
		}
	})
}
