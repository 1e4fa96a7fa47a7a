package trees

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/testnet"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// eager is a chain of hops that would make ten attempts each: of 10^5 calls only the budget keeps them.
func eager(hops int) []link {
	links := make([]link, hops)
	for i := range links {
		links[i].attempts = 10
	}
	return links
}

// lossy are the networks on which tokens get lost, or might multiply.
var lossy = map[string]testnet.Fault{
	"nothing_lost":      {},
	"return_removed":    {Return: testnet.Remove},
	"return_duplicated": {Return: testnet.Duplicate},
	"return_stale":      {Return: testnet.Stale},
	"response_lost":     {Kind: testnet.Lose},
	"crash":             {Kind: testnet.Crash},
	"refused":           {Kind: testnet.Refuse},
}

// onEverySecond plays a fault on every second request between hops.
func onEverySecond(f testnet.Fault) func(*http.Request) testnet.Fault {
	var mu sync.Mutex
	n := 0
	return func(req *http.Request) testnet.Fault {
		mu.Lock()
		defer mu.Unlock()
		if req.URL.Host == hopName(0) {
			return testnet.Fault{}
		}
		if n++; n%2 == 0 {
			return f
		}
		return testnet.Fault{}
	}
}

// TestI1_RetriesNeverExceedTheTokensMinted lets every hop of a failing chain retry as it likes, ownership aside. The
// random trees hold I1 on every other shape.
func TestI1_RetriesNeverExceedTheTokensMinted(t *testing.T) {
	for name, fault := range lossy {
		t.Run(name, func(t *testing.T) {
			for budget := range 6 {
				c := newLine(t, budget, "budget", eager(5), onEverySecond(fault), failures(always))
				c.enter(t)
				got := c.retries()
				if got > budget {
					t.Errorf("%d retries, %d tokens minted", got, budget)
				}
				if name == "nothing_lost" && got != budget {
					t.Errorf("%d retries, %d tokens minted and none lost: a test that sees no retries shows nothing", got, budget)
				}
			}
		})
	}
}

// TestI2_AttemptsOnOnePathAreOneAndTheTokens counts what reaches each hop of the same chains.
func TestI2_AttemptsOnOnePathAreOneAndTheTokens(t *testing.T) {
	for name, fault := range lossy {
		t.Run(name, func(t *testing.T) {
			for budget := range 6 {
				c := newLine(t, budget, "budget", eager(5), onEverySecond(fault), failures(always))
				c.enter(t)
				for i := range c.called {
					if got := c.called[i].Load(); got > int64(1+budget) {
						t.Errorf("%d requests reached hop %d, %d tokens minted", got, i, budget)
					}
				}
				if got := c.leafCalls(); name == "nothing_lost" && got != 1+budget {
					t.Errorf("%d requests reached the leaf, want %d", got, 1+budget)
				}
			}
		})
	}
}

// TestI3_EveryPurseAddsUp reads the purse of a hop while it makes calls at the same time, of which some fail, some lose
// their return and some take longer than their caller waits for: it adds up after every answer, and in the end.
func TestI3_EveryPurseAddsUp(t *testing.T) {
	const calls, rounds = 8, 50
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(lineCatalog(10, "budget", eager(1))))
	kinds := []testnet.Fault{{}, {Kind: testnet.Lose}, {Return: testnet.Remove}, {Kind: testnet.Refuse}, {Kind: testnet.Crash}}
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(3, 3))
	network := testnet.New(func(req *http.Request) testnet.Fault {
		mu.Lock()
		defer mu.Unlock()
		if req.URL.Host == "entry" {
			return testnet.Fault{}
		}
		return kinds[r.IntN(len(kinds))]
	})
	t.Cleanup(network.Close)
	// The callee spends what it is lent on a callee of its own.
	callee := newCallee(t, network, "leaf", lineCatalog(10, "budget", eager(1)))
	network.Handle("callee", callee)
	network.Handle("leaf", budgethttp.NewHandler(failures(always), chainbudgettest.New(t, chainbudgettest.Service("leaf")).SDK))
	dep := rec.Dependency("callee", "link0")
	transport := budgethttp.NewTransport(network, dep)
	spent, lost := 0, 0
	network.Handle("entry", budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := engine.FromContext(r.Context())
		check := func() {
			if b := in.Balance(); b.Held+b.Lent+b.Spent+b.Lost+b.Returned != b.Granted ||
				min(b.Held, b.Lent, b.Spent, b.Lost, b.Returned) < 0 {
				t.Errorf("%+v does not add up", b)
			}
		}
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://callee/", nil)
				if err != nil {
					t.Error(err)
					return
				}
				check()
				if resp, err := transport.RoundTrip(req); err == nil {
					resp.Body.Close()
				}
				check()
			})
		}
		all.Wait()
		b := in.Balance()
		if b.Lent != 0 || b.Granted != 10 {
			t.Errorf("%+v when every call has ended", b)
		}
		spent, lost = spent+b.Spent, lost+b.Lost
	}), rec.SDK, budgethttp.Entry()))
	for range rounds {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://entry/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := network.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		network.Wait()
	}
	if spent == 0 || lost == 0 {
		t.Errorf("%d tokens spent and %d lost: nothing was strained", spent, lost)
	}
}

// newCallee is a service that calls the host next once, with ten attempts, and answers as that did.
func newCallee(t testing.TB, network *testnet.Network, next, catalog string) http.Handler {
	t.Helper()
	rec := chainbudgettest.New(t, chainbudgettest.Service("callee"), chainbudgettest.Catalog(catalog))
	transport := budgethttp.NewTransport(network, rec.Dependency(next, "link0"))
	return budgethttp.NewHandler(budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+next+"/", nil)
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if denied := budgethttp.Denied(resp); denied != nil {
			return denied
		}
		return nil
	}), rec.SDK)
}

// TestI7_OneCallHasOneDecisionMaker nests the layers of one dependency, and of two.
func TestI7_OneCallHasOneDecisionMaker(t *testing.T) {
	const attempts = 3
	type layers struct {
		network  *testnet.Network
		one, two *chainbudget.Dependency
	}
	get := func(ctx context.Context, transport http.RoundTripper) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://callee/", nil)
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if denied := budgethttp.Denied(resp); denied != nil {
			return chainbudget.Retryable(denied)
		}
		if resp.StatusCode >= 500 {
			return chainbudget.Retryable(io.ErrUnexpectedEOF)
		}
		return nil
	}
	for name, tc := range map[string]struct {
		call             func(ctx context.Context, l layers) error
		sent             int
		one, two, tokens int // attempts of each dependency, tokens spent
	}{
		"transport": {func(ctx context.Context, l layers) error {
			return get(ctx, budgethttp.NewTransport(l.network, l.one))
		}, attempts, attempts, 0, attempts - 1},
		"transport_in_transport": {func(ctx context.Context, l layers) error {
			return get(ctx, budgethttp.NewTransport(budgethttp.NewTransport(l.network, l.one), l.one))
		}, attempts, attempts, 0, attempts - 1},
		"three_transports": {func(ctx context.Context, l layers) error {
			return get(ctx, budgethttp.NewTransport(budgethttp.NewTransport(budgethttp.NewTransport(l.network, l.one), l.one), l.one))
		}, attempts, attempts, 0, attempts - 1},
		"transport_in_do": {func(ctx context.Context, l layers) error {
			return chainbudget.Do(ctx, l.one, func(ctx context.Context) error {
				return get(ctx, budgethttp.NewTransport(l.network, l.one))
			}, chainbudget.Idempotent())
		}, attempts, attempts, 0, attempts - 1},
		// The inner call is another dependency's: it decides for itself, and its failure comes out of three attempts.
		// It was retried next to its cause, so the outer layer makes one attempt.
		"other_transport_in_do": {func(ctx context.Context, l layers) error {
			return chainbudget.Do(ctx, l.two, func(ctx context.Context) error {
				return get(ctx, budgethttp.NewTransport(l.network, l.one))
			}, chainbudget.Idempotent())
		}, attempts, attempts, 1, attempts - 1},
	} {
		t.Run(name, func(t *testing.T) {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(lineCatalog(10, "enforce", []link{{attempts: attempts}})))
			l := layers{testnet.New(nil), rec.Dependency("callee", "link0"), rec.Dependency("other", "link0")}
			defer l.network.Close()
			sent := 0
			callee := chainbudgettest.New(t, chainbudgettest.Service("callee"))
			l.network.Handle("callee", budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent++
				w.WriteHeader(http.StatusServiceUnavailable)
			}), callee.SDK))
			ctx, end := chainbudget.Start(t.Context(), rec.SDK)
			defer end()
			if err := tc.call(ctx, l); err == nil {
				t.Error("no error from a callee that only fails")
			}
			totals := rec.SDK.Totals().Dependencies
			one, two, b := totals["callee"], totals["other"], engine.FromContext(ctx).Balance()
			if sent != tc.sent || one.Attempts != int64(tc.one) || two.Attempts != int64(tc.two) || b.Spent != tc.tokens {
				t.Errorf("%d requests sent, %d and %d attempts, %d tokens spent; want %d, %d and %d, %d", sent, one.Attempts, two.Attempts,
					b.Spent, tc.sent, tc.one, tc.two, tc.tokens)
			}
			// One event for each retry and one for each refusal: a layer that decides nothing records nothing.
			if got, want := len(rec.Events()), tc.tokens+1+tc.two; got != want {
				t.Errorf("%d final decisions, want %d: %v", got, want, rec.Reasons())
			}
		})
	}
}

// twice is a layer of somebody else's that sends every request two times, and answers with the second response.
type twice struct{ base http.RoundTripper }

func (l twice) RoundTrip(req *http.Request) (*http.Response, error) {
	if resp, err := l.base.RoundTrip(req); err == nil {
		resp.Body.Close()
	}
	return l.base.RoundTrip(req)
}

// TestI7_ARepetitionBetweenLayersBringsNoLeaseTwice repeats every request between two transports of one dependency: the
// inner one sends each wire once, so that a lease arrives once, and the outer one still makes the decisions.
func TestI7_ARepetitionBetweenLayersBringsNoLeaseTwice(t *testing.T) {
	for name, nest := range map[string]func(base http.RoundTripper, dep *chainbudget.Dependency) http.RoundTripper{
		"two_transports": func(base http.RoundTripper, dep *chainbudget.Dependency) http.RoundTripper {
			return budgethttp.NewTransport(twice{budgethttp.NewTransport(base, dep)}, dep)
		},
		"above_three": func(base http.RoundTripper, dep *chainbudget.Dependency) http.RoundTripper {
			return budgethttp.NewTransport(twice{budgethttp.NewTransport(budgethttp.NewTransport(base, dep), dep)}, dep)
		},
		"below_three": func(base http.RoundTripper, dep *chainbudget.Dependency) http.RoundTripper {
			return budgethttp.NewTransport(budgethttp.NewTransport(twice{budgethttp.NewTransport(base, dep)}, dep), dep)
		},
	} {
		t.Run(name, func(t *testing.T) {
			const attempts, budget = 3, 10
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(lineCatalog(budget, "enforce", []link{{attempts: attempts}})))
			network := testnet.New(nil)
			defer network.Close()
			nonces := map[otelprop.Nonce]bool{}
			sent, leased := 0, 0
			network.Handle("callee", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				wire, _ := otelprop.ReadRequest(r.Header["Baggage"], r.Header["Chainbudget"], otelprop.MaxTokens)
				sent++
				leased += int(wire.Grant) // nothing of it comes home
				nonces[wire.Nonce] = true
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			ctx, end := chainbudget.Start(t.Context(), rec.SDK)
			defer end()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://callee/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := nest(network, rec.Dependency("callee", "link0")).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			b := engine.FromContext(ctx).Balance()
			if len(nonces) != sent || leased+b.Spent > budget || b.Spent == 0 {
				t.Errorf("%d requests with %d nonces brought %d tokens, and %d were spent, of %d", sent, len(nonces), leased, b.Spent, budget)
			}
			if got := rec.SDK.Totals().Dependencies["callee"].Attempts; got != int64(sent/2) {
				t.Errorf("%d attempts for %d requests that were all repeated", got, sent)
			}
		})
	}
}

// TestI8_NoTokenIsLeftUnusedForNothing runs random linear chains against a leaf that fails, and follows each by hand.
func TestI8_NoTokenIsLeftUnusedForNothing(t *testing.T) {
	const chains = 250
	var unclaimed, passedUp, recovered int
	for seed := range uint64(chains) {
		r := rand.New(rand.NewPCG(seed, 8))
		links := make([]link, 1+r.IntN(5))
		for i := range links {
			links[i] = link{attempts: 1 + r.IntN(4)*r.IntN(2), reserve: r.IntN(3) * r.IntN(2), stream: r.IntN(4) == 0}
		}
		budget, fails := r.IntN(5), always
		if r.IntN(2) == 0 {
			fails = 1 + r.IntN(3)
		}
		c := newLine(t, budget, "enforce", links, nil, failures(fails))
		status := c.enter(t)

		by := &hand{links: links, fails: fails}
		end := by.walk(0, budget)
		if got := c.leafCalls(); got != by.leafCalls {
			t.Errorf("seed %d: %d requests reached the leaf, want %d (budget %d, links %+v)", seed, got, by.leafCalls, budget, links)
		}
		if failed := status != http.StatusOK; failed != (end.claim != ownership.ClaimNone) {
			t.Errorf("seed %d: status %d, want claim %v", seed, status, end.claim)
		}
		if status == http.StatusOK {
			recovered++
			continue
		}
		protected := false
		var unused []string
		for i, events := range c.events() {
			for _, e := range events {
				protected = protected || e.Reason.Protects()
				able := e.Reason != ownership.ReasonAllowed && e.Reason != ownership.ReasonNoPolicy && e.Reason != ownership.ReasonNotReplayable
				if able && e.Before > 0 {
					unused = append(unused, hopName(i)+" "+e.Reason.String())
				}
			}
		}
		switch {
		case protected:
			unclaimed++
		case len(unused) > 0:
			t.Errorf("seed %d: nobody protected anything, and tokens were left unused: %s (budget %d, links %+v)", seed,
				strings.Join(unused, ", "), budget, links)
		default:
			passedUp++
		}
	}
	t.Logf("%d chains: %d protected, %d passed up to the end, %d recovered", chains, unclaimed, passedUp, recovered)
	if min(unclaimed, passedUp, recovered) < chains/20 {
		t.Error("some ends of a chain are too rare to show anything")
	}
}

// hand follows a linear chain by the rules of DESIGN, one token at a time.
type hand struct {
	links     []link
	fails     int
	leafCalls int
}

// answer is what a hop sends up.
type answer struct {
	tokens int
	claim  ownership.Claim
}

func (c *hand) walk(i, granted int) answer {
	if i == len(c.links) {
		c.leafCalls++
		if c.leafCalls > c.fails {
			return answer{granted, ownership.ClaimNone}
		}
		return answer{granted, ownership.ClaimClaimed}
	}
	l, held, retried := c.links[i], granted, false
	for attempt := 1; ; attempt++ {
		stay := l.reserve
		if i == 0 && held >= 2 {
			stay = max(stay, 1) // who minted keeps one
		}
		lease := max(0, held-stay)
		got := c.walk(i+1, lease)
		held += got.tokens - lease
		if got.claim != ownership.ClaimClaimed {
			return answer{held, got.claim}
		}
		claim := ownership.ClaimClaimed // passes up
		if retried {
			claim = ownership.ClaimUnclaimed
		}
		switch {
		case l.attempts == 1:
			return answer{held, claim}
		case attempt == l.attempts:
			return answer{held, ownership.ClaimUnclaimed}
		case l.stream, held == 0:
			return answer{held, claim}
		}
		held--
		retried = true
	}
}
