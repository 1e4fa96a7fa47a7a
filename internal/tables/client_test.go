package tables

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// A client is one process with one dependency, for tables about a single hop. Each call is a chain of its own whose purse
// has more tokens than the profile has attempts, so that only the profile's own gates count.
type client struct {
	t      testing.TB
	dep    *chainbudget.Dependency
	random *rand.Rand // of what happens to attempts; the SDK draws from another
}

// gatesOff is what a profile says in whose table the breaker and the floor have no part.
const gatesOff = "breaker: disabled, availability_floor: 0%"

// newClient makes a client whose profile is written as the inside of a YAML mapping.
func newClient(t testing.TB, profile string, seed uint64, change func(*engine.Config)) *client {
	t.Helper()
	catalog, err := profiles.Load(fmt.Appendf(nil, "version: 1\nchain: {budget: 99, orphan_budget: 99, max_budget: 99}\nprofiles:\n  row: {%s}\n", profile), "row")
	if err != nil {
		t.Fatal(err)
	}
	config := engine.Config{
		Service: "client", Catalog: catalog, NoSleep: true, Strict: true,
		Random: rand.New(rand.NewPCG(seed, 1)).Int64N, // calls come one after the other
	}
	if change != nil {
		change(&config)
	}
	sdk := new(engine.SDK)
	sdk.Init(config)
	dep, err := (*chainbudget.SDK)(sdk).Dependency("callee", "row")
	if err != nil {
		t.Fatal(err)
	}
	return &client{t: t, dep: dep, random: rand.New(rand.NewPCG(seed, 2))}
}

// level is what the dependency's bucket holds.
func (c *client) level() float64 { return (*engine.Dependency)(c.dep).BudgetLevel() }

// totals are the dependency's numbers.
func (c *client) totals() chainbudget.DependencyTotals {
	return (*chainbudget.SDK)((*engine.Dependency)(c.dep).SDK()).Totals().Dependencies["callee"]
}

// errFault is a failure that may go away.
var errFault = chainbudget.Retryable(errOwn)

// A sample is what became of many requests.
type sample struct {
	requests, attempts, good int
	failedFirst              int // whose first attempt failed
	denied                   int // that the dependency's budget refused a retry, and that had attempts left
}

func (s *sample) add(o sample) {
	s.requests += o.requests
	s.attempts += o.attempts
	s.good += o.good
	s.failedFirst += o.failedFirst
	s.denied += o.denied
}

func (s sample) success() float64 { return float64(s.good) / float64(s.requests) }
func (s sample) load() float64    { return float64(s.attempts) / float64(s.requests) }

// ask makes n requests whose attempts fail each on their own with p. Denied counts where attempts of maxAttempts were left.
func (c *client) ask(n int, p float64, maxAttempts int) (s sample) {
	made := 0
	attempt := func(context.Context) error {
		made++
		if c.random.Float64() < p {
			return errFault
		}
		return nil
	}
	s.requests = n
	idempotent := chainbudget.Idempotent()
	for range n {
		made = 0
		err := chainbudget.Do(context.Background(), c.dep, attempt, idempotent)
		s.attempts += made
		if err == nil {
			s.good++
		}
		if err != nil || made > 1 {
			s.failedFirst++
		}
		if err != nil && made < maxAttempts {
			s.denied++
		}
	}
	return s
}

// inShards runs f on all processors at once, and adds up what it returns.
func inShards(t *testing.T, name string, f func(t *testing.T, shard uint64) sample) (sum sample) {
	t.Helper()
	const shards = 2 // each begins with a full bucket: more of them would be another experiment
	var mu sync.Mutex
	t.Run(name, func(t *testing.T) {
		for shard := range uint64(shards) {
			t.Run(fmt.Sprintf("shard_%d", shard), func(t *testing.T) {
				t.Parallel()
				s := f(t, shard)
				mu.Lock()
				defer mu.Unlock()
				sum.add(s)
			})
		}
	})
	return sum
}

// An answer is what a server says to one attempt: a status, and an x-amz-retry-after if it is not empty.
type answer struct {
	status int
	hint   string
}

// script sends a GET whose attempts get the answers, one after the other, through the client's transport. It returns the
// level of the bucket after each answer was dealt with, and why there was no further attempt (nil after a success).
func (c *client) script(answers ...answer) (levels []float64, denied *chainbudget.DeniedError) {
	c.t.Helper()
	turn := 0
	server := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if turn > 0 {
			levels = append(levels, c.level())
		}
		if turn >= len(answers) {
			c.t.Errorf("attempt %d, where %d answers are the whole vector", turn+1, len(answers))
			w.WriteHeader(http.StatusOK)
			return
		}
		a := answers[turn]
		turn++
		if a.hint != "" {
			w.Header().Set("X-Amz-Retry-After", a.hint)
		}
		w.WriteHeader(a.status)
	})
	ctx, end := chainbudget.Start(context.Background(), (*chainbudget.SDK)((*engine.Dependency)(c.dep).SDK()))
	defer end()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://callee.example.com/", nil) // outside: nothing is lent
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := budgethttp.NewTransport(pipe{server}, c.dep).RoundTrip(req)
	if err != nil {
		c.t.Fatal(err)
	}
	if turn != len(answers) {
		c.t.Errorf("%d attempts for the answers %v", turn, answers)
	}
	return append(levels, c.level()), budgethttp.Denied(resp)
}

// largest pins every draw of jitter to its largest value: factor 1.
func largest(n int64) int64 { return n - 1 }

// delays collects the backoff of every retry.
type delays struct{ drawn []time.Duration }

func (d *delays) observe(e *engine.Event) {
	if e.Delay > 0 {
		d.drawn = append(d.drawn, e.Delay)
	}
}

func (d *delays) millis() (list []int) {
	for _, v := range d.drawn {
		list = append(list, int(v.Milliseconds()))
	}
	return list
}
