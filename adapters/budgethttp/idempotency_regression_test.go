package budgethttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
)

func TestRegression_A051_a_write_runs_once_unless_a_key_says_otherwise(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		header       []string
		hits         int
	}{
		{"post", http.MethodPost, nil, 1},
		{"patch", http.MethodPatch, nil, 1},
		{"unknown_method", "TRANSFER", nil, 1},
		{"lower_case_get_is_another_method", "get", nil, 1},
		{"post_with_an_empty_key", http.MethodPost, []string{"Idempotency-Key", ""}, 1},
		{"post_with_a_key", http.MethodPost, []string{"Idempotency-Key", "order-17"}, 3},
		{"patch_with_the_older_key", http.MethodPatch, []string{"X-Idempotency-Key", "order-17"}, 3},
		{"put", http.MethodPut, nil, 3},
		{"delete", http.MethodDelete, nil, 3},
		{"get", http.MethodGet, nil, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// write-path is the profile people reach for; its name alone permits nothing.
			c := newCaller(t, "writes", chainbudgettest.Catalog(`
version: 1
profiles:
  writes:
    extends: write-path
    retry: {max_attempts: 3}
    budget: {ratio: 100%, burst: 1000}
`))
			s, arrived := callee(t, serve, answer(503, "after the side effect"))
			req := request(t, c.chain(t), tt.method, s.URL, strings.NewReader("amount=1"))
			for i := 0; i+1 < len(tt.header); i += 2 {
				req.Header.Set(tt.header[i], tt.header[i+1])
			}
			status, body := send(t, c.client(t, nil), req)
			if status != 503 || body != "after the side effect" {
				t.Errorf("status %d, body %q", status, body)
			}
			got := arrived.all()
			if len(got) != tt.hits {
				t.Fatalf("%d executions, want %d", len(got), tt.hits)
			}
			nonces := map[string]bool{}
			for i, a := range got {
				nonces[a.nonce()] = true
				if a.body != "amount=1" {
					t.Errorf("execution %d got the body %q", i+1, a.body)
				}
				if len(tt.header) > 0 && a.header.Get(tt.header[0]) != tt.header[1] {
					t.Errorf("execution %d got the key %q, want %q", i+1, a.header.Get(tt.header[0]), tt.header[1])
				}
			}
			if len(nonces) != tt.hits {
				t.Errorf("%d nonces for %d attempts", len(nonces), tt.hits)
			}
			if want := ownership.ReasonNotIdempotent; tt.hits == 1 && !slices.Equal(c.Reasons(), []ownership.Reason{want}) {
				t.Errorf("decisions %v, want [%v]", c.Reasons(), want)
			}
		})
	}
}

func TestRegression_A052_a_slow_write_is_not_sent_again(t *testing.T) {
	protocols(t, func(t *testing.T, serve func(testing.TB, http.Handler) *httptest.Server) {
		working := make(chan struct{})
		s, arrived := callee(t, serve, func(http.ResponseWriter, *http.Request) { <-working })
		defer close(working)
		c := newCaller(t, roomy, catalog(3, "retry: {attempt_timeout: 50ms}"))
		_, err := c.client(t, nil).Do(request(t, c.chain(t), http.MethodPost, s.URL, strings.NewReader("order")))
		var denied *chainbudget.DeniedError
		if !errors.As(err, &denied) || denied.Reason != ownership.ReasonNotIdempotent || !denied.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v; want a timeout refused by not_idempotent", err)
		}
		if n := len(arrived.all()); n != 1 {
			t.Errorf("the write arrived %d times", n)
		}
	})
}

// stubborn is a transport that repeats failed requests by itself, as many inner layers do.
type stubborn struct {
	base   http.RoundTripper
	times  int
	visits atomic.Int64
}

func (s *stubborn) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	for i := range s.times {
		s.visits.Add(1)
		resp, err = s.base.RoundTrip(req)
		if err == nil && resp.StatusCode < 500 {
			break
		}
		if err == nil && i < s.times-1 {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	return resp, err
}

func TestRegression_A053_hidden_repetitions_gain_nothing_and_are_counted(t *testing.T) {
	const budget, times = 3, 4
	t.Run("unanswered", func(t *testing.T) {
		arrived := new(tap)
		s := serve(t, arrived.watch(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })))
		c := newCaller(t, roomy, catalog(budget))
		if _, err := get(c.chain(t), c.transport(t, &stubborn{base: newPool(t), times: times}), s.URL); err == nil {
			t.Error("a connection that is always cut gave an answer")
		}
		leased := map[string]int{}
		for _, a := range arrived.all() {
			if a.grant() != "0" {
				leased[a.nonce()]++
			}
		}
		if len(leased) == 0 {
			t.Error("no attempt carried a lease")
		}
		for nonce, n := range leased {
			if n > 1 {
				t.Errorf("a lease (nonce %s) arrived %d times", nonce, n)
			}
		}
		totals := c.SDK.Totals()
		if totals.HiddenRepeats == 0 {
			t.Error("no hidden repetition was reported")
		}
		if d := totals.Dependencies["callee"]; d.Attempts > 1+budget || d.Retries > budget {
			t.Errorf("attempts %d, retries %d with %d tokens", d.Attempts, d.Retries, budget)
		}
	})
	// After an answer it may be another request of a layer between, for a token or a challenge: the callee has to see it.
	for _, network := range []bool{true, false} {
		t.Run(fmt.Sprintf("answered_network_%v", network), func(t *testing.T) {
			server := chainbudgettest.New(t, chainbudgettest.Service("callee"))
			var mu sync.Mutex
			var grants []int
			served := budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				grants = append(grants, chainbudget.Keep(r.Context(), 99)) // all that the purse holds
				mu.Unlock()
				w.WriteHeader(503)
			}), server.SDK)
			below, address := &stubborn{base: inProcess(served), times: times}, "http://callee/"
			if network {
				below.base, address = newPool(t), serve(t, served).URL
			}
			c := newCaller(t, roomy, catalog(budget))
			if _, err := get(c.chain(t), c.transport(t, below), address); err != nil {
				t.Fatal(err)
			}
			attempts := c.SDK.Totals().Dependencies["callee"].Attempts
			if below.visits.Load() != times*attempts || attempts > 1+budget || len(grants) != int(times*attempts) {
				t.Fatalf("%d attempts, %d requests, %d arrivals", attempts, below.visits.Load(), len(grants))
			}
			leases := int64(0)
			for i, g := range grants {
				if i%times == 0 && g > 0 {
					leases++
				}
				if i%times > 0 && g != 0 {
					t.Errorf("repetition %d of one attempt brought %d tokens", i%times, g)
				}
			}
			// Attempts without a token are no repeated grants: there is nothing to repeat.
			if n := server.SDK.Totals().RepeatedGrants; leases == 0 || n != leases*(times-1) {
				t.Errorf("the callee counted %d repeated grants of %d leases, want %d of each", n, leases, times-1)
			}
		})
	}
	t.Run("a_mesh_that_counts", func(t *testing.T) {
		server := chainbudgettest.New(t, chainbudgettest.Service("callee"))
		s := serve(t, budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, chainbudget.Keep(r.Context(), 99))
		}), server.SDK))
		for header, want := range map[[2]string]string{
			{"X-Envoy-Attempt-Count", "1"}:           "2", // proves nothing
			{"X-Envoy-Attempt-Count", "2"}:           "0",
			{"X-Envoy-Attempt-Count", "99999999999"}: "0",
			{"X-Envoy-Attempt-Count", "-2"}:          "2", // no number
			{"X-Envoy-Attempt-Count", "two"}:         "2",
			{"Grpc-Previous-Rpc-Attempts", "0"}:      "2",
			{"Grpc-Previous-Rpc-Attempts", "1"}:      "0",
		} {
			req := request(t, t.Context(), http.MethodGet, s.URL, nil)
			lendTo(req, 2)
			req.Header.Set(header[0], header[1])
			if _, body := send(t, s.Client(), req); body != want {
				t.Errorf("%s: %s brought %s tokens, want %s", header[0], header[1], body, want)
			}
		}
		if n := server.SDK.Totals().Foreign; n != 3 {
			t.Errorf("%d foreign repetitions counted, want 3", n)
		}
	})
	t.Run("envoy_is_told_to_leave_it", func(t *testing.T) {
		c := newCaller(t, "", chainbudgettest.Catalog("version: 1\ndependencies: {callee: {profile: read-heavy, mesh: envoy}}\n"))
		s, arrived := callee(t, serve, answer(200, ""))
		if _, err := get(c.chain(t), c.transport(t, nil), s.URL); err != nil {
			t.Fatal(err)
		}
		if got := arrived.all()[0].header["X-Envoy-Max-Retries"]; !slices.Equal(got, []string{"0"}) {
			t.Errorf("X-Envoy-Max-Retries %q, want 0", got)
		}
	})
}

func TestRegression_A053_nested_layers_decide_once(t *testing.T) {
	const attempts = 3
	for _, tt := range []struct {
		name string
		call func(t *testing.T, c *caller, ctx context.Context, base http.RoundTripper)
	}{
		{"transport_in_transport", func(t *testing.T, c *caller, ctx context.Context, base http.RoundTripper) {
			resp, err := get(ctx, c.transport(t, c.transport(t, base)), "http://callee/")
			if err != nil || budgethttp.Denied(resp).Attempts != attempts {
				t.Errorf("%v, %v", resp, err)
			}
		}},
		{"transport_in_do", func(t *testing.T, c *caller, ctx context.Context, base http.RoundTripper) {
			err := chainbudget.Do(ctx, c.dep, func(ctx context.Context) error {
				resp, err := get(ctx, c.transport(t, base), "http://callee/")
				if err == nil && resp.StatusCode == 503 {
					return chainbudget.Retryable(errors.New("503"))
				}
				return err
			}, chainbudget.Idempotent())
			var denied *chainbudget.DeniedError
			if !errors.As(err, &denied) || denied.Attempts != attempts {
				t.Errorf("%v", err)
			}
		}},
		{"router_in_transport", func(t *testing.T, c *caller, ctx context.Context, base http.RoundTripper) {
			if _, err := get(ctx, c.transport(t, budgethttp.NewRouter(base, c.SDK)), "http://callee/"); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCaller(t, "", chainbudgettest.Catalog(fmt.Sprintf(`
version: 1
chain: {budget: 9}
profiles:
  thrice: {extends: read-heavy, retry: {max_attempts: %d}, breaker: disabled, budget: disabled, availability_floor: 0%%}
dependencies: {callee: {profile: thrice, hosts: [callee]}}
`, attempts)))
			arrived := new(tap)
			tt.call(t, c, c.chain(t), inProcess(arrived.watch(hop(t, "callee", answer(503, "")))))
			got := arrived.all()
			nonces := map[string]bool{}
			for _, a := range got {
				nonces[a.nonce()] = true
			}
			if len(got) != attempts || len(nonces) != attempts {
				t.Errorf("%d requests with %d nonces, want %d: each layer retried on its own", len(got), len(nonces), attempts)
			}
			if d := c.SDK.Totals().Dependencies["callee"]; d.Calls != 1 || d.Retries != attempts-1 || d.Lent != d.Home {
				t.Errorf("calls %d retries %d lent %d home %d; want one call, %d retries, every lease home", d.Calls, d.Retries, d.Lent, d.Home, attempts-1)
			}
		})
	}
}

func TestRegression_A059_a_scatter_shares_one_budget(t *testing.T) {
	const budget, shards = 2, 32
	leaf := new(tap)
	leafServer := serve(t, leaf.watch(hop(t, "shard", answer(503, ""))))
	c := newCaller(t, roomy, catalog(budget))
	pool := newPool(t)
	scatter := func(transport http.RoundTripper, n int, target string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var calls sync.WaitGroup
			for i := range n {
				calls.Go(func() {
					if _, err := get(r.Context(), transport, fmt.Sprintf("%s/shard-%d", target, i)); err != nil {
						t.Error(err)
					}
				})
			}
			calls.Wait()
			w.WriteHeader(http.StatusBadGateway)
		}
	}
	t.Run("one_hop", func(t *testing.T) {
		query := serve(t, budgethttp.NewHandler(scatter(c.transport(t, pool), shards, leafServer.URL), c.SDK, budgethttp.Entry()))
		if status, _ := send(t, query.Client(), request(t, t.Context(), http.MethodGet, query.URL, nil)); status != 502 {
			t.Fatalf("status %d", status)
		}
		if n := len(leaf.all()); n < shards || n > shards+budget {
			t.Errorf("%d requests for %d shards and %d tokens", n, shards, budget)
		}
	})
	t.Run("two_hops", func(t *testing.T) {
		before := len(leaf.all())
		c := newCaller(t, roomy, catalog(budget))
		middle := newCaller(t, roomy, chainbudgettest.Service("middle"), catalog(budget))
		middleServer := serve(t, budgethttp.NewHandler(scatter(middle.transport(t, pool), shards/4, leafServer.URL), middle.SDK))
		query := serve(t, budgethttp.NewHandler(scatter(c.transport(t, pool), 4, middleServer.URL), c.SDK, budgethttp.Entry()))
		send(t, query.Client(), request(t, t.Context(), http.MethodGet, query.URL, nil))
		if n := c.SDK.Totals().Dependencies["callee"].Retries + middle.SDK.Totals().Dependencies["callee"].Retries; n > budget {
			t.Errorf("%d retries in a chain of %d tokens", n, budget)
		}
		// A retry above the middle repeats the middle's quarter of the shards.
		if n := len(leaf.all()) - before; n < shards || n > shards+budget*shards/4 {
			t.Errorf("%d requests at the leaf", n)
		}
	})
}

func TestRegression_A060_a_chain_of_four_asks_its_leaf_at_most_four_times(t *testing.T) {
	const budget = 3
	leaf := new(tap)
	next := serve(t, leaf.watch(hop(t, "leaf", answer(503, ""))))
	pool := newPool(t)
	var callers []*caller
	for i := range 4 {
		c := newCaller(t, roomy, chainbudgettest.Service(fmt.Sprintf("hop%d", 4-i)), catalog(budget, "retry: {max_attempts: 3}"))
		callers = append(callers, c)
		client, target := c.client(t, pool), next.URL
		var options []budgethttp.HandlerOption
		if i == 3 {
			options = append(options, budgethttp.Entry())
		}
		next = serve(t, budgethttp.NewHandler(budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			resp, err := client.Do(request(t, r.Context(), http.MethodGet, target, nil))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if denied := budgethttp.Denied(resp); denied != nil {
				return denied
			}
			return nil
		}), c.SDK, options...))
	}
	status, _ := send(t, next.Client(), request(t, t.Context(), http.MethodGet, next.URL, nil))
	if status != http.StatusBadGateway {
		t.Errorf("status %d, want 502", status)
	}
	// The hop next to the leaf makes its three attempts; all above it hear "unclaimed" and make none.
	if n := len(leaf.all()); n != 3 {
		t.Errorf("the leaf was asked %d times, want 3 (and never more than %d)", n, 1+budget)
	}
	retries := int64(0)
	for _, c := range callers {
		retries += c.SDK.Totals().Dependencies["callee"].Retries
	}
	if retries != 2 {
		t.Errorf("%d retries in the whole chain, want 2", retries)
	}
	// What happens without the SDK, and with tokens that are counted down but never returned: see NUMBERS T4.
	naive, downOnly := 3*3*3*3, binomial(budget+4, 4)
	t.Logf("leaf requests: %d; every hop on its own %d; counted down without returns up to %d", len(leaf.all()), naive, downOnly)
}

func binomial(n, k int) int {
	c := 1
	for i := 1; i <= k; i++ {
		c = c * (n - k + i) / i
	}
	return c
}

func TestRegression_A061_a_gateway_that_cannot_replay_lets_the_one_above_do_it(t *testing.T) {
	var hits atomic.Int64
	store := serve(t, hop(t, "store", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if hits.Add(1) == 1 {
			w.WriteHeader(503)
		}
	})))
	gateway := newCaller(t, roomy, chainbudgettest.Service("gateway"), catalog(3))
	gatewayClient := gateway.client(t, nil)
	middle := serve(t, budgethttp.NewHandler(budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		req := request(t, r.Context(), http.MethodPut, store.URL, io.NopCloser(r.Body)) // a stream: no GetBody
		resp, err := gatewayClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if denied := budgethttp.Denied(resp); denied != nil {
			return denied
		}
		return nil
	}), gateway.SDK))
	c := newCaller(t, roomy, catalog(3))
	req := request(t, c.chain(t), http.MethodPut, middle.URL, strings.NewReader("object"))
	if status, _ := send(t, c.client(t, nil), req); status != 200 {
		t.Errorf("status %d: the client above has the object and a token", status)
	}
	if got := gateway.Reasons(); !slices.Equal(got, []ownership.Reason{ownership.ReasonNotReplayable}) {
		t.Errorf("the gateway decided %v", got)
	}
	if e := c.Events(); len(e) != 1 || e[0].Reason != ownership.ReasonAllowed || e[0].Claim != ownership.ClaimClaimed || e[0].Owner != "store" {
		t.Errorf("the client's decisions %+v; want one retry of a claimed failure", e)
	}
	if hits.Load() != 2 {
		t.Errorf("the store was asked %d times, want 2", hits.Load())
	}
}
