package budgethttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// capped is a catalog whose profile has a bucket of ten retries, and whose chains begin with that many tokens.
func capped(budget string) chainbudgettest.Option {
	return chainbudgettest.Catalog(`
version: 1
chain: {budget: 9, max_budget: 99, ` + budget + `}
profiles:
  capped:
    extends: read-heavy
    retry: {max_attempts: 2, attempt_timeout: 0s}
    backoff: {base: 500ms, throttled_base: 500ms, cap: 5s}
    budget: {ratio: 10%, fund: successes, burst: 10}
    breaker: disabled
    availability_floor: 0%
  wide:
    extends: capped
    budget: disabled
  paced:
    extends: wide
    process_budget: 10
`)
}

func TestRegression_A062_a_retry_is_paid_for_before_it_waits(t *testing.T) {
	for _, tt := range []struct {
		name    string
		profile profiles.Name
		chain   string
		refusal ownership.Reason
	}{
		{"dependency", "capped", "", ownership.ReasonDependencyBudget},
		{"process", "wide", "process_budget: 10", ownership.ReasonProcessBudget},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const failures, limit = 1000, 10
				c := newCaller(t, tt.profile, capped(tt.chain), chainbudgettest.Sleep())
				var sent, together atomic.Int64
				gate := make(chan struct{})
				transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
					sent.Add(1)
					if together.Add(1) == failures {
						close(gate)
					}
					<-gate // all fail at the same moment
					return response(req, 503, http.NoBody), nil
				}))
				start := time.Now()
				var calls sync.WaitGroup
				for range failures {
					calls.Go(func() {
						ctx, end := c.endlessChain(context.Background())
						defer end()
						if _, err := get(ctx, transport, "http://callee/"); err != nil {
							t.Error(err)
						}
					})
				}
				calls.Wait()
				if n := sent.Load(); n != failures+limit {
					t.Errorf("%d requests for %d failures and a limit of %d", n, failures, limit)
				}
				if time.Since(start) == 0 {
					t.Error("the retries did not wait: the test shows nothing")
				}
				// Besides those whom the limit refused, the ten that retried ended by their second and last attempt, or by
				// the limit again, which is asked first.
				refused := c.SDK.Totals().Dependencies["callee"].Denied
				if n := refused[tt.refusal.String()]; n < failures-limit || n > failures {
					t.Errorf("refusals %v", refused)
				}
			})
		})
	}
}

func TestRegression_A064_a_drained_bucket_fills_again(t *testing.T) {
	c := newCaller(t, "capped", capped(""))
	failing := true
	transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		if failing {
			return response(req, 503, http.NoBody), nil
		}
		return response(req, 200, http.NoBody), nil
	}))
	call := func() (retries int64) {
		before := c.SDK.Totals().Dependencies["callee"].Retries
		ctx, end := c.endlessChain(context.Background())
		defer end()
		if _, err := get(ctx, transport, "http://callee/"); err != nil {
			t.Fatal(err)
		}
		return c.SDK.Totals().Dependencies["callee"].Retries - before
	}
	drain := func() (retries int64) {
		failing = true
		for range 100 {
			retries += call()
		}
		return retries
	}
	if n := drain(); n != 10 {
		t.Fatalf("%d retries out of a full bucket of 10", n)
	}
	if n := drain(); n != 0 {
		t.Fatalf("%d retries out of an empty bucket", n)
	}
	failing = false
	for range 10_000 {
		call()
	}
	if n := drain(); n != 10 {
		t.Errorf("%d retries after 10,000 successes, want the burst of 10", n)
	}
	failing = false
	for range 30 {
		call()
	}
	if n := drain(); n != 3 {
		t.Errorf("%d retries after 30 successes at 10 %%, want 3", n)
	}
}

func TestRegression_A065_a_retry_that_ends_in_a_404_costs_what_a_200_costs(t *testing.T) {
	// The callee did answer: 404 is no failure of it. Under a quota the retry's price comes back, under a ratio the
	// answer pays in like any other.
	retries := func(profile profiles.Name, option chainbudgettest.Option, final int) int64 {
		c := newCaller(t, profile, option)
		odd := false
		transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			if odd = !odd; odd {
				return response(req, 503, http.NoBody), nil
			}
			return response(req, final, http.NoBody), nil
		}))
		for range 200 {
			ctx, end := c.endlessChain(context.Background())
			if _, err := get(ctx, transport, "http://callee/"); err != nil {
				t.Fatal(err)
			}
			end()
			odd = false
		}
		return c.SDK.Totals().Dependencies["callee"].Retries
	}
	aws := chainbudgettest.Catalog("version: 1\nprofiles: {quota: {extends: aws-standard, breaker: disabled, availability_floor: 0%}}\n")
	if n := retries("quota", aws, 404); n != 200 {
		t.Errorf("quota: %d of 200 retries were permitted, want all", n)
	}
	if ok, gone := retries("capped", capped(""), 200), retries("capped", capped(""), 404); ok != gone || gone < 11 {
		t.Errorf("ratio: %d retries that end well, %d that end in 404; want as many", ok, gone)
	}
}

func TestRegression_A066_an_empty_budget_says_so_and_how_long_to_wait(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tokens uint8
		calls  int
		reason ownership.Reason
	}{
		{"chain", 0, 1, ownership.ReasonChainExhausted},
		{"dependency", 9, 12, ownership.ReasonDependencyBudget},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCaller(t, "capped", capped(""))
			transport := c.transport(t, inProcess(hop(t, "callee", answer(503, "the upstream's own words"))))
			var denied *chainbudget.DeniedError
			var body string
			h := budgethttp.NewHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				resp, err := transport.RoundTrip(request(t, r.Context(), http.MethodGet, "http://callee/", nil))
				if err != nil {
					t.Error(err)
					return
				}
				denied = budgethttp.Denied(resp)
				_, body = read(t, resp)
			}), c.SDK)
			s := serve(t, h)
			for range tt.calls {
				lend(t, s.Client(), http.MethodGet, s.URL, tt.tokens)
			}
			if denied.Reason != tt.reason || denied.Status != 503 || body != "the upstream's own words" {
				t.Errorf("denied %+v, body %q", denied, body)
			}
			if denied.RetryAfter <= 0 || denied.RetryAfter > 5*time.Second {
				t.Errorf("suggested wait %v: a caller's loop needs one", denied.RetryAfter)
			}
		})
	}
}

func TestRegression_A067_one_dependencys_empty_bucket_is_nobody_elses(t *testing.T) {
	c := newCaller(t, "capped", capped(""))
	other := budgethttp.NewTransport(answering(503), c.Dependency("other", "capped"))
	drained := c.transport(t, answering(503))
	for range 50 {
		ctx, end := c.endlessChain(context.Background())
		get(ctx, drained, "http://callee/")
		end()
	}
	ctx, end := c.endlessChain(context.Background())
	defer end()
	if _, err := get(ctx, other, "http://other/"); err != nil {
		t.Fatal(err)
	}
	d := c.SDK.Totals().Dependencies
	if d["callee"].Retries != 10 || d["other"].Retries != 1 {
		t.Errorf("callee made %d retries (want 10), other %d (want 1)", d["callee"].Retries, d["other"].Retries)
	}
}

// A070: error retries are the only thing that this budget counts. A redelivery of a message is not a retry of the SDK:
// each begins a chain of its own (see chainbudget.Start), whatever an earlier one has spent.
func TestRegression_A070_each_redelivery_has_a_budget_of_its_own(t *testing.T) {
	c := newCaller(t, roomy, catalog(2))
	transport := c.transport(t, inProcess(hop(t, "callee", answer(503, ""))))
	for delivery := range 4 {
		before := c.SDK.Totals().Dependencies["callee"].Retries
		ctx, end := c.endlessChain(context.Background())
		if _, err := get(ctx, transport, "http://callee/"); err != nil {
			t.Fatal(err)
		}
		end()
		if n := c.SDK.Totals().Dependencies["callee"].Retries - before; n != 2 {
			t.Errorf("delivery %d: %d retries with a budget of 2", delivery+1, n)
		}
	}
}

func TestRegression_A073_a_bucket_from_a_file_is_full_at_first_and_then_refuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "catalog.yaml")
	text := `
version: 1
profiles:
  few:
    extends: read-heavy
    backoff: {base: 1ms, throttled_base: 1ms, cap: 1ms}
    budget: {ratio: 10%, fund: successes, burst: 3}
    breaker: disabled
    availability_floor: 0%
dependencies: {callee: {profile: few}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CHAINBUDGET_MODE", "")
	sdk, err := chainbudget.New("caller", chainbudget.WithCatalogFile(file), chainbudget.WithStrict())
	if err != nil {
		t.Fatal(err)
	}
	defer sdk.Close()
	dep, err := sdk.Dependency("callee", "few")
	if err != nil {
		t.Fatal(err)
	}
	transport := budgethttp.NewTransport(answering(503), dep)
	for i := range 10 {
		ctx, end := chainbudget.Start(context.Background(), sdk)
		resp, err := get(ctx, transport, "http://callee/")
		end()
		if err != nil {
			t.Fatal(err)
		}
		// Leases to a callee without a return are lost, so a chain of 3 has one token for itself: one retry each.
		want, made := ownership.ReasonChainExhausted, 2
		if i >= 3 {
			want, made = ownership.ReasonDependencyBudget, 1
		}
		if d := budgethttp.Denied(resp); i != 2 && (d.Reason != want || d.Attempts != made) {
			t.Errorf("failure %d: %v after %d attempts; want %v after %d", i+1, d.Reason, d.Attempts, want, made)
		}
	}
	if n := sdk.Totals().Dependencies["callee"].Retries; n != 3 {
		t.Errorf("%d retries out of a bucket of 3", n)
	}
}

func TestRegression_A075_only_a_plain_number_is_a_grant(t *testing.T) {
	rec := chainbudgettest.New(t, catalog(3))
	var kept int
	s := serve(t, budgethttp.NewHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		kept = chainbudget.Keep(r.Context(), 99)
	}), rec.SDK))
	send := func(header, value string) int {
		t.Helper()
		kept = -1
		req := request(t, t.Context(), http.MethodGet, s.URL, nil)
		req.Header[header] = []string{value}
		if status, _ := send(t, s.Client(), req); status != 200 {
			t.Errorf("%s %q: status %d", header, value, status)
		}
		return kept
	}
	nonce := uint32(0)
	wire := func(grant string) (string, string) {
		nonce++
		v := "v1." + grant + ".99.1." + otelprop.Nonce(nonce).String() + ".shop"
		return v, "chainbudget=" + v
	}
	for grant, want := range map[string]int{"0": 0, "1": 1, "9": 9, "10": 10, "98": 98, "99": 99} {
		if h, _ := wire(grant); send(otelprop.HTTPRequestHeader, h) != want {
			t.Errorf("a grant of %s is %d tokens, want %d", grant, kept, want)
		}
		if _, b := wire(grant); send(otelprop.HTTPBaggageHeader, b) != min(want, 1) {
			t.Errorf("a relayed grant of %s is %d tokens, want %d", grant, kept, min(want, 1))
		}
	}
	for _, grant := range []string{
		"-1", "-0", "+3", "03", "3.0", "1e3", " 3", "3 ", "2147483648", "9223372036854775808", "100", "", "٣", "0x3", "3,", "3;",
		strings.Repeat("9", 200), "NaN", "inf", "1_0",
	} {
		h, b := wire(grant)
		if n := send(otelprop.HTTPRequestHeader, h); n != 0 {
			t.Errorf("header with grant %q: %d tokens, want 0: it is there, and unreadable", grant, n)
		}
		if n := send(otelprop.HTTPBaggageHeader, b); n != 0 {
			t.Errorf("member with grant %q: %d tokens, want 0", grant, n)
		}
	}
	n := rec.SDK.Totals()
	if n.Minted != 0 || n.Orphans != 0 {
		t.Errorf("minted %d tokens for %d orphans: what is unreadable is no reason to mint", n.Minted, n.Orphans)
	}
	if n.Unreadable == 0 || n.Rejects["malformed"] == 0 {
		t.Errorf("unreadable %d, rejects %v: they must be counted", n.Unreadable, n.Rejects)
	}
}

func TestRegression_A075_concurrent_retries_never_overdraw(t *testing.T) {
	const tokens, calls = 5, 64
	c := newCaller(t, roomy, catalog(3))
	var sent atomic.Int64
	counting := answer(503, "")
	transport := c.transport(t, inProcess(hop(t, "callee", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		counting(w, r)
	}))))
	s := serve(t, budgethttp.NewHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var all sync.WaitGroup
		for range calls {
			all.Go(func() { get(r.Context(), transport, "http://callee/") })
		}
		all.Wait()
		balance(t, r.Context())
	}), c.SDK))
	got := lend(t, s.Client(), http.MethodGet, s.URL, tokens)
	spent := sent.Load() - calls
	if spent > tokens || int64(got.ret.Retries) != spent || int64(got.ret.Returned)+spent > tokens {
		t.Errorf("%d retries of %d tokens, return %+v", spent, tokens, got.ret)
	}
}

func TestRegression_P056_a_refusal_hides_neither_the_cause_nor_the_response(t *testing.T) {
	broken := errors.New("connection reset by the network")
	c := newCaller(t, roomy, catalog(0))
	_, err := get(c.chain(t), c.transport(t, roundTripperFunc(func(*http.Request) (*http.Response, error) { return nil, broken })), "http://callee/")
	var denied *chainbudget.DeniedError
	if !errors.Is(err, broken) || !errors.As(err, &denied) || denied.Reason != ownership.ReasonChainExhausted {
		t.Errorf("error %v; want chain_exhausted around the cause", err)
	}
	body := newText("why")
	resp, err := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		return response(req, 503, body, "X-Reason", "overload"), nil
	})).RoundTrip(request(t, c.chain(t), http.MethodGet, "http://callee/", nil))
	if err != nil {
		t.Fatal(err)
	}
	if status, text := read(t, resp); status != 503 || text != "why" || resp.Header.Get("X-Reason") != "overload" || body.closes.Load() != 1 {
		t.Errorf("status %d, body %q closed %d times, header %v", status, text, body.closes.Load(), resp.Header)
	}
}

func TestRegression_P057_what_will_be_refused_is_refused_before_the_wait(t *testing.T) {
	for _, tt := range []struct {
		name    string
		catalog chainbudgettest.Option
		reason  ownership.Reason
	}{
		{"chain", catalog(0, "backoff: {base: 4s, cap: 5s}"), ownership.ReasonChainExhausted},
		{"attempts", catalog(3, "backoff: {base: 4s, cap: 5s}", "retry: {max_attempts: 1}"), ownership.ReasonNoPolicy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCaller(t, roomy, tt.catalog, chainbudgettest.Sleep())
				ctx, end := c.endlessChain(context.Background())
				defer end()
				start := time.Now()
				if _, err := get(ctx, c.transport(t, answering(503)), "http://callee/"); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(start); waited != 0 || !slices.Equal(c.Reasons(), []ownership.Reason{tt.reason}) {
					t.Errorf("waited %v for decisions %v; want %v at once", waited, c.Reasons(), tt.reason)
				}
			})
		})
	}
}

func TestRegression_P058_panics_in_retries_leave_the_budget_usable(t *testing.T) {
	c := newCaller(t, "capped", capped(""))
	turn := 0
	transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		if turn++; turn%2 == 0 && turn <= 10 {
			panic("a base that breaks")
		}
		return response(req, 503, http.NoBody), nil
	}))
	for range 5 {
		ctx, end := c.endlessChain(context.Background())
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not come through")
				}
			}()
			get(ctx, transport, "http://callee/")
		}()
		if b := balance(t, ctx); b.Spent != 1 || b.Lent != 0 {
			t.Errorf("after a panic in the second attempt: %+v; want one token spent and none out", b)
		}
		end()
	}
	retries := c.SDK.Totals().Dependencies["callee"].Retries
	for range 20 {
		ctx, end := c.endlessChain(context.Background())
		get(ctx, transport, "http://callee/")
		end()
	}
	if n := c.SDK.Totals().Dependencies["callee"].Retries - retries; retries != 5 || n != 5 {
		t.Errorf("%d retries that panicked, then %d; the bucket of 10 has 5 left", retries, n)
	}
}

func TestRegression_P059_the_smallest_service_has_a_budget(t *testing.T) {
	// The very first request may be retried, and the bucket is not a share of what is in flight.
	c := newCaller(t, "capped", capped(""))
	ctx, end := c.endlessChain(context.Background())
	defer end()
	if resp, err := get(ctx, c.transport(t, answering(503, 200)), "http://callee/"); err != nil || resp.StatusCode != 200 {
		t.Errorf("%v, %v; want the first request to be retried", resp, err)
	}
}

func TestRegression_P058_a_body_that_panics_between_decision_and_attempt_costs_nothing(t *testing.T) {
	for _, tt := range []struct {
		name    string
		profile profiles.Name
		chain   string
	}{{"dependency", "capped", ""}, {"process", "wide", "process_budget: 10"}, {"profile", "paced", ""}} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCaller(t, tt.profile, capped(tt.chain))
			transport := c.transport(t, answering(503))
			for range 20 {
				ctx, end := c.endlessChain(context.Background())
				req := request(t, ctx, http.MethodPut, "http://callee/", strings.NewReader("body"))
				req.GetBody = func() (io.ReadCloser, error) { panic("a caller's body that breaks") }
				func() {
					defer func() { recover() }()
					transport.RoundTrip(req)
					t.Error("GetBody was not asked")
				}()
				if b := balance(t, ctx); b.Spent != 0 {
					t.Errorf("%+v: the retry did not go out", b)
				}
				end()
			}
			for range 20 {
				ctx, end := c.endlessChain(context.Background())
				get(ctx, transport, "http://callee/")
				end()
			}
			if n := c.SDK.Totals().Dependencies["callee"].Retries; n != 10 {
				t.Errorf("%d retries out of 10 after others that never went out", n)
			}
		})
	}
}
