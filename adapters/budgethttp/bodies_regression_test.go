package budgethttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
)

func TestRegression_A001_every_attempt_sends_the_whole_body_with_its_length(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(1))
		server, seen := callee(t, serve, answer(503, "busy"), answer(200, "done"))
		ctx := c.chain(t)
		req := request(t, ctx, "POST", server.URL, bytes.NewReader([]byte("hello")))
		req.Header.Set("Idempotency-Key", "order-17")

		status, body := send(t, c.client(t, nil), req)
		if status != 200 || body != "done" {
			t.Errorf("got %d %q, want 200 done", status, body)
		}
		got := seen.all()
		if len(got) != 2 {
			t.Fatalf("the server saw %d requests, want 2", len(got))
		}
		for i, a := range got {
			if a.body != "hello" || a.length != 5 {
				t.Errorf("request %d: body %q with Content-Length %d, want hello with 5", i+1, a.body, a.length)
			}
			if key := a.header.Get("Idempotency-Key"); key != "order-17" {
				t.Errorf("request %d: Idempotency-Key %q, want the same one each time", i+1, key)
			}
		}
		if b := balance(t, ctx); b.Held != 0 || b.Spent != 1 {
			t.Errorf("the purse is %+v, want its one token spent", b)
		}
	})
}

func TestRegression_A002_a_body_that_cannot_be_replayed_is_sent_once(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3))
		server, seen := callee(t, serve, answer(503, "down for repair"))
		r, w := io.Pipe()
		go func() {
			io.WriteString(w, "stream")
			w.Close()
		}()
		ctx := c.chain(t)
		resp, err := c.client(t, nil).Do(request(t, ctx, "PUT", server.URL, r))
		if err != nil {
			t.Fatal(err)
		}
		denied := budgethttp.Denied(resp)
		if denied == nil || denied.Reason != ownership.ReasonNotReplayable {
			t.Errorf("Denied says %v, want not_replayable", denied)
		}
		if status, body := read(t, resp); status != 503 || body != "down for repair" {
			t.Errorf("got %d %q, want the server's 503 untouched", status, body)
		}
		if got := seen.all(); len(got) != 1 || got[0].body != "stream" {
			t.Errorf("the server saw %+v, want one request with the whole body", got)
		}
		if b := balance(t, ctx); b.Held != 3 {
			t.Errorf("the purse is %+v, want all three tokens held", b)
		}
		if events := c.Events(); len(events) != 1 || events[0].Reason != ownership.ReasonNotReplayable {
			t.Errorf("events %+v, want one not_replayable", events)
		}
		if n := c.SDK.Totals().Dependencies["callee"].Denied["not_replayable"]; n != 1 {
			t.Errorf("not_replayable is counted %d times, want 1", n)
		}
	})
}

// replayed is a request body whose every copy counts its closes.
type replayed struct {
	content string
	copies  []*text
	fails   error
}

// attach makes r the body of req.
func (r *replayed) attach(req *http.Request) {
	r.copies = append(r.copies, newText(r.content))
	req.Body = r.copies[0]
	req.ContentLength = int64(len(r.content))
	req.GetBody = func() (io.ReadCloser, error) {
		if r.fails != nil {
			return nil, r.fails
		}
		body := newText(r.content)
		r.copies = append(r.copies, body)
		return body, nil
	}
}

// check demands that many copies, each closed once.
func (r *replayed) check(t testing.TB, copies int) {
	t.Helper()
	if len(r.copies) != copies {
		t.Errorf("GetBody was called %d times, want %d", len(r.copies)-1, copies-1)
	}
	for i, body := range r.copies {
		body.awaitClose(t)
		if n := body.closes.Load(); n != 1 {
			t.Errorf("request body %d was closed %d times, want once", i+1, n)
		}
	}
}

func TestRegression_A003_GetBody_is_called_once_per_retry_and_every_body_is_closed_once(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3))
		server, seen := callee(t, serve, answer(503, ""), answer(503, ""), answer(200, ""))
		req := request(t, c.chain(t), "PUT", server.URL, nil)
		body := &replayed{content: "hello"}
		body.attach(req)
		if status, _ := send(t, c.client(t, nil), req); status != 200 {
			t.Errorf("got %d, want 200", status)
		}
		body.check(t, 3)
		for i, a := range seen.all() {
			if a.body != "hello" {
				t.Errorf("request %d brought %q", i+1, a.body)
			}
		}
	})
}

func TestRegression_A005_a_request_without_a_body_is_replayable(t *testing.T) {
	for name, body := range map[string]io.ReadCloser{"nil": nil, "no_body": http.NoBody} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{"GET", "HEAD", "DELETE"} {
				c := newCaller(t, roomy, catalog(3))
				server, seen := callee(t, serve, answer(503, ""), answer(200, ""))
				req := request(t, c.chain(t), method, server.URL, nil)
				req.Body = body
				if status, _ := send(t, c.client(t, nil), req); status != 200 {
					t.Errorf("%s: got %d, want 200 from a retry", method, status)
				}
				if n := len(seen.all()); n != 2 {
					t.Errorf("%s: the server saw %d requests, want 2", method, n)
				}
			}
		})
	}
}

// Whether a request can be repeated is asked before the backoff is slept and before a token is taken.
func TestRegression_A006_nothing_is_slept_or_spent_for_a_retry_that_cannot_be_made(t *testing.T) {
	cases := map[string]struct {
		method string
		body   io.Reader
		want   ownership.Reason
	}{
		"not_replayable": {"PUT", io.NopCloser(strings.NewReader("x")), ownership.ReasonNotReplayable},
		"not_idempotent": {"POST", strings.NewReader("x"), ownership.ReasonNotIdempotent},
	}
	for _, status := range []int{503, 429} {
		for name, tc := range cases {
			t.Run(fmt.Sprintf("%s_%d", name, status), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCaller(t, roomy, catalog(2, "backoff: {base: 10s, throttled_base: 10s, cap: 20s}"), chainbudgettest.Sleep())
					ctx, end := c.endlessChain(t.Context())
					defer end()
					base := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
						io.Copy(io.Discard, r.Body)
						r.Body.Close()
						return response(r, status, newText("SlowDown")), nil
					})
					began := time.Now()
					resp, err := c.transport(t, base).RoundTrip(request(t, ctx, tc.method, "http://callee.internal/", tc.body))
					if err != nil {
						t.Fatal(err)
					}
					if spent := time.Since(began); spent != 0 {
						t.Errorf("returned after %v, want at once", spent)
					}
					if got, body := read(t, resp); got != status || body != "SlowDown" {
						t.Errorf("got %d %q, want the server's answer", got, body)
					}
					if reasons := c.Reasons(); len(reasons) != 1 || reasons[0] != tc.want {
						t.Errorf("reasons %v, want %v", reasons, tc.want)
					}
					if b := balance(t, ctx); b.Spent != 0 {
						t.Errorf("the purse is %+v, want nothing spent", b)
					}
				})
			})
		}
	}
}

func TestRegression_A007_a_redirect_that_keeps_the_method_gets_the_whole_body(t *testing.T) {
	for _, code := range []int{307, 308} {
		protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
			c := newCaller(t, roomy, catalog(3))
			server, seen := callee(t, serve,
				answer(503, ""), // the redirect itself needs a retry
				func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/next", code) },
				answer(503, ""), // and so does its target
				answer(200, "got it"),
			)
			var form bytes.Buffer
			parts := multipart.NewWriter(&form)
			parts.WriteField("note", strings.Repeat("n", 100_000))
			parts.Close()
			want := form.String()
			req := request(t, c.chain(t), "POST", server.URL+"/first", &form)
			req.Header.Set("Content-Type", parts.FormDataContentType())
			req.Header.Set("Idempotency-Key", "upload-1")

			if status, body := send(t, c.client(t, nil), req); status != 200 || body != "got it" {
				t.Errorf("got %d %q, want 200", status, body)
			}
			got := seen.all()
			if len(got) != 4 || got[3].path != "/next" {
				t.Fatalf("the server saw %d requests, want 4 ending at /next", len(got))
			}
			for i, a := range got {
				if a.body != want || a.length != int64(len(want)) {
					t.Errorf("request %d has %d bytes and Content-Length %d, want %d", i+1, len(a.body), a.length, len(want))
				}
			}
			if req.GetBody == nil || req.ContentLength != int64(len(want)) {
				t.Errorf("the caller's request lost GetBody or its ContentLength (%d)", req.ContentLength)
			}
		})
	}
}

func TestRegression_A008_a_body_held_back_by_expect_continue_is_whole_on_the_next_attempt(t *testing.T) {
	c := newCaller(t, roomy, catalog(3))
	var bodies []string
	server := serve(t, hop(t, "callee", script(
		answer(503, "not now"), // reads nothing, so that no 100 is sent
		func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
		},
	)))
	pool := newPool(t)
	pool.ExpectContinueTimeout = enough
	req := request(t, c.chain(t), "PUT", server.URL, strings.NewReader("abc"))
	req.Header.Set("Expect", "100-continue")
	if status, _ := send(t, c.client(t, pool), req); status != 200 {
		t.Errorf("got %d, want 200", status)
	}
	if len(bodies) != 1 || bodies[0] != "abc" {
		t.Errorf("the second attempt's body is %q, want abc", bodies)
	}
}

func TestRegression_A011_a_GetBody_that_fails_costs_a_retry_and_nothing_else(t *testing.T) {
	broken := errors.New("the spool file is gone")

	t.Run("first_attempt_succeeds", func(t *testing.T) {
		c := newCaller(t, roomy, catalog(3))
		server, _ := callee(t, serve, answer(200, "fine"))
		req := request(t, c.chain(t), "PUT", server.URL, nil)
		body := &replayed{content: "hello", fails: broken}
		body.attach(req)
		if status, text := send(t, c.client(t, nil), req); status != 200 || text != "fine" {
			t.Errorf("got %d %q, want 200", status, text)
		}
		body.check(t, 1)
	})
	t.Run("first_attempt_fails", func(t *testing.T) {
		c := newCaller(t, roomy, catalog(3))
		server, seen := callee(t, serve, answer(503, "busy"))
		ctx := c.chain(t)
		req := request(t, ctx, "PUT", server.URL, nil)
		body := &replayed{content: "hello", fails: broken}
		body.attach(req)
		resp, err := c.client(t, nil).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		denied := budgethttp.Denied(resp)
		if denied == nil || denied.Reason != ownership.ReasonNotReplayable || !errors.Is(denied, broken) {
			t.Errorf("Denied says %v, want not_replayable around GetBody's error", denied)
		}
		if status, text := read(t, resp); status != 503 || text != "busy" {
			t.Errorf("got %d %q, want the server's 503", status, text)
		}
		body.check(t, 1)
		if n := len(seen.all()); n != 1 {
			t.Errorf("the server saw %d requests, want 1", n)
		}
		events := c.Events()
		if len(events) != 1 || events[0].Reason != ownership.ReasonNotReplayable || !errors.Is(events[0].Err, broken) {
			t.Errorf("events %+v, want one not_replayable with GetBody's error", events)
		}
		if b := balance(t, ctx); b.Held != 3 || b.Spent != 0 {
			t.Errorf("the purse is %+v: the token of a retry that was not made did not come back", b)
		}
	})
}

func TestRegression_A013_a_body_of_any_size_is_replayed_whole_or_not_at_all(t *testing.T) {
	for _, size := range []int{1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 3 << 20} {
		content := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
			c := newCaller(t, roomy, catalog(3))
			server, seen := callee(t, serve, answer(503, ""), answer(200, ""))
			if status, _ := send(t, c.client(t, nil), request(t, c.chain(t), "PUT", server.URL, strings.NewReader(content))); status != 200 {
				t.Errorf("%d bytes: got %d, want 200", size, status)
			}
			got := seen.all()
			if len(got) != 2 || got[0].body != content || got[1].body != content {
				t.Errorf("%d bytes: %d requests, or not the whole body in each", size, len(got))
			}

			server, seen = callee(t, serve, answer(503, ""))
			body := io.NopCloser(strings.NewReader(content)) // hides that it could be rewound
			if status, _ := send(t, c.client(t, nil), request(t, c.chain(t), "PUT", server.URL, body)); status != 503 {
				t.Errorf("%d bytes without GetBody: got %d, want 503", size, status)
			}
			if got := seen.all(); len(got) != 1 || got[0].body != content {
				t.Errorf("%d bytes without GetBody: %d requests, want one with the whole body", size, len(got))
			}
		})
	}
}

// A body is the transport's business: the SDK hands it down unread, and asks for a copy only to retry.
func TestRegression_P009_a_body_is_never_read_ahead(t *testing.T) {
	c := newCaller(t, roomy, catalog(3, keepsTokens))
	req := request(t, c.chain(t), "PUT", "http://callee.internal/", nil)
	body := &replayed{content: strings.Repeat("x", 1<<20)}
	body.attach(req)
	attempts := 0
	base := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		attempts++
		if len(body.copies) != attempts {
			t.Errorf("attempt %d: GetBody was called %d times", attempts, len(body.copies)-1)
		}
		if n := body.copies[attempts-1].reads.Load(); n != 0 {
			t.Errorf("attempt %d: the body had been read %d times before the transport got it", attempts, n)
		}
		if n, err := io.Copy(io.Discard, r.Body); n != 1<<20 || err != nil {
			t.Errorf("attempt %d: %d bytes, %v", attempts, n, err)
		}
		r.Body.Close()
		if attempts < 3 {
			return response(r, 503, newText("")), nil
		}
		return response(r, 200, newText("")), nil
	})
	if status, _ := send(t, c.client(t, base), req); status != 200 || attempts != 3 {
		t.Errorf("got %d after %d attempts, want 200 after 3", status, attempts)
	}
	body.check(t, 3)
}

func TestRegression_P010_a_streaming_body_starts_at_once_and_ends_with_the_deadline(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3))
		arrived := make(chan struct{})
		server := serve(t, hop(t, "callee", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(arrived)
			io.Copy(io.Discard, r.Body)
		})))
		r, w := io.Pipe()
		defer w.Close()
		// net/http itself waits up to 200 ms for a first byte of a body of unknown length.
		ctx, cancel := context.WithTimeout(c.chain(t), 500*time.Millisecond)
		defer cancel()
		began := time.Now()
		done := make(chan error, 1)
		go func() {
			resp, err := c.client(t, nil).Do(request(t, ctx, "PUT", server.URL, r))
			if err == nil {
				resp.Body.Close()
			}
			done <- err
		}()
		late := time.AfterFunc(enough/4, func() { w.Close() }) // so that a call that waits for its body ends too
		defer late.Stop()
		var err error
		select {
		case <-arrived: // before a single byte of the body exists
			err = <-done
		case err = <-done:
			t.Error("the request never arrived")
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the exceeded deadline", err)
		}
		if spent := time.Since(began); spent > 3*time.Second {
			t.Errorf("the call took %v beyond a deadline of 500 ms", spent)
		}
	})
}

// A server may answer before it has read the body. net/http may then still be reading it while the next attempt begins:
// the race detector watches that the two never share one.
func TestRegression_P014_an_attempt_never_shares_its_body_with_one_still_being_written(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3))
		var n, bytesRead atomic.Int64
		server := serve(t, hop(t, "callee", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1)%3 != 0 {
				w.WriteHeader(503)
				return
			}
			read, _ := io.Copy(io.Discard, r.Body)
			bytesRead.Add(read)
		})))
		client := c.client(t, nil)
		content := bytes.Repeat([]byte("x"), 1<<20)
		for range 10 {
			if status, _ := send(t, client, request(t, c.chain(t), "PUT", server.URL, bytes.NewReader(content))); status != 200 {
				t.Fatalf("got %d, want 200", status)
			}
		}
		if got := bytesRead.Load(); got != 10<<20 {
			t.Errorf("the successful attempts brought %d bytes, want %d", got, 10<<20)
		}
	})
}

func TestRegression_P011_an_unreplayable_POST_with_a_key_is_sent_once(t *testing.T) {
	c := newCaller(t, roomy, catalog(3))
	server, seen := callee(t, serve, answer(503, ""))
	req := request(t, c.chain(t), "POST", server.URL, io.NopCloser(strings.NewReader("hello")))
	req.Header.Set("Idempotency-Key", "k")
	if status, _ := send(t, c.client(t, nil), req); status != 503 {
		t.Errorf("got %d, want 503", status)
	}
	if got := seen.all(); len(got) != 1 || got[0].body != "hello" {
		t.Errorf("the server saw %+v, want one whole request", got)
	}
}

// A body that breaks off is the caller's failure. It says nothing about the callee, and another attempt would break too.
func TestRegression_a_body_that_fails_is_not_retried_and_not_held_against_the_callee(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3, "breaker: {min_requests: 2, failure_ratio: 1%}"))
		server, _ := callee(t, serve, answer(200, ""))
		client := c.client(t, nil)
		broken := errors.New("the disk is gone")
		for range 5 {
			body := io.MultiReader(strings.NewReader("half"), failingReader{broken})
			req := request(t, c.chain(t), "PUT", server.URL, nil)
			req.Body, req.ContentLength = io.NopCloser(body), 100
			req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("was asked for a copy") }
			_, err := client.Do(req)
			var denied *chainbudget.DeniedError
			if !errors.Is(err, broken) || !errors.As(err, &denied) || denied.Reason != ownership.ReasonNotRetryable {
				t.Errorf("got %v, want not_retryable around the body's error", err)
			}
		}
		if status, _ := send(t, client, request(t, c.chain(t), "GET", server.URL, nil)); status != 200 {
			t.Errorf("after failing bodies a GET got %d, want 200", status)
		}
	})
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }
