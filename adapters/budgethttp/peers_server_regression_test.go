package budgethttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/baggage"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

func TestRegression_P055_a_stream_that_breaks_after_its_headers_is_handed_on_broken(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		s, arrived := callee(t, serve, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "first\n")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 5s}"))
		resp, err := c.transport(t, nil).RoundTrip(request(t, c.chain(t), http.MethodGet, s.URL, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if string(body) != "first\n" || err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("body %q, error %v: the reader must see what came and the stream's own error", body, err)
		}
		if n := len(arrived.all()); n != 1 {
			t.Errorf("%d requests: nothing is retried after the first byte", n)
		}
	})
}

// settledGoroutines waits until no more goroutines run than before, as those that end are not waited for by anybody.
func settledGoroutines(t *testing.T, before int) {
	t.Helper()
	deadline := time.Now().Add(enough)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
			return
		}
		runtime.Gosched()
	}
}

func TestRegression_P061_a_finished_call_leaves_no_goroutine_while_its_contexts_live_on(t *testing.T) {
	c := newCaller(t, roomy, catalog(9, "retry: {attempt_timeout: 10s}"))
	app, stop := context.WithCancel(context.Background()) // lives as long as the process
	defer stop()
	transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		_ = req.Context().Done() // as net/http does
		return response(req, 200, io.NopCloser(strings.NewReader("x"))), nil
	}))
	before := runtime.NumGoroutine()
	for range 500 {
		type key struct{}
		ctx, end := c.endlessChain(context.WithValue(app, key{}, 1))
		resp, err := get(ctx, transport, "http://callee/")
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		end()
	}
	settledGoroutines(t, before+2)
}

func TestRegression_P061_the_callers_passed_deadline_reads_as_one(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 10s}"))
	ctx, cancel := context.WithTimeout(c.chain(t), 50*time.Millisecond)
	defer cancel()
	_, err := get(ctx, c.transport(t, nil), s.URL)
	var timeout net.Error
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("error %v; want a deadline, and a Timeout() that says so", err)
	}
}

func TestRegression_P061_one_calls_cancellation_is_nobody_elses(t *testing.T) {
	over := make(chan struct{})
	s := serve(t, hop(t, "callee", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-over // its own bound, a little before its caller's, would let it answer in time
		}
	})))
	c := newCaller(t, roomy, catalog(3))
	transport := c.transport(t, nil)
	chain := c.chain(t) // shared by all
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(chain, 30*time.Millisecond)
			defer cancel()
			if _, err := get(ctx, transport, s.URL+"/slow"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("slow call: %v", err)
			}
		})
		calls.Go(func() {
			if resp, err := get(chain, transport, s.URL+"/fast"); err != nil || resp.StatusCode != 200 {
				t.Errorf("fast call: %v, %v", resp, err)
			}
		})
	}
	calls.Wait()
	close(over)
}

func TestRegression_P062_attempts_that_time_out_leave_no_goroutine(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	defer close(release)
	c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 5ms, max_attempts: 2}"))
	pool := newPool(t)
	transport := c.transport(t, pool)
	before := runtime.NumGoroutine()
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() {
			ctx, end := c.endlessChain(context.Background())
			defer end()
			_, err := get(ctx, transport, s.URL)
			var denied *chainbudget.DeniedError
			if !errors.As(err, &denied) || !denied.Timeout() {
				t.Errorf("error %v, want a timeout", err)
			}
		})
	}
	calls.Wait()
	pool.CloseIdleConnections()
	settledGoroutines(t, before)
}

func TestRegression_P063_a_full_baggage_in_the_context_never_costs_the_budget(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stale bool
		count int
	}{{"few", false, 3}, {"room_for_one", false, 63}, {"full", false, 64}, {"full_with_a_stale_one", true, 64}} {
		t.Run(tt.name, func(t *testing.T) {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog("version: 1\nchain: {orphan_budget: 0}\n"))
			s := serve(t, holder(rec))
			var members []baggage.Member
			for i := range tt.count {
				m, err := baggage.NewMember(fmt.Sprintf("k%d", i), "v")
				if err != nil {
					t.Fatal(err)
				}
				members = append(members, m)
			}
			if tt.stale {
				m, err := baggage.NewMember(otelprop.MemberKey, line(0))
				if err != nil {
					t.Fatal(err)
				}
				members[0] = m
			}
			bag, err := baggage.New(members...)
			if err != nil {
				t.Fatal(err)
			}
			pool := newPool(t)
			for range 50 {
				c := newCaller(t, roomy, catalog(3)) // a new one each time, or it would learn that a leaf needs no lease
				transport := c.transport(t, injecting{pool})
				ctx, end := c.endlessChain(context.Background())
				status, body := send(t, &http.Client{Transport: transport}, request(t, baggage.ContextWithBaggage(ctx, bag), http.MethodGet, s.URL, nil))
				end()
				if status != 200 || body != "2" {
					t.Fatalf("status %d, %s tokens; want the 2 that a chain of 3 lends", status, body)
				}
			}
		})
	}
}

func TestRegression_P065_an_instrumented_transport_may_stand_on_either_side(t *testing.T) {
	type layer func(http.RoundTripper) http.RoundTripper
	for name, stack := range map[string]func(ours layer, base http.RoundTripper) http.RoundTripper{
		"below":  func(ours layer, base http.RoundTripper) http.RoundTripper { return ours(injecting{base}) },
		"above":  func(ours layer, base http.RoundTripper) http.RoundTripper { return injecting{ours(base)} },
		"around": func(ours layer, base http.RoundTripper) http.RoundTripper { return injecting{ours(injecting{base})} },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaller(t, roomy, catalog(9))
			s, arrived := callee(t, serve, answer(503, ""), answer(503, ""), answer(200, ""))
			transport := stack(func(base http.RoundTripper) http.RoundTripper { return c.transport(t, base) }, newPool(t))
			bag, err := baggage.Parse("tenant=a," + member(9)) // a stale one as well
			if err != nil {
				t.Fatal(err)
			}
			if _, err := get(baggage.ContextWithBaggage(c.chain(t), bag), transport, s.URL); err != nil {
				t.Fatal(err)
			}
			all := arrived.all()
			if len(all) != 3 {
				t.Fatalf("%d requests, want 3", len(all))
			}
			for i, want := range []string{"8", "7", "6"} { // a minting purse of 9 keeps one; two retries cost two
				a := all[i]
				ours := ""
				for _, m := range strings.Split(a.header.Get("Baggage"), ",") {
					if strings.HasPrefix(m, "chainbudget=") {
						if ours != "" {
							t.Errorf("attempt %d has two members: %q", i+1, a.header.Get("Baggage"))
						}
						ours = strings.TrimPrefix(m, "chainbudget=")
					}
				}
				first, _, _ := strings.Cut(a.header.Get("Chainbudget"), ";")
				if ours != first || a.grant() != want || !strings.Contains(a.header.Get("Baggage"), "tenant=a") {
					t.Errorf("attempt %d: member %q, header %q, grant %s; want one wire with a grant of %s, and the tenant", i+1, ours, first, a.grant(), want)
				}
			}
		})
	}
}

func TestRegression_P067_neither_errors_nor_logs_carry_addresses_with_secrets(t *testing.T) {
	var logged bytes.Buffer
	restore := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(restore)
	t.Setenv("CHAINBUDGET_MODE", "")
	sdk, err := chainbudget.New("caller")
	if err != nil {
		t.Fatal(err)
	}
	defer sdk.Close()
	dep, err := sdk.Dependency("vendor", "read-heavy")
	if err != nil {
		t.Fatal(err)
	}
	transport := budgethttp.NewTransport(roundTripperFunc(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("broken pipe")
	}), dep)
	ctx, end := chainbudget.Start(context.Background(), sdk)
	defer end()
	_, err = get(ctx, transport, "http://user:hunter2@api.vendor.test/orders?token=abc123&sig=zzz")
	if err == nil {
		t.Fatal("no error")
	}
	for what, text := range map[string]string{"the error": err.Error(), "the log": logged.String()} {
		for _, secret := range []string{"hunter2", "abc123", "sig=", "/orders"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %q: %s", what, secret, text)
			}
		}
	}
	if !strings.Contains(logged.String(), "vendor") {
		t.Errorf("a dependency that is external by its host is logged once; the log is %q", logged.String())
	}
}

func TestRegression_A122_names_from_the_wire_never_become_series(t *testing.T) {
	c := newCaller(t, roomy, catalog(3))
	turn := 0
	transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		turn++
		nonce := strings.Split(req.Header.Get("Chainbudget"), ".")[4]
		return response(req, 503, http.NoBody, "Chainbudget-Return", fmt.Sprintf("v1.0.0.u.%s.-.victim-%d", nonce, turn)), nil
	}))
	s := serve(t, budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		get(r.Context(), transport, "http://callee/"+r.URL.Path)
		w.WriteHeader(503)
	}), c.SDK))
	client := s.Client()
	for i := range 300 {
		req := request(t, t.Context(), http.MethodGet, fmt.Sprintf("%s/%d", s.URL, i), nil)
		wire := otelprop.Request{Grant: 1, Limit: 3, Hop: 1, Nonce: otelprop.Nonce(i), Entry: fmt.Sprintf("entry-%d", i), Caller: fmt.Sprintf("caller-%d", i), Attempt: 1}
		req.Header.Set("Chainbudget", wire.Header())
		send(t, client, req)
	}
	n := c.SDK.Totals()
	names := []string{}
	for name := range n.Dependencies {
		names = append(names, name)
	}
	if !slices.Equal(names, []string{"callee"}) {
		t.Errorf("dependencies %v", names)
	}
	d := n.Dependencies["callee"]
	for what, series := range map[string]map[string]int64{"claims": d.Claims, "denied": d.Denied, "claims_sent": n.ClaimsSent, "rejects": n.Rejects} {
		if len(series) > len(ownership.Reasons()) {
			t.Errorf("%s has %d series", what, len(series))
		}
		for name := range series {
			if strings.ContainsAny(name, "0123456789") || strings.Contains(name, "victim") {
				t.Errorf("%s has the series %q", what, name)
			}
		}
	}
	if d.Denied["unclaimed"] != 300 {
		t.Errorf("denied %v, want 300 unclaimed", d.Denied)
	}
}
