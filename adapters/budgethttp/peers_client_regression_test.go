package budgethttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/baggage"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// photograph is what a RoundTripper must leave alone.
type photograph struct {
	fields  http.Request
	header  http.Header
	url     string
	baggage string
}

func photographOf(r *http.Request) photograph {
	return photograph{fields: *r, header: r.Header.Clone(), url: r.URL.String(), baggage: baggage.FromContext(r.Context()).String()}
}

// check demands that the request is what it was.
func (p photograph) check(t testing.TB, r *http.Request) {
	t.Helper()
	if !reflect.DeepEqual(r.Header, p.header) || reflect.ValueOf(r.Header).Pointer() != reflect.ValueOf(p.fields.Header).Pointer() {
		t.Errorf("the header is now %v, was %v", r.Header, p.header)
	}
	if r.URL != p.fields.URL || r.URL.String() != p.url {
		t.Errorf("the URL is now %v, was %v", r.URL, p.url)
	}
	if r.Body != p.fields.Body {
		t.Error("the Body is another one")
	}
	if reflect.ValueOf(r.GetBody).Pointer() != reflect.ValueOf(p.fields.GetBody).Pointer() {
		t.Error("GetBody is another one")
	}
	if r.Context() != p.fields.Context() || baggage.FromContext(r.Context()).String() != p.baggage {
		t.Error("the context is another one, or its baggage is")
	}
	now, was := *r, p.fields
	for _, one := range []*http.Request{&now, &was} {
		one.Header, one.URL, one.Body, one.GetBody = nil, nil, nil, nil
	}
	if !reflect.DeepEqual(now.WithContext(context.Background()), was.WithContext(context.Background())) {
		t.Errorf("the request is now %+v, was %+v", now, was)
	}
}

func TestRegression_P012_the_callers_request_is_left_as_it_is(t *testing.T) {
	reset := errors.New("connection reset")
	reads := func(status int) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			if r.Header.Get(otelprop.HTTPRequestHeader) == "" || r.Header.Get(otelprop.HTTPBaggageHeader) == "" {
				t.Error("an attempt carries no wire")
			}
			r.Header.Set("X-Written-Below", "1") // a base may write to what it was given
			r.Header["X-Shared"] = append(r.Header["X-Shared"], "appended")
			if r.Body != nil {
				io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
			if status == 0 {
				return nil, reset
			}
			return response(r, status, newText("")), nil
		}
	}
	member, err := baggage.NewMemberRaw("tenant", "blue")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	headers := map[string]func() http.Header{
		"nil_header":   func() http.Header { return nil },
		"empty_header": func() http.Header { return http.Header{} },
		"full_header": func() http.Header {
			shared := make([]string, 1, 8) // room in which a careless append would write
			shared[0] = "one"
			return http.Header{
				"Baggage": {"user=7", "lane=3"}, "X-Shared": shared, "chainbudget": {"v1.9.9.1.aabbccdd.evil"},
				"Chainbudget-Return": {"v1.9.0.n.aabbccdd.-"}, "x-lower": {"as it is"},
			}
		},
	}
	for name, header := range headers {
		for outcome, statuses := range map[string][]int{"succeeds": {200}, "retries": {503, 0, 200}, "fails": {503}, "breaks": {0}} {
			t.Run(name+"_"+outcome, func(t *testing.T) {
				c := newCaller(t, roomy, catalog(3, keepsTokens))
				base := new(stub)
				for _, s := range statuses {
					base.answers = append(base.answers, reads(s))
				}
				ctx := baggage.ContextWithBaggage(c.chain(t), bag)
				req := request(t, ctx, "PUT", "http://callee.internal/path?q=1", nil)
				req.Header = header()
				body := &replayed{content: "x"}
				body.attach(req)
				before := photographOf(req)
				resp, err := c.transport(t, base).RoundTrip(req)
				if (resp == nil) == (err == nil) {
					t.Fatalf("got %v and %v, want exactly one", resp, err)
				}
				before.check(t, req)
				if resp != nil {
					resp.Body.Close()
				}
				if shared := req.Header["X-Shared"]; shared != nil && shared[:2][1] != "" {
					t.Errorf("the caller's backing array was written: %q", shared[:2])
				}
				body.check(t, base.calls)
			})
		}
	}
}

// A RoundTripper returns a response or an error, never both and never neither, whatever its base does.
func TestRegression_a_base_that_breaks_its_contract_is_not_passed_on(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		method string
		both   bool
	}{
		"both_GET": {"GET", true}, "both_POST": {"POST", true}, "neither_GET": {"GET", false}, "neither_POST": {"POST", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaller(t, roomy, catalog(2, keepsTokens))
			var bodies []*text
			base := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				if r.Body != nil {
					r.Body.Close()
				}
				if !tc.both {
					return nil, nil
				}
				bodies = append(bodies, newText("half an answer"))
				return response(r, 200, bodies[len(bodies)-1]), broken
			})
			ctx := c.chain(t)
			req := request(t, ctx, tc.method, "http://callee.internal/", nil)
			body := &replayed{content: "x"}
			body.attach(req)
			resp, err := c.transport(t, base).RoundTrip(req)
			if resp != nil || err == nil {
				t.Fatalf("got %v and %v, want an error alone", resp, err)
			}
			if tc.both && !errors.Is(err, broken) {
				t.Errorf("got %v, want the base's error", err)
			}
			for i, b := range bodies {
				if n := b.closes.Load(); n != 1 {
					t.Errorf("response body %d was closed %d times, want once", i+1, n)
				}
			}
			if b := balance(t, ctx); b.Lent != 0 {
				t.Errorf("the purse is %+v, want nothing lent", b)
			}
		})
	}
	t.Run("nil_body", func(t *testing.T) {
		c := newCaller(t, roomy, catalog(2, keepsTokens))
		calls := 0
		base := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			calls++
			resp := response(r, 503, nil)
			resp.ContentLength = 0
			if calls == 2 {
				resp.StatusCode = 200
			}
			return resp, nil
		})
		if status, _ := send(t, c.client(t, base), request(t, c.chain(t), "GET", "http://callee.internal/", nil)); status != 200 {
			t.Errorf("got %d, want 200", status)
		}
	})
}

// P013: the request's body is closed exactly once on every way out, also where no attempt was made.
func TestRegression_P013_the_callers_body_is_closed_once_on_every_path(t *testing.T) {
	closes := func(times int, status int) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			for range times { // net/http may close more than once
				r.Body.Close()
			}
			if status == 0 {
				return nil, io.ErrUnexpectedEOF
			}
			return response(r, status, newText("")), nil
		}
	}
	answers := func(a ...func(*http.Request) (*http.Response, error)) []func(*http.Request) (*http.Response, error) {
		return a
	}
	for name, tc := range map[string]struct {
		answers []func(*http.Request) (*http.Response, error)
		bodies  int // made in all
		getBody error
		breaks  bool // the breaker is open
		cancels bool // the caller goes away during the first backoff
	}{
		"success":                 {answers: answers(closes(1, 200)), bodies: 1},
		"closed_twice_below":      {answers: answers(closes(2, 200)), bodies: 1},
		"not_retryable":           {answers: answers(closes(1, 500)), bodies: 1},
		"retries":                 {answers: answers(closes(1, 503), closes(2, 0), closes(1, 200)), bodies: 3},
		"attempts_run_out":        {answers: answers(closes(1, 503)), bodies: 4},
		"errors_run_out":          {answers: answers(closes(1, 0)), bodies: 4},
		"get_body_fails":          {answers: answers(closes(1, 503)), bodies: 1, getBody: errors.New("gone")},
		"refused_by_breaker":      {answers: answers(closes(1, 200)), bodies: 1, breaks: true},
		"canceled_during_backoff": {answers: answers(closes(1, 503)), bodies: 2, cancels: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCaller(t, roomy, catalog(3, keepsTokens, "breaker: {min_requests: 5, failure_ratio: 100%}",
					"backoff: {base: 10s, throttled_base: 10s, cap: 10s}"), chainbudgettest.Sleep(), chainbudgettest.Seed(1))
				if tc.breaks {
					openBreaker(t, c)
				}
				ctx, end := c.endlessChain(t.Context())
				defer end()
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				if tc.cancels {
					time.AfterFunc(time.Millisecond, cancel)
				}
				req := request(t, ctx, "PUT", "http://callee.internal/", nil)
				body := &replayed{content: "x", fails: tc.getBody}
				body.attach(req)
				base := &stub{answers: tc.answers}
				resp, err := c.transport(t, base).RoundTrip(req)
				if (resp == nil) == (err == nil) {
					t.Fatalf("got %v and %v, want exactly one", resp, err)
				}
				if resp != nil {
					resp.Body.Close()
				}
				body.check(t, tc.bodies)
				if tc.breaks && base.calls != 0 {
					t.Errorf("the base was called %d times behind an open breaker", base.calls)
				}
				if b := balance(t, ctx); b.Held+b.Spent != 3 || b.Spent != max(0, base.calls-1) {
					t.Errorf("%d requests, the purse is %+v: want one token spent for each retry and the rest held", base.calls, b)
				}
			})
		})
	}
}

// openBreaker makes calls that fail until the callee's breaker opens.
func openBreaker(t testing.TB, c *caller) {
	t.Helper()
	base := roundTripperFunc(func(r *http.Request) (*http.Response, error) { return response(r, 500, newText("")), nil })
	for range 100 {
		resp, err := c.transport(t, base).RoundTrip(request(t, context.Background(), "GET", "http://callee.internal/", nil))
		if err != nil {
			var denied *chainbudget.DeniedError
			if !errors.As(err, &denied) || denied.Reason != ownership.ReasonBreakerOpen || denied.Attempts != 0 {
				t.Fatalf("got %v, want breaker_open", err)
			}
			return
		}
		resp.Body.Close()
	}
	t.Fatal("100 failures did not open the breaker")
}

// Every status below is answered first, and 200 after it. What is retried is read-heavy's list.
func TestRegression_statuses_are_retried_by_the_profile_and_the_method(t *testing.T) {
	cases := []struct {
		status                 int
		read, write, writeOnce bool // is a GET retried, a POST with a key, a POST without
		header                 []string
	}{
		{status: 408, read: true, write: true},
		{status: 421, read: true, write: true, writeOnce: true},
		{status: 425, read: true, write: true, writeOnce: true},
		{status: 429, read: true, write: true},
		{status: 502, read: true, write: true},
		{status: 503, read: true, write: true},
		{status: 504, read: true, write: true},
		{status: 500}, {status: 501}, {status: 505}, {status: 511},
		{status: 400}, {status: 401}, {status: 404}, {status: 409}, {status: 410}, {status: 418},
		{status: 503, header: []string{"Finagle-Http-Nack", "true"}, read: true, write: true, writeOnce: true},
		{status: 503, header: []string{"Finagle-Http-Nonretryable-Nack", "true"}},
		{status: 429, header: []string{"X-Envoy-Ratelimited", ""}},
		{status: 429, header: []string{"X-Envoy-Ratelimited", "true"}},
		{status: 503, header: []string{"X-Envoy-Overloaded", "true"}},
	}
	for _, tc := range cases {
		name := fmt.Sprint(tc.status, tc.header)
		try := func(method, key string, want bool) {
			c := newCaller(t, roomy, catalog(3))
			server, seen := callee(t, serve, answer(tc.status, "first", tc.header...), answer(200, "second"))
			ctx := c.chain(t)
			req := request(t, ctx, method, server.URL, strings.NewReader("x"))
			if key != "" {
				req.Header.Set(key, "k-1")
			}
			status, _ := send(t, c.client(t, nil), req)
			n := len(seen.all())
			if retried := n == 2 && status == 200; retried != want || !want && (n != 1 || status != tc.status) {
				t.Errorf("%s, %s with %q: got %d after %d requests, want a retry: %v", name, method, key, status, n, want)
			}
			if b := balance(t, ctx); (b.Spent == 1) != want {
				t.Errorf("%s, %s with %q: the purse is %+v", name, method, key, b)
			}
			if len(tc.header) > 0 && !tc.read {
				if reasons := c.Reasons(); len(reasons) != 1 || reasons[0] != ownership.ReasonPushback {
					t.Errorf("%s, %s: reasons %v, want pushback", name, method, reasons)
				}
			}
		}
		try("GET", "", tc.read)
		try("PUT", "", tc.read)
		try("DELETE", "", tc.read)
		try("POST", "Idempotency-Key", tc.write)
		try("PATCH", "X-Idempotency-Key", tc.write)
		try("POST", "", tc.writeOnce)
		try("PATCH", "", tc.writeOnce)
	}
}

func TestRegression_statuses_a_profile_decides_what_is_retried(t *testing.T) {
	for status, want := range map[int]int{500: 2, 503: 1, 404: 2} {
		c := newCaller(t, roomy, catalog(3, "retry: {statuses: [500, 404]}"))
		server, seen := callee(t, serve, answer(status, ""), answer(200, ""))
		send(t, c.client(t, nil), request(t, c.chain(t), "GET", server.URL, nil))
		if n := len(seen.all()); n != want {
			t.Errorf("%d: the server saw %d requests, want %d", status, n, want)
		}
	}
}

func TestRegression_a_misdirected_request_goes_over_a_new_connection(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		c := newCaller(t, roomy, catalog(3))
		server, seen := callee(t, serve, answer(200, ""), answer(421, "not me"), answer(200, "me"))
		pool := newPool(t)
		dials := countDials(pool)
		client := c.client(t, pool)
		send(t, client, request(t, c.chain(t), "GET", server.URL, nil))
		if status, body := send(t, client, request(t, c.chain(t), "POST", server.URL, strings.NewReader("x"))); status != 200 || body != "me" {
			t.Errorf("got %d %q, want 200", status, body)
		}
		if got := seen.all(); len(got) != 3 || got[2].body != "x" {
			t.Errorf("the server saw %+v, want 3 requests", got)
		}
		if n := dials.Load(); n != 2 {
			t.Errorf("%d connections, want the misdirected request to get one of its own", n)
		}
	})
}

func TestRegression_a_too_early_answer_is_retried_once(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		c := newCaller(t, roomy, catalog(9))
		server, seen := callee(t, serve, answer(425, "too early"))
		ctx := c.chain(t)
		if status, body := send(t, c.client(t, nil), request(t, ctx, method, server.URL, strings.NewReader("x"))); status != 425 || body != "too early" {
			t.Errorf("%s: got %d %q, want the second 425", method, status, body)
		}
		if n := len(seen.all()); n != 2 {
			t.Errorf("%s: the server saw %d requests, want 2", method, n)
		}
		if b := balance(t, ctx); b.Spent != 1 {
			t.Errorf("%s: the purse is %+v, want one spent", method, b)
		}
	}
}

func TestRegression_P017_a_write_cut_off_while_it_may_run_is_sent_once(t *testing.T) {
	cut := func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		for _, tc := range []struct {
			method, key string
			want        int
		}{{"POST", "", 1}, {"PATCH", "", 1}, {"POST", "Idempotency-Key", 2}, {"PUT", "", 2}, {"DELETE", "", 2}} {
			c := newCaller(t, roomy, catalog(3))
			server, seen := callee(t, serve, cut, answer(200, ""))
			req := request(t, c.chain(t), tc.method, server.URL, strings.NewReader("order"))
			if tc.key != "" {
				req.Header.Set(tc.key, "k")
			}
			resp, err := c.client(t, nil).Do(req)
			if err == nil {
				resp.Body.Close()
			}
			if n := len(seen.all()); n != tc.want || (err == nil) != (tc.want == 2) {
				t.Errorf("%s with %q: the server saw %d requests, the caller %v; want %d", tc.method, tc.key, n, err, tc.want)
			}
			if tc.want == 1 {
				var denied *chainbudget.DeniedError
				if !errors.As(err, &denied) || denied.Reason != ownership.ReasonNotIdempotent {
					t.Errorf("%s: got %v, want not_idempotent", tc.method, err)
				}
			}
		}
	})
}

// P007: a 101's body is a connection. It is handed on as it is, and nothing of the attempt ends it.
func TestRegression_P007_an_upgraded_connection_is_handed_on_and_outlives_the_attempt_timeout(t *testing.T) {
	const limit = 200 * time.Millisecond
	c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 200ms}"))
	var requests atomic.Int64
	server := serve(t, hop(t, "callee", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(503)
			return
		}
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(conn, buffered)
	})))
	req := request(t, c.chain(t), "GET", server.URL, nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := c.client(t, nil).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != 101 || !ok {
		t.Fatalf("got %d with a body of type %T, want 101 and a Writer", resp.StatusCode, resp.Body)
	}
	lines := bufio.NewReader(conn)
	for i := range 3 {
		<-time.After(limit / 2) // the last lines are echoed after the limit
		want := fmt.Sprintf("line %d\n", i)
		if _, err := io.WriteString(conn, want); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		if got, err := lines.ReadString('\n'); got != want || err != nil {
			t.Fatalf("line %d: echoed %q, %v", i, got, err)
		}
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("the server saw %d requests, want 2", n)
	}
}

// Only a response that ended a failed call of ours has a reason.
func TestRegression_Denied_of_a_response_that_ended_well_is_nil(t *testing.T) {
	c := newCaller(t, roomy, catalog(3))
	server, _ := callee(t, serve, answer(503, ""), answer(200, ""))
	resp, err := c.client(t, nil).Do(request(t, c.chain(t), "GET", server.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if denied := budgethttp.Denied(resp); denied != nil {
		t.Errorf("Denied says %v about a 200", denied)
	}
	bare, err := newPool(t).RoundTrip(request(t, context.Background(), "GET", server.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Body.Close()
	if denied := budgethttp.Denied(bare); denied != nil {
		t.Errorf("Denied says %v about another transport's response", denied)
	}
}
