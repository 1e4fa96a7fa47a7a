package budgethttp_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// answering returns a base that answers with these statuses in turn, and with the last one from then on.
func answering(statuses ...int) roundTripperFunc {
	var turn atomic.Int64
	return func(req *http.Request) (*http.Response, error) {
		status := statuses[min(int(turn.Add(1)), len(statuses))-1]
		return response(req, status, newText(http.StatusText(status))), nil
	}
}

// inProcess is a base that hands each request to h, as a server would: with a context that knows nothing of the client's.
func inProcess(h http.Handler) roundTripperFunc {
	return func(req *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		inbound := req.Clone(context.Background())
		if inbound.Body == nil {
			inbound.Body = http.NoBody
		}
		h.ServeHTTP(w, inbound)
		resp := w.Result()
		resp.Request = req
		return resp, nil
	}
}

// lendTo makes req what the SDK of a service "shop" would send with that many tokens.
func lendTo(req *http.Request, tokens uint8) otelprop.Nonce {
	wire := otelprop.Request{
		Grant: tokens, Limit: max(tokens, 3), Hop: 1, Nonce: otelprop.Nonce(rand.Uint32()), Entry: "shop", Caller: "shop", Attempt: 1,
	}
	req.Header.Set(otelprop.HTTPBaggageHeader, wire.Member())
	req.Header.Set(otelprop.HTTPRequestHeader, wire.Header())
	return wire.Nonce
}

// reply is a response with its body and its return, read by the codec alone.
type reply struct {
	status    int
	header    http.Header
	body      string
	ret       otelprop.Return
	hasReturn bool
}

// lend sends a request with that many tokens, as another service's SDK would, and reads what comes back.
func lend(t *testing.T, client *http.Client, method, address string, tokens uint8) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	nonce := lendTo(req, tokens)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return readReply(t, resp, nonce, tokens)
}

func readReply(t *testing.T, resp *http.Response, nonce otelprop.Nonce, tokens uint8) reply {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := reply{status: resp.StatusCode, header: resp.Header, body: string(body)}
	r.ret, r.hasReturn, _ = otelprop.ReadReturn(resp.Header[otelprop.HTTPReturnHeader], nonce, int(tokens))
	return r
}

// get makes one call through transport within ctx and reads the response to its end.
func get(ctx context.Context, transport http.RoundTripper, address string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

func TestRegression_A108_every_way_to_answer_sends_the_return_once(t *testing.T) {
	panicValue := errors.New("handler broke")
	recovering := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if p := recover(); p != nil {
					if p != panicValue {
						t.Errorf("recovered %v: the panic's own value must go through", p)
					}
					http.Error(w, "recovered", http.StatusInternalServerError)
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
	plain := func(next http.Handler) http.Handler { return next }
	broken := func(http.ResponseWriter, *http.Request) { panic(panicValue) }

	for _, tt := range []struct {
		name            string
		method          string
		outside, inside func(http.Handler) http.Handler
		handler         http.HandlerFunc
		status          int
		claim           ownership.Claim
	}{
		{name: "writes_nothing", handler: func(http.ResponseWriter, *http.Request) {}, status: 200, claim: ownership.ClaimNone},
		{name: "write", handler: func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("x")) }, status: 200, claim: ownership.ClaimNone},
		{name: "write_string", handler: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }, status: 200, claim: ownership.ClaimNone},
		{name: "read_from", handler: func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, strings.NewReader("x")) }, status: 200, claim: ownership.ClaimNone},
		{name: "flush_only", handler: func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, status: 200, claim: ownership.ClaimNone},
		{name: "head", method: http.MethodHead, handler: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "3") }, status: 200, claim: ownership.ClaimNone},
		{name: "no_content", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, status: 204, claim: ownership.ClaimNone},
		{name: "not_modified", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, status: 304, claim: ownership.ClaimNone},
		{name: "not_found", handler: http.NotFound, status: 404, claim: ownership.ClaimNone},
		{name: "too_many_requests", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, status: 429, claim: ownership.ClaimClaimed},
		{name: "unavailable", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, status: 503, claim: ownership.ClaimClaimed},
		{name: "two_headers", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503); w.WriteHeader(200) }, status: 503, claim: ownership.ClaimClaimed},
		{name: "panic_recovered_outside", outside: recovering, handler: broken, status: 500, claim: ownership.ClaimClaimed},
		{name: "panic_recovered_inside", inside: recovering, handler: broken, status: 500, claim: ownership.ClaimClaimed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := chainbudgettest.New(t, chainbudgettest.Service("callee"))
			outside, inside, method := tt.outside, tt.inside, tt.method
			if outside == nil {
				outside = plain
			}
			if inside == nil {
				inside = plain
			}
			if method == "" {
				method = http.MethodGet
			}
			h := outside(budgethttp.NewHandler(inside(tt.handler), rec.SDK))
			for proto, s := range map[string]*httptest.Server{"HTTP/1": serve(t, h), "HTTP/2": serveHTTP2(t, h)} {
				got := lend(t, s.Client(), method, s.URL, 2)
				if got.status != tt.status || !got.hasReturn {
					t.Fatalf("%s: status %d, return %v (%q); want %d and a return", proto, got.status, got.hasReturn,
						got.header[otelprop.HTTPReturnHeader], tt.status)
				}
				if got.ret.Returned != 2 || got.ret.Retries != 0 || got.ret.Claim != tt.claim || !got.ret.Leaf {
					t.Errorf("%s: return %+v; want 2 tokens, no retries, claim %v, leaf", proto, got.ret, tt.claim)
				}
				if tt.claim == ownership.ClaimClaimed && got.ret.Owner != "callee" {
					t.Errorf("%s: owner %q, want callee", proto, got.ret.Owner)
				}
			}
			if n := rec.SDK.Totals(); n.Callees != 2 || n.Lost != 0 {
				t.Errorf("callees %d lost %d; want 2 and 0", n.Callees, n.Lost)
			}
		})
	}
}

func TestRegression_A108_an_aborted_answer_loses_its_lease_and_nothing_else(t *testing.T) {
	rec := chainbudgettest.New(t)
	s := serve(t, budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
	}), rec.SDK))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/abort", nil)
	if err != nil {
		t.Fatal(err)
	}
	lendTo(req, 2)
	if resp, err := s.Client().Do(req); err == nil {
		resp.Body.Close()
		t.Fatal("an aborted handler answered: ErrAbortHandler must reach net/http")
	}
	if got := lend(t, s.Client(), http.MethodGet, s.URL, 2); got.status != 200 || got.ret.Returned != 2 {
		t.Errorf("the next request: %+v", got)
	}
}

func TestRegression_A108_interim_answers_leave_the_purse_open_and_101_closes_it(t *testing.T) {
	for _, tt := range []struct {
		name          string
		first         int
		retried       bool
		returned      uint8
		reasonOfFirst ownership.Reason
	}{
		{"early_hints", http.StatusEarlyHints, true, 1, ownership.ReasonAllowed},
		{"processing", http.StatusProcessing, true, 1, ownership.ReasonAllowed},
		{"switching_protocols", http.StatusSwitchingProtocols, false, 2, ownership.ReasonSettled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := chainbudgettest.New(t, catalog(3))
			inner := budgethttp.NewTransport(inProcess(hop(t, "stock", script(answer(503, ""), answer(200, "")))), rec.Dependency("stock", roomy))
			s := serve(t, budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header()[otelprop.HTTPReturnHeader] = []string{"v1.9.0.n.00000000.-"} // as a proxy that copies would
				w.WriteHeader(tt.first)
				if _, err := get(r.Context(), inner, "http://stock/"); err != nil {
					t.Error(err)
				}
			}), rec.SDK))
			got := lend(t, s.Client(), http.MethodGet, s.URL, 2)
			if !got.hasReturn || got.ret.Returned != tt.returned {
				t.Fatalf("return %v %+v; want %d tokens", got.hasReturn, got.ret, tt.returned)
			}
			if reasons := rec.Reasons(); len(reasons) != 1 || reasons[0] != tt.reasonOfFirst {
				t.Errorf("decisions %v, want [%v]", reasons, tt.reasonOfFirst)
			}
			if want := map[bool]uint8{true: 1, false: 0}[tt.retried]; got.ret.Retries != want {
				t.Errorf("retries %d, want %d", got.ret.Retries, want)
			}
		})
	}
}

func TestRegression_I6_a_return_that_the_handlers_code_sets_never_goes_out_with_a_103(t *testing.T) {
	foreign := "v1.9.0.n.0badcafe.-"
	copying := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(otelprop.ReturnHeader, foreign)
		w.Header().Add(otelprop.ReturnHeader, foreign)
		if r.URL.Path == "/hints" {
			w.WriteHeader(http.StatusEarlyHints)
		}
		w.WriteHeader(http.StatusOK)
	})
	send := func(t *testing.T, h http.Handler, path string, prepare func(*http.Request)) (final, interim []string) {
		s := serve(t, h)
		req, err := http.NewRequestWithContext(withInterim(t.Context(), func(header http.Header) {
			interim = append(interim, header[otelprop.HTTPReturnHeader]...)
		}), http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		prepare(req)
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.Header[otelprop.HTTPReturnHeader], interim
	}
	rec := chainbudgettest.New(t)
	var nonce otelprop.Nonce
	lines, interim := send(t, budgethttp.NewHandler(copying, rec.SDK), "/hints", func(r *http.Request) { nonce = lendTo(r, 2) })
	if len(lines) != 1 || !strings.Contains(lines[0], nonce.String()) {
		t.Errorf("returns %q: want ours alone, with nonce %v", lines, nonce)
	}
	if len(interim) != 0 {
		t.Errorf("returns %q went out with a 103", interim)
	}
	if lines, interim = send(t, budgethttp.NewHandler(copying, rec.SDK, budgethttp.Entry()), "/hints", func(*http.Request) {}); len(lines)+len(interim) != 0 {
		t.Errorf("an entry sent returns %q %q", lines, interim)
	}
}

func TestRegression_A089_an_entry_ignores_whatever_comes_in(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Service("edge"), catalog(3))
	var sent otelprop.Request
	inner := budgethttp.NewTransport(roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		sent, _ = otelprop.ReadRequest(req.Header[otelprop.HTTPBaggageHeader], req.Header[otelprop.HTTPRequestHeader], 99)
		return response(req, 200, http.NoBody), nil
	}), rec.Dependency("stock", roomy))
	s := serve(t, budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, limited := r.Context().Deadline(); limited {
			t.Error("an outsider's timeout bounds an entry's context")
		}
		for _, name := range []string{otelprop.RequestHeader, otelprop.ReturnHeader, otelprop.BaggageHeader} {
			if v := r.Header.Get(name); v != "" {
				t.Errorf("%s %q reached the handler", name, v)
			}
		}
		if _, err := get(r.Context(), inner, "http://stock/"); err != nil {
			t.Error(err)
		}
	}), rec.SDK, budgethttp.Entry()))

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Baggage", "chainbudget=v1.99.99.7.9f86d081.victim-team")
	req.Header.Set("Chainbudget", "v1.99.99.7.9f86d081.victim-team;caller=victim-team;timeout=60000")
	req.Header.Set("Chainbudget-Return", "v1.99.0.s.9f86d081.-.victim-team")
	req.Header.Set("X-Envoy-Attempt-Count", "9")
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if lines, ok := resp.Header[otelprop.HTTPReturnHeader]; ok {
		t.Errorf("an entry sent a return: %q", lines)
	}
	// The default budget is 3, of which an entry keeps one.
	if sent.Grant != 2 || sent.Limit != 3 || sent.Hop != 1 || sent.Entry != "edge" || sent.Caller != "edge" {
		t.Errorf("the entry's callee got %+v; want 2 of 3 tokens from edge at hop 1", sent)
	}
	if n := rec.SDK.Totals(); n.Entries != 1 || n.Callees+n.Relayed+n.Orphans+n.Unreadable+n.Foreign != 0 || n.Minted != 3 {
		t.Errorf("totals %+v", n)
	}
}

func TestRegression_A089_probes_carry_nothing_and_teach_nothing(t *testing.T) {
	for _, path := range []string{"/healthz", "/readyz", "/livez", "/metrics"} {
		t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
			rec := chainbudgettest.New(t)
			reached := false
			s := serve(t, budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached = true
				for name := range r.Header {
					if strings.HasPrefix(name, "Chainbudget") || strings.Contains(r.Header.Get(name), "chainbudget") {
						t.Errorf("%s %q reached a probe", name, r.Header.Get(name))
					}
				}
				if kept := chainbudget.Keep(r.Context(), 1); kept != 0 {
					t.Errorf("a probe holds %d tokens", kept)
				}
			}), rec.SDK))
			if got := lend(t, s.Client(), http.MethodGet, s.URL+path, 2); got.status != 200 || got.hasReturn || !reached {
				t.Errorf("answer %+v, reached %v", got, reached)
			}
			if n := rec.SDK.Totals(); n.Callees+n.Orphans+n.Relayed+n.Entries+n.Minted != 0 || len(n.ClaimsSent) != 0 {
				t.Errorf("a probe was counted: %+v", n)
			}
		})
	}
}

func TestRegression_I7_nested_handlers_act_once(t *testing.T) {
	for _, tt := range []struct {
		name         string
		outer, inner []budgethttp.HandlerOption
		entries      int64
		callees      int64
		returns      int
	}{
		{"entry_in_entry", []budgethttp.HandlerOption{budgethttp.Entry()}, []budgethttp.HandlerOption{budgethttp.Entry()}, 1, 0, 0},
		{"callee_in_entry", []budgethttp.HandlerOption{budgethttp.Entry()}, nil, 1, 0, 0},
		{"entry_in_callee", nil, []budgethttp.HandlerOption{budgethttp.Entry()}, 0, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := chainbudgettest.New(t)
			leaf := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
			wrapped := http.StripPrefix("/v1", budgethttp.NewHandler(leaf, rec.SDK, tt.inner...))
			s := serve(t, budgethttp.NewHandler(wrapped, rec.SDK, tt.outer...))
			got := lend(t, s.Client(), http.MethodGet, s.URL+"/v1/x", 2)
			if got.status != 503 || len(got.header[otelprop.HTTPReturnHeader]) != tt.returns {
				t.Errorf("status %d, returns %q; want %d", got.status, got.header[otelprop.HTTPReturnHeader], tt.returns)
			}
			if n := rec.SDK.Totals(); n.Entries != tt.entries || n.Callees != tt.callees || n.Orphans != 0 {
				t.Errorf("entries %d callees %d orphans %d; want %d, %d, 0", n.Entries, n.Callees, n.Orphans, tt.entries, tt.callees)
			}
		})
	}
}

func TestRegression_A061_a_reverse_proxy_forwards_its_lease_and_gets_it_back(t *testing.T) {
	for _, tt := range []struct {
		name        string
		method      string
		body        string
		failures    int // of the back, before it answers 200
		backHits    int
		proxyReason []ownership.Reason
	}{
		{name: "healthy", method: http.MethodGet, backHits: 1},
		{name: "retried_at_the_proxy", method: http.MethodGet, failures: 1, backHits: 2, proxyReason: []ownership.Reason{ownership.ReasonAllowed}},
		{name: "unreplayable_body_goes_once", method: http.MethodPut, body: "streamed", failures: 9, backHits: 1, proxyReason: []ownership.Reason{ownership.ReasonNotReplayable}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			back := chainbudgettest.New(t, chainbudgettest.Service("back"))
			hits, grants := 0, []uint8(nil)
			failures := tt.failures
			backHandler := budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				hits++
				if failures > 0 {
					failures--
					w.WriteHeader(503)
				}
			}), back.SDK)
			backServer := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				wire, _ := otelprop.ReadRequest(r.Header[otelprop.HTTPBaggageHeader], r.Header[otelprop.HTTPRequestHeader], 99)
				grants = append(grants, wire.Grant)
				backHandler.ServeHTTP(w, r)
			}))
			target, err := url.Parse(backServer.URL)
			if err != nil {
				t.Fatal(err)
			}

			front := chainbudgettest.New(t, chainbudgettest.Service("front"), catalog(3))
			proxy := &httputil.ReverseProxy{
				Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(target) },
				Transport: budgethttp.NewTransport(nil, front.Dependency("back", roomy)),
			}
			s := serve(t, budgethttp.NewHandler(proxy, front.SDK, budgethttp.Entry()))
			var body io.Reader
			if tt.body != "" {
				body = strings.NewReader(tt.body)
			}
			req, err := http.NewRequestWithContext(t.Context(), tt.method, s.URL, body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := s.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got := readReply(t, resp, 0, 0)

			if hits != tt.backHits {
				t.Errorf("the back was asked %d times, want %d", hits, tt.backHits)
			}
			if grants[0] != 2 {
				t.Errorf("grants %v: the entry mints 3 and keeps one, so the first carries 2", grants)
			}
			if _, ok := got.header[otelprop.HTTPReturnHeader]; ok {
				t.Error("the back's return went out to the browser")
			}
			d := front.SDK.Totals().Dependencies["back"]
			if d.Lent == 0 || d.Home != d.Lent {
				t.Errorf("lent %d, home %d: every lease comes back", d.Lent, d.Home)
			}
			if reasons := front.Reasons(); len(reasons) != len(tt.proxyReason) || len(reasons) == 1 && reasons[0] != tt.proxyReason[0] {
				t.Errorf("the proxy decided %v, want %v", reasons, tt.proxyReason)
			}
			if want := 200; tt.failures < 9 && got.status != want {
				t.Errorf("status %d, want %d", got.status, want)
			}
		})
	}
}

func TestRegression_A025_the_callers_time_bounds_the_handler_and_a_sooner_one_stays(t *testing.T) {
	type bounds struct {
		limited bool
		left    time.Duration
	}
	measure := func(t *testing.T, settings chainbudgettest.Option, timeout time.Duration, own time.Duration) (b bounds) {
		rec := chainbudgettest.New(t, settings)
		h := budgethttp.NewHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			deadline, ok := r.Context().Deadline()
			b = bounds{ok, time.Until(deadline)}
		}), rec.SDK)
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		wire := otelprop.Request{Grant: 1, Limit: 3, Hop: 1, Nonce: 1, Entry: "shop", Timeout: timeout}
		req.Header.Set(otelprop.RequestHeader, wire.Header())
		if own > 0 {
			ctx, cancel := context.WithTimeout(t.Context(), own)
			defer cancel()
			req = req.WithContext(ctx)
		}
		h.ServeHTTP(httptest.NewRecorder(), req)
		return b
	}
	ignoring := chainbudgettest.Catalog("version: 1\nchain: {deadlines: ignore}\n")
	if b := measure(t, catalog(3), 10*time.Second, 0); !b.limited || b.left > 10*time.Second || b.left < 5*time.Second {
		t.Errorf("announced 10 s: %+v", b)
	}
	if b := measure(t, catalog(3), time.Minute, 10*time.Second); !b.limited || b.left > 10*time.Second {
		t.Errorf("announced a minute, own limit 10 s: %+v", b)
	}
	if b := measure(t, catalog(3), 0, 0); b.limited {
		t.Errorf("announced nothing: %+v", b)
	}
	if b := measure(t, ignoring, 10*time.Second, 0); b.limited {
		t.Errorf("deadlines: ignore: %+v", b)
	}
}

// withInterim calls see with the header of every 1xx answer.
func withInterim(ctx context.Context, see func(http.Header)) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
		see(http.Header(header))
		return nil
	}})
}

func TestRegression_A108_work_that_outlives_its_request_finds_the_purse_closed(t *testing.T) {
	c := newCaller(t, roomy, catalog(3))
	timedOut, done := make(chan struct{}), make(chan struct{})
	transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		return response(req, 503, http.NoBody), nil
	}))
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		<-timedOut
		w.WriteHeader(200) // nobody listens any more
		resp, err := get(context.WithoutCancel(r.Context()), transport, "http://callee/")
		if err != nil {
			t.Error(err)
		} else if d := budgethttp.Denied(resp); d == nil || d.Reason != ownership.ReasonSettled || d.Attempts != 1 {
			t.Errorf("a call of late work ended by %+v, want settled after its first attempt", d)
		}
	})
	s := serve(t, budgethttp.NewHandler(http.TimeoutHandler(slow, 20*time.Millisecond, "too slow"), c.SDK))
	got := lend(t, s.Client(), http.MethodGet, s.URL, 2)
	close(timedOut)
	<-done
	if got.status != 503 || got.body != "too slow" || !got.hasReturn || got.ret.Returned != 2 || got.ret.Claim != ownership.ClaimClaimed {
		t.Errorf("answer %+v; want the 503 with 2 tokens and a claim", got)
	}
}
