package chainbudget_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// switched is a service with two dependencies behind one server that asks for a long pause before a retry.
type switched struct {
	*follower
	client map[string]*http.Client
	url    string
	pause  atomic.Value // of the answers' Retry-After; "" = none

	mu     sync.Mutex
	events []chainbudget.Event
}

const (
	switchedCalls = 4 // to each dependency, which wait at the same time
	longPause     = "19"
)

// switchedCatalog has a bucket that is full again only by what is given back.
func switchedCatalog(overrides string) string {
	return "version: 1\nprofiles: {patient: {extends: read-heavy, retry: {max_attempts: 3}, backoff: {base: 1ms, throttled_base: 1ms, cap: 20s}, " +
		fmt.Sprintf("budget: {burst: %d}, breaker: disabled, availability_floor: 0%%}}\n", switchedCalls) +
		"dependencies: {payments: {profile: patient, external: true}, stock: {profile: patient, external: true}}\n" + overrides
}

func newSwitched(t *testing.T) *switched {
	t.Helper()
	s := &switched{client: map[string]*http.Client{}}
	s.pause.Store(longPause)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if pause := s.pause.Load().(string); pause != "" {
			w.Header().Set("Retry-After", pause)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	s.follower = following(t, file(t, switchedCatalog("")), chainbudget.WithObserver(func(e chainbudget.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, e)
	}))
	require.NoError(t, s.err)
	base := &http.Transport{MaxIdleConnsPerHost: 4 * switchedCalls}
	t.Cleanup(base.CloseIdleConnections)
	for _, name := range []string{"payments", "stock"} {
		dep, err := s.Dependency(name, "patient")
		require.NoError(t, err)
		s.client[name] = &http.Client{Transport: budgethttp.NewTransport(base, dep)}
	}
	return s
}

// seen returns the decisions since it was last asked.
func (s *switched) seen() []chainbudget.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.events
	s.events = nil
	return events
}

// answer is how one call ended.
type answer struct {
	dependency string
	at         time.Time
	reason     ownership.Reason
	left       int // tokens of its chain
}

// call makes one call in a chain of its own.
func (s *switched) call(name string) answer {
	ctx, end := chainbudget.Start(context.Background(), s.SDK)
	defer end()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if !assert.NoError(s.t, err) {
		return answer{}
	}
	resp, err := s.client[name].Do(req)
	at := time.Now()
	var denied *chainbudget.DeniedError
	if !errors.As(err, &denied) {
		if !assert.NoError(s.t, err) {
			return answer{}
		}
		defer resp.Body.Close()
		if denied = budgethttp.Denied(resp); !assert.NotNil(s.t, denied) {
			return answer{}
		}
	}
	return answer{name, at, denied.Reason, chainbudget.Keep(ctx, 99)}
}

// wait makes calls that end up waiting for their retry.
func (s *switched) wait(name string, answers chan<- answer) {
	s.t.Helper()
	failed := func() (n int64) {
		for _, count := range s.Totals().Dependencies[name].Claims {
			n += count
		}
		return n
	}
	before := failed()
	for range switchedCalls {
		go func() { answers <- s.call(name) }()
	}
	require.Eventually(s.t, func() bool { return failed() == before+switchedCalls }, patient, time.Millisecond)
}

// ended takes the answers of one dependency, and returns how long after the change the last one came.
func (s *switched) ended(name string, answers <-chan answer, since time.Time) (slowest time.Duration) {
	s.t.Helper()
	for range switchedCalls {
		select {
		case a := <-answers:
			assert.Equal(s.t, name, a.dependency)
			assert.Equal(s.t, ownership.ReasonDisabled, a.reason)
			assert.Equal(s.t, 3, a.left, "the token came back")
			slowest = max(slowest, a.at.Sub(since))
		case <-time.After(patient):
			s.t.Fatal("a call still waits")
		}
	}
	return slowest
}

// TestReload_the_switch_stops_calls_that_wait: `retries: disabled`, written into the file, ends the backoff of calls under way
// within a second, for one dependency and for all, until it is written out of it again.
func TestReload_the_switch_stops_calls_that_wait(t *testing.T) {
	s := newSwitched(t)
	best := map[string]time.Duration{"payments": time.Hour, "stock": time.Hour}
	for round := 0; round < 5 && (best["payments"] >= time.Second || best["stock"] >= time.Second); round++ { // the machine may have other work
		s.seen()
		payments, stock := make(chan answer, switchedCalls), make(chan answer, switchedCalls)
		s.wait("payments", payments)
		s.wait("stock", stock)

		begin := time.Now()
		put(t, s.path, switchedCatalog("overrides: {dependencies: {payments: {retries: disabled}}}\n"))
		best["payments"] = min(best["payments"], s.ended("payments", payments, begin))
		assert.Empty(t, stock, "the others wait")
		begin = time.Now()
		put(t, s.path, switchedCatalog("overrides: {retries: disabled}\n"))
		best["stock"] = min(best["stock"], s.ended("stock", stock, begin))

		for name, totals := range s.Totals().Dependencies {
			assert.Equal(t, int64((round+1)*switchedCalls), totals.Denied["disabled"], name)
		}
		events := s.seen()
		assert.Len(t, events, 2*switchedCalls)
		for _, e := range events {
			assert.Equal(t, ownership.ReasonDisabled, e.Reason)
			assert.Equal(t, 1, e.Attempt)
			assert.Equal(t, 3, e.After)
		}
		generation := s.Catalog().Generation
		put(t, s.path, switchedCatalog(""))
		s.generation(generation + 1)
	}
	t.Logf("in force after %v", best)
	assert.Less(t, best["payments"], time.Second, "one dependency")
	assert.Less(t, best["stock"], time.Second, "all")

	// Without the switch it retries again, with as many tokens in the dependency's bucket as if it had never tried.
	s.pause.Store("")
	before := s.Totals().Dependencies["payments"].Retries
	assert.Zero(t, before)
	for range switchedCalls / 2 {
		s.call("payments")
	}
	assert.EqualValues(t, switchedCalls, s.Totals().Dependencies["payments"].Retries)
	for _, e := range s.seen() {
		assert.NotEqual(t, ownership.ReasonDisabled, e.Reason)
	}
}
