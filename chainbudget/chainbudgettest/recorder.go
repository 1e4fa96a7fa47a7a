package chainbudgettest

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Recorder is an SDK for one test, with what it decided.
type Recorder struct {
	// SDK is the SDK itself, for adapters.
	SDK *chainbudget.SDK

	t      testing.TB
	mu     sync.Mutex
	events []chainbudget.Event
}

// Option configures [New].
type Option struct {
	apply func(*engine.Config)
	yaml  string
}

// Service names the service; "test" by default.
func Service(name string) Option {
	return Option{apply: func(c *engine.Config) { c.Service = name }}
}

// Catalog is the text of a catalog file to use in place of the embedded one.
func Catalog(yaml string) Option { return Option{yaml: yaml} }

// Mode puts every dependency and the handlers into one mode.
func Mode(m profiles.Mode) Option {
	return Option{apply: func(c *engine.Config) { c.Mode = m }}
}

// Sleep makes backoffs last as long as they do in production: for tests in a synctest bubble.
func Sleep() Option {
	return Option{apply: func(c *engine.Config) { c.NoSleep = false }}
}

// Seed makes every drawn backoff the same from run to run.
func Seed(seed uint64) Option {
	return Option{apply: func(c *engine.Config) {
		var mu sync.Mutex
		r := rand.New(rand.NewPCG(seed, seed))
		c.Random = func(n int64) int64 {
			mu.Lock()
			defer mu.Unlock()
			return r.Int64N(n)
		}
	}}
}

// New returns a Recorder for t. A catalog that does not load fails the test.
func New(t testing.TB, options ...Option) *Recorder {
	t.Helper()
	rec := &Recorder{t: t}
	config := engine.Config{
		Service: "test", Catalog: profiles.Builtin(), Mode: profiles.ModeInherit, NoSleep: true, Strict: true,
		Observe: func(e *engine.Event) { rec.record(chainbudget.Event(*e)) },
	}
	for _, o := range options {
		if o.yaml != "" {
			config.Catalog = load(t, o.yaml)
		}
		if o.apply != nil {
			o.apply(&config)
		}
	}
	sdk := new(engine.SDK)
	sdk.Init(config)
	rec.SDK = (*chainbudget.SDK)(sdk)
	return rec
}

func load(t testing.TB, yaml string) *profiles.Catalog {
	t.Helper()
	catalog, err := profiles.Load([]byte(yaml), "catalog of "+t.Name())
	if err != nil {
		t.Fatalf("%v", err)
	}
	return catalog
}

// Swap puts the text of another catalog file in force, as a changed file does in production: requests under way keep the
// catalog that they began with. A catalog that is not valid, or has no profile for a dependency in use, fails the test.
func (r *Recorder) Swap(yaml string) {
	r.t.Helper()
	if err := (*engine.SDK)(r.SDK).Swap(load(r.t, yaml)); err != nil {
		r.t.Fatalf("%v", err)
	}
}

// Dependency is SDK.Dependency for tests: an error fails the test.
func (r *Recorder) Dependency(name string, profile profiles.Name) *chainbudget.Dependency {
	r.t.Helper()
	d, err := r.SDK.Dependency(name, profile)
	if err != nil {
		r.t.Fatalf("%v", err)
	}
	return d
}

func (r *Recorder) record(e chainbudget.Event) {
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
}

// Events returns the decisions so far, in the order in which they became final. The slice is the caller's own.
func (r *Recorder) Events() []chainbudget.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]chainbudget.Event(nil), r.events...)
}

// Reasons returns the reasons of [Recorder.Events].
func (r *Recorder) Reasons() []ownership.Reason {
	events := r.Events()
	reasons := make([]ownership.Reason, len(events))
	for i, e := range events {
		reasons[i] = e.Reason
	}
	return reasons
}
