package budgethttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// A limitKind is one way in which a catalog limits the retries of a process, as the only limit of a profile with two attempts.
type limitKind struct {
	name, settings string
	refusal        ownership.Reason
	full           int64 // retries of the first hundred calls, which all fail at one moment
	drained        int64 // of the next hundred
	again          int64 // of a hundred after 10,000 successes and a minute
	together       int64 // of a thousand that fail together
}

// limitKinds are all that there are. Where requests pay, a hundred of them pay for ten retries, whatever becomes of them;
// gRPC's tokens are taken by failures, two in each of these calls, and half of ten is not more than half.
var limitKinds = []limitKind{
	{"ratio_of_successes", "budget: {ratio: 10%, fund: successes, burst: 10}", ownership.ReasonDependencyBudget, 10, 0, 10, 10},
	{"ratio_of_requests", "budget: {ratio: 10%, fund: requests, burst: 10}", ownership.ReasonDependencyBudget, 19, 10, 19, 10},
	{"quota", "budget: {kind: quota, burst: 10, cost: 1, throttled_cost: 1}", ownership.ReasonDependencyBudget, 10, 0, 10, 10},
	{"throttle", "budget: {kind: throttle, ratio: 10%, burst: 10}", ownership.ReasonDependencyBudget, 2, 0, 2, 4},
	{"reserve", "budget: {kind: reserve, ratio: 10%, min_per_second: 1, ttl: 10s}", ownership.ReasonDependencyBudget, 20, 10, 20, 110},
	{"minute_of_the_profile", "budget: disabled, process_budget: 10", ownership.ReasonProcessBudget, 10, 0, 10, 10},
	{"minute_of_the_process", "budget: disabled", ownership.ReasonProcessBudget, 10, 0, 10, 10},
}

// catalog has the kind as profiles p and q.
func (k limitKind) catalog() string {
	chain := "chain: {budget: 9, max_budget: 99}"
	if k.name == "minute_of_the_process" {
		chain = "chain: {budget: 9, max_budget: 99, process_budget: 10}"
	}
	return fmt.Sprintf(`
version: 1
%s
profiles:
  p: {extends: read-heavy, retry: {max_attempts: 2, attempt_timeout: 0s}, backoff: {base: 500ms, throttled_base: 500ms, cap: 5s},
    breaker: disabled, availability_floor: 0%%, %s}
  q: {extends: p}
`, chain, k.settings)
}

// everyKind runs f for each kind, in virtual time.
func everyKind(t *testing.T, f func(t *testing.T, k limitKind, c *caller), options ...chainbudgettest.Option) {
	for _, k := range limitKinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f(t, k, newCaller(t, "p", append(options, chainbudgettest.Catalog(k.catalog()))...))
			})
		})
	}
}

// ask makes n calls, each in a chain of its own, and returns how many retries they made.
func (c *caller) ask(t *testing.T, transport http.RoundTripper, n int) (retries int64) {
	t.Helper()
	total := func() (n int64) {
		for _, d := range c.SDK.Totals().Dependencies {
			n += d.Retries
		}
		return n
	}
	before := total()
	for range n {
		ctx, end := c.endlessChain(context.Background())
		if _, err := get(ctx, transport, "http://callee/"); err != nil {
			t.Error(err)
		}
		end()
	}
	return total() - before
}

func TestRegression_A062_every_limit_is_reserved_before_the_wait(t *testing.T) {
	everyKind(t, func(t *testing.T, k limitKind, c *caller) {
		const failures = 1000
		var sent atomic.Int64
		gate := make(chan struct{})
		transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			if sent.Add(1) == failures {
				close(gate)
			}
			<-gate
			return response(req, 503, http.NoBody), nil
		}))
		var calls sync.WaitGroup
		for range failures {
			calls.Go(func() {
				ctx, end := c.endlessChain(context.Background())
				defer end()
				get(ctx, transport, "http://callee/")
			})
		}
		calls.Wait()
		// gRPC's tokens are taken by failures: how many of those came before the first question is chance.
		if n := sent.Load() - failures; n > k.together || n < k.together && k.name != "throttle" {
			t.Errorf("%d retries of %d failures at once, want %d", n, failures, k.together)
		}
	}, chainbudgettest.Sleep())
}

func TestRegression_A064_every_drained_limit_recovers(t *testing.T) {
	everyKind(t, func(t *testing.T, k limitKind, c *caller) {
		status := 503
		transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			return response(req, status, http.NoBody), nil
		}))
		if n := c.ask(t, transport, 100); n != k.full {
			t.Errorf("%d retries of the first hundred failures, want %d", n, k.full)
		}
		if n := c.ask(t, transport, 100); n != k.drained {
			t.Errorf("%d retries of the next hundred, want %d", n, k.drained)
		}
		status = 200
		c.ask(t, transport, 10_000)
		time.Sleep(62 * time.Second)
		status = 503
		if n := c.ask(t, transport, 100); n != k.again {
			t.Errorf("%d retries of a hundred failures after 10,000 successes and a minute, want %d", n, k.again)
		}
	})
}

// A retry that ends in a 404 has got an answer: no limit may lose more by it than by a success. gRPC's rule counts
// failures and not retries: the 404 takes nothing, and pays nothing.
func TestRegression_A065_a_404_drains_no_limit(t *testing.T) {
	for _, k := range limitKinds {
		t.Run(k.name, func(t *testing.T) {
			retries := func(final int) (retries int64, level float64) {
				synctest.Test(t, func(t *testing.T) {
					c := newCaller(t, "p", chainbudgettest.Catalog(k.catalog()))
					turn := 0
					transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
						if turn++; turn == 1 {
							return response(req, 503, http.NoBody), nil
						}
						return response(req, final, http.NoBody), nil
					}))
					for range 200 {
						turn = 0
						retries += c.ask(t, transport, 1)
					}
					level = (*engine.Dependency)(c.Dependency("callee", "p")).BudgetLevel()
				})
				return retries, level
			}
			ok, okLevel := retries(200)
			gone, goneLevel := retries(404)
			if k.name == "throttle" {
				// Four failures and the fifth, which is refused: 5 tokens taken, none paid by four answers of 404. What
				// follows is refused and takes the rest.
				if gone != 4 || goneLevel != 0 || ok < gone {
					t.Errorf("%d retries that end in 404, level %v, and %d that end well", gone, goneLevel, ok)
				}
				return
			}
			if ok != gone || okLevel != goneLevel {
				t.Errorf("%d retries that end well leave %v, %d that end in 404 leave %v", ok, okLevel, gone, goneLevel)
			}
			if k.name == "quota" && gone != 200 {
				t.Errorf("%d retries out of a quota of 10, each of which gives its cost back; want 200", gone)
			}
		})
	}
}

func TestRegression_A066_every_refusal_says_which_limit_and_how_long_to_wait(t *testing.T) {
	everyKind(t, func(t *testing.T, k limitKind, c *caller) {
		transport := c.transport(t, answering(503))
		c.ask(t, transport, 300)
		var denied *chainbudget.DeniedError
		for range 20 { // where requests pay, one of ten is retried
			ctx, end := c.endlessChain(context.Background())
			resp, err := get(ctx, transport, "http://callee/")
			end()
			if err != nil {
				t.Fatal(err)
			}
			if denied = budgethttp.Denied(resp); denied.Attempts == 1 {
				break
			}
		}
		if denied.Reason != k.refusal || denied.Attempts != 1 || denied.Status != 503 {
			t.Errorf("denied %+v, want %v after one attempt", denied, k.refusal)
		}
		if denied.RetryAfter <= 0 || denied.RetryAfter > 5*time.Second {
			t.Errorf("suggested wait %v", denied.RetryAfter)
		}
	})
}

// The limit of a profile is one for all dependencies that have it, and the process's is everybody's: there the other
// dependency has another profile, or shares what is left.
func TestRegression_A067_an_empty_limit_is_nobody_elses(t *testing.T) {
	everyKind(t, func(t *testing.T, k limitKind, c *caller) {
		c.ask(t, c.transport(t, answering(503)), 300)
		same := c.ask(t, budgethttp.NewTransport(answering(503), c.Dependency("same", "p")), 1)
		other := c.ask(t, budgethttp.NewTransport(answering(503), c.Dependency("other", "q")), 1)
		want := map[string][2]int64{"minute_of_the_profile": {0, 1}, "minute_of_the_process": {0, 0}}
		w, shared := want[k.name]
		if !shared {
			w = [2]int64{1, 1}
		}
		if same != w[0] || other != w[1] {
			t.Errorf("%d retries of a dependency with the same profile, %d with another; want %d and %d", same, other, w[0], w[1])
		}
	})
}

// What one limit refuses takes nothing of the others.
func TestRegression_A070_a_refusal_by_one_limit_uses_up_no_other(t *testing.T) {
	for name, text := range map[string]string{
		"process":  "chain: {budget: 9, max_budget: 99, process_budget: 1}\nprofiles: {p: {extends: read-heavy, %s}}\n",
		"profile":  "chain: {budget: 9, max_budget: 99}\nprofiles: {p: {extends: read-heavy, process_budget: 1, %s}}\n",
		"profile2": "chain: {budget: 9, max_budget: 99, process_budget: 50}\nprofiles: {p: {extends: read-heavy, process_budget: 1, %s}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			settings := "retry: {max_attempts: 2, attempt_timeout: 0s}, breaker: disabled, availability_floor: 0%, budget: {burst: 10}"
			c := newCaller(t, "p", chainbudgettest.Catalog("version: 1\n"+fmt.Sprintf(text, settings)))
			if n := c.ask(t, c.transport(t, answering(503)), 50); n != 1 {
				t.Errorf("%d retries with a limit of 1 a minute", n)
			}
			if level := (*engine.Dependency)(c.Dependency("callee", "p")).BudgetLevel(); level != 9 {
				t.Errorf("the bucket has %v of 10 after one retry", level)
			}
		})
	}
}

func TestRegression_A073_every_limit_from_a_file_is_full_at_first_and_then_refuses(t *testing.T) {
	t.Setenv("CHAINBUDGET_MODE", "")
	for _, k := range limitKinds {
		t.Run(k.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "catalog.yaml")
			text := strings.ReplaceAll(k.catalog(), "500ms", "1ms") + "dependencies: {callee: {profile: p}}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			sdk, err := chainbudget.New("caller", chainbudget.WithCatalogFile(file), chainbudget.WithStrict())
			if err != nil {
				t.Fatal(err)
			}
			defer sdk.Close()
			dep, err := sdk.Dependency("callee", "p")
			if err != nil {
				t.Fatal(err)
			}
			var retried []int
			for i := range 60 {
				ctx, end := chainbudget.Start(context.Background(), sdk)
				made := 0
				err := chainbudget.Do(ctx, dep, func(context.Context) error {
					made++
					return chainbudget.Retryable(context.DeadlineExceeded)
				}, chainbudget.Idempotent())
				end()
				if made == 2 {
					retried = append(retried, i)
					continue
				}
				if denied, ok := errors.AsType[*chainbudget.DeniedError](err); !ok || denied.Reason != k.refusal {
					t.Errorf("failure %d: %v, want %v", i+1, err, k.refusal)
				}
			}
			if len(retried) == 0 || retried[0] != 0 || len(retried) > 20 {
				t.Errorf("failures %v of 60 were retried: want the first, and few", retried)
			}
		})
	}
}

// Adaptive throttling refuses retries, whose response stays readable, and first attempts, which get an error that says so.
func TestAdaptiveThrottling_hides_nothing(t *testing.T) {
	c := newCaller(t, "p", chainbudgettest.Catalog(`
version: 1
chain: {budget: 9, max_budget: 99}
profiles:
  p: {extends: read-heavy, retry: {max_attempts: 2}, budget: disabled, breaker: disabled, availability_floor: 0%, adaptive_throttle: {k: 2}}
`))
	transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		return response(req, 503, newText("the upstream's own words")), nil
	}))
	first, retry := 0, 0
	for range 2000 {
		ctx, end := c.endlessChain(context.Background())
		resp, err := transport.RoundTrip(request(t, ctx, http.MethodGet, "http://callee/", nil))
		end()
		if err != nil {
			first++
			denied, ok := errors.AsType[*chainbudget.DeniedError](err)
			if !ok || denied.Reason != ownership.ReasonBreakerOpen || denied.Attempts != 0 || denied.RetryAfter <= 0 ||
				!strings.Contains(err.Error(), `adaptive throttling refuses an attempt at dependency "callee", with probability 0.`) {
				t.Fatalf("refused with %v", err)
			}
			continue
		}
		status, body := read(t, resp)
		if status != 503 || body != "the upstream's own words" {
			t.Fatalf("status %d, body %q", status, body)
		}
		if denied := budgethttp.Denied(resp); denied.Attempts == 1 {
			retry++
			if denied.Reason != ownership.ReasonBreakerOpen || denied.Status != 503 || !strings.Contains(denied.Error(), "adaptive throttling") {
				t.Fatalf("denied %v", denied)
			}
		}
	}
	if first < 1900 || retry == 0 {
		t.Errorf("%d first attempts and %d retries were refused of 2000 calls to a dependency that accepts nothing", first, retry)
	}
}
