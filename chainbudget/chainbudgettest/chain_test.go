package chainbudgettest_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// over is a chain on budgethttp.
func over(c chainbudgettest.Chain) chainbudgettest.Chain {
	c.Handler = func(next http.Handler, sdk *chainbudget.SDK) http.Handler { return budgethttp.NewHandler(next, sdk) }
	c.Transport = budgethttp.NewTransport
	return c
}

func TestChain_faults(t *testing.T) {
	type chain = chainbudgettest.Chain
	type fault = chainbudgettest.Fault
	for name, tt := range map[string]struct {
		chain  chain
		want   chainbudgettest.Want
		minted int
		lost   int
	}{
		"nothing_goes_wrong": {
			chain: chain{Depth: 3}, minted: 3,
			want: chainbudgettest.Want{Status: 200, Attempts: []int{1, 1, 1}, Settled: true, Claim: ownership.ClaimNone},
		},
		"one_failure_is_retried_next_to_its_cause": {
			chain: chain{Depth: 3, Faults: []fault{{Hop: 3, Kind: chainbudgettest.Fails, Times: 1}}}, minted: 3,
			want: chainbudgettest.Want{Status: 200, Attempts: []int{1, 1, 2}, Settled: true},
		},
		"all_fails": {
			chain: chain{Depth: 3, Faults: []fault{{Hop: 3, Kind: chainbudgettest.Fails}}}, minted: 3,
			want: chainbudgettest.Want{Status: 503, Attempts: []int{1, 1, 3}, Claim: ownership.ClaimUnclaimed, Owner: "hop3", Settled: true},
		},
		"fan_out": {
			chain: chain{Depth: 2, FanOut: 3, Faults: []fault{{Hop: 2, Kind: chainbudgettest.Fails, Times: 2}}}, minted: 3,
			want: chainbudgettest.Want{Status: 200, Attempts: []int{1, 5}, Settled: true},
		},
		"several_requests": {
			chain: chain{Depth: 2, Requests: 2, Faults: []fault{{Hop: 1, Kind: chainbudgettest.Fails, Times: 1}, {Hop: 2, Kind: chainbudgettest.Fails, Times: 1}}}, minted: 6,
			want: chainbudgettest.Want{Status: 200, Attempts: []int{3, 3}, Settled: true},
		},
		"a_hop_that_hangs": {
			chain: chain{Depth: 2, Faults: []fault{{Hop: 2, Kind: chainbudgettest.Hangs, Times: 1}}}, minted: 3, lost: 2,
			want: chainbudgettest.Want{Status: 200},
		},
		"a_silent_hop": {
			chain: chain{Depth: 2, Faults: []fault{{Hop: 1, Kind: chainbudgettest.Silent, Times: 1}}}, minted: 3, lost: 2,
			want: chainbudgettest.Want{Status: 200, Attempts: []int{1, 1}},
		},
		"a_connection_that_breaks": {
			chain: chain{Depth: 2, Faults: []fault{{Hop: 1, Kind: chainbudgettest.Breaks, Times: 1}}}, minted: 3, lost: 2,
			want: chainbudgettest.Want{Status: 200, Attempts: []int{2, 2}},
		},
		"lost_after_a_retry_below": {
			chain: chain{Depth: 2, Faults: []fault{{Hop: 1, Kind: chainbudgettest.Silent}, {Hop: 2, Kind: chainbudgettest.Fails, Times: 1}}}, minted: 3, lost: 1,
			want: chainbudgettest.Want{Status: 200, Attempts: []int{1, 2}},
		},
		"a_hop_that_drops_its_context": {
			chain: chain{Depth: 2, Faults: []fault{{Hop: 1, Kind: chainbudgettest.DropsContext}, {Hop: 2, Kind: chainbudgettest.Fails, Times: 1}}}, minted: 4,
			want: chainbudgettest.Want{Status: 200, Attempts: []int{1, 2}, Settled: true},
		},
		"a_catalog_of_ones_own": {
			chain: chain{Depth: 2, Faults: []fault{{Hop: 2, Kind: chainbudgettest.Fails}}, Catalog: `version: 1
chain: {budget: 5, mode: budget}
profiles:
  chain: {extends: read-heavy, retry: {max_attempts: 2}, budget: disabled, breaker: disabled, availability_floor: 0%}
`}, minted: 5,
			want: chainbudgettest.Want{Status: 503, Attempts: []int{2, 4}, Settled: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcome, err := over(tt.chain).Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := outcome.Expect(tt.want); err != nil {
				t.Error(err)
			}
			if outcome.Minted != tt.minted || outcome.Lost != tt.lost || outcome.Minted-outcome.Retries-outcome.Lost != outcome.Held {
				t.Errorf("%d tokens minted, %d retries, %d lost, %d held; want %d minted and %d lost\n%v",
					outcome.Minted, outcome.Retries, outcome.Lost, outcome.Held, tt.minted, tt.lost, outcome)
			}
			t.Logf("\n%v", outcome)
		})
	}
}

// TestChain_finds_what_is_broken holds the checks of a run to their word.
func TestChain_finds_what_is_broken(t *testing.T) {
	failing := []chainbudgettest.Fault{{Hop: 2, Kind: chainbudgettest.Fails}}
	inside := func(change func(w http.ResponseWriter)) func(http.Handler, *chainbudget.SDK) http.Handler {
		return func(next http.Handler, sdk *chainbudget.SDK) http.Handler {
			h := budgethttp.NewHandler(next, sdk)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				out := &atHeaders{ResponseWriter: w, change: change}
				h.ServeHTTP(out, r)
				out.WriteHeader(http.StatusOK)
			})
		}
	}
	for name, tt := range map[string]struct {
		sabotage func(*chainbudgettest.Chain)
		want     []string
	}{
		"a_client_with_a_loop": {
			sabotage: func(c *chainbudgettest.Chain) {
				c.Faults = failing
				c.Transport = func(base http.RoundTripper, dep *chainbudget.Dependency) http.RoundTripper {
					return looping{budgethttp.NewTransport(looping{base}, dep)}
				}
			},
			want: []string{"I1: request 1: ", "I2: request 1: ", "attempts reached hop1, hop2, 3 tokens minted"},
		},
		"returns_that_get_lost": {
			sabotage: func(c *chainbudgettest.Chain) {
				c.Handler = inside(func(w http.ResponseWriter) { w.Header().Del("Chainbudget-Return") })
			},
			want: []string{"2 tokens are lost: hop1 answered attempt 1 of the entry without a return, and no fault explains it"},
		},
		"returns_of_more_than_there_is": {
			sabotage: func(c *chainbudgettest.Chain) {
				c.Faults = failing
				c.Handler = inside(func(w http.ResponseWriter) {
					line := strings.Split(w.Header().Get("Chainbudget-Return"), ".")
					line[1] = "2"
					w.Header().Set("Chainbudget-Return", strings.Join(line, "."))
				})
			},
			want: []string{"I3: hop1 was granted 2, and gave out 2 more than that"},
		},
		"claims_of_what_was_retried": {
			sabotage: func(c *chainbudgettest.Chain) {
				c.Depth, c.Faults = 3, []chainbudgettest.Fault{{Hop: 3, Kind: chainbudgettest.Fails}}
				c.Handler = func(next http.Handler, sdk *chainbudget.SDK) http.Handler {
					n := atomic.Int32{}
					return inside(func(w http.ResponseWriter) {
						// Of the two hops that send it up, one says the opposite of what it was told.
						if h := w.Header(); n.Add(1) == 1 && strings.Contains(h.Get("Chainbudget-Return"), ".B.") {
							h.Set("Chainbudget-Return", strings.Replace(h.Get("Chainbudget-Return"), ".u.", ".c.", 1))
						}
					})(next, sdk)
				}
			},
			want: []string{"hop1 was told that the failure of hop3 is unclaimed, and claimed it"},
		},
		"retries_of_what_is_unclaimed": {
			sabotage: func(c *chainbudgettest.Chain) {
				c.Depth, c.Faults = 3, []chainbudgettest.Fault{{Hop: 3, Kind: chainbudgettest.Fails, Times: 3}}
				c.Transport = func(base http.RoundTripper, dep *chainbudget.Dependency) http.RoundTripper {
					if dep.Name() == "hop1" {
						base = claiming{base}
					}
					return budgethttp.NewTransport(base, dep)
				}
			},
			want: []string{"the entry retried a failure of hop1 that came back as unclaimed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			chain := over(chainbudgettest.Chain{Depth: 2})
			tt.sabotage(&chain)
			outcome, err := chain.Run(t.Context())
			if outcome == nil || err == nil {
				t.Fatalf("outcome %v, error %v", outcome, err)
			}
			for _, want := range append(tt.want, "request 1: ", "hop1 attempt 1: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
		})
	}
}

// atHeaders changes an answer's headers as they go out.
type atHeaders struct {
	http.ResponseWriter
	change func(http.ResponseWriter)
	sent   bool
}

func (w *atHeaders) WriteHeader(status int) {
	if !w.sent {
		w.sent = true
		w.change(w.ResponseWriter)
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *atHeaders) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// looping sends what failed twice more.
type looping struct{ next http.RoundTripper }

func (l looping) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	for range 3 {
		if resp, err = l.next.RoundTrip(r.Clone(r.Context())); err == nil && resp.StatusCode < 500 {
			return resp, nil
		}
	}
	return resp, err
}

// claiming makes every failure one that may be retried.
type claiming struct{ next http.RoundTripper }

func (c claiming) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil {
		if line := resp.Header.Get("Chainbudget-Return"); line != "" {
			resp.Header.Set("Chainbudget-Return", strings.Replace(line, ".u.", ".c.", 1))
		}
	}
	return resp, err
}

// shop is a user's service: it calls what comes next through its own SDK.
func shop(t *testing.T, lose bool) func(chainbudgettest.Place) http.Handler {
	return func(p chainbudgettest.Place) http.Handler {
		rec := chainbudgettest.New(t, chainbudgettest.Service("shop"))
		client := &http.Client{Transport: budgethttp.NewTransport(p.Base, rec.Dependency("hop2", profiles.ReadHeavy))}
		return budgethttp.NewHandler(budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			ctx := r.Context()
			if lose {
				ctx = context.Background()
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Next, nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if denied := budgethttp.Denied(resp); denied != nil {
				return denied
			}
			return nil
		}), rec.SDK)
	}
}

func TestChain_around_a_service(t *testing.T) {
	chain := over(chainbudgettest.Chain{
		Depth:    3,
		Services: map[int]func(chainbudgettest.Place) http.Handler{1: shop(t, false)},
		Faults:   []chainbudgettest.Fault{{Hop: 2, Kind: chainbudgettest.Fails, Times: 1}, {Hop: 3, Kind: chainbudgettest.Fails, Times: 1}},
	})
	outcome, err := chain.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := chainbudgettest.Want{Status: 200, Attempts: []int{1, 2, 2}, Settled: true}
	if err := outcome.Expect(want); err != nil {
		t.Error(err)
	}
	chain.Services[1] = shop(t, true)
	outcome, err = chain.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "a request to hop2 was sent with a context that belongs to no request of the chain") {
		t.Errorf("a service that loses its context: %v\n%v", err, outcome)
	}
	for _, fault := range []chainbudgettest.FaultKind{chainbudgettest.Fails, chainbudgettest.Hangs, chainbudgettest.Silent, chainbudgettest.Breaks} {
		chain.Services[1], chain.Faults = shop(t, false), []chainbudgettest.Fault{{Hop: 1, Kind: fault, Times: 1}}
		outcome, err := chain.Run(t.Context())
		if err != nil || outcome.Statuses[0] != 200 || outcome.Lost != 2 {
			t.Errorf("a service that %s: %v, %v", fault, err, outcome)
		}
	}
}

func TestChain_says_what_is_not_expected(t *testing.T) {
	outcome, err := over(chainbudgettest.Chain{Depth: 2, Faults: []chainbudgettest.Fault{{Hop: 1, Kind: chainbudgettest.Silent}}}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = outcome.Expect(chainbudgettest.Want{Status: 503, Claim: ownership.ClaimStop, Owner: "hop9", Attempts: []int{1, 2}, Settled: true})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"status: 200, want 503", "claim: none, want stop", "owner: , want hop9", "attempts by hop: [1 1], want [1 2]", "tokens lost: 2, want 0", "└─ hop1 attempt 1: lent 2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
}

func TestChain_that_makes_no_sense(t *testing.T) {
	outcome, err := chainbudgettest.Chain{
		Depth: 21, FanOut: -1, Catalog: "version: 2",
		Services: map[int]func(chainbudgettest.Place) http.Handler{0: nil},
		Faults: []chainbudgettest.Fault{
			{Hop: 0, Kind: chainbudgettest.Fails}, {Hop: 1, Times: -1}, {Hop: 1, Kind: 99},
		},
	}.Run(t.Context())
	if outcome != nil || err == nil {
		t.Fatalf("outcome %v, error %v", outcome, err)
	}
	for _, want := range []string{"version", "no adapter", "Depth is 21 and FanOut -1", "the place of hop 0", "Faults[0]", "Faults[1]", "Faults[2]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	none := over(chainbudgettest.Chain{Catalog: "version: 1\n"})
	if _, err := none.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `"chain"`) {
		t.Errorf("a catalog without the profile: %v", err)
	}
}
