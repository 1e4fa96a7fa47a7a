package engine

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// span keeps its events, each as its name and attributes.
type span struct {
	noop.Span
	mu     sync.Mutex
	events []string
}

func (*span) IsRecording() bool { return true }

func (s *span) AddEvent(name string, options ...trace.EventOption) {
	config := trace.NewEventConfig(options...)
	set := attribute.NewSet(config.Attributes()...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, name+" "+set.Encoded(attribute.DefaultEncoder()))
}

// turned returns which changes of the breaker the span tells.
func (s *span) turned() (list []string) {
	for _, e := range s.events {
		if attributes, ok := strings.CutPrefix(e, otelprop.EventBreaker+" "); ok {
			list = append(list, attributes)
		}
	}
	return list
}

const touchy = `  touchy: {extends: plain, retry: {max_attempts: 3}, breaker: {min_requests: 1, failure_ratio: 1%, open_for: 1s, probes: 1}}
`

// watch begins a call with a span around it.
func (r *rig) watch(s *span) {
	r.ctx = trace.ContextWithSpan(r.in.Context(context.Background()), s)
	r.begin(can)
}

// answered is a failure whose answer brought tokens back.
func answered(returned uint8, claim ownership.Claim, owner string) Result {
	return Result{Failed: true, Retryable: true, Status: 503, HasReturn: true, Return: otelprop.Return{Returned: returned, Claim: claim, Owner: owner}}
}

func TestSpan_tells_the_decision(t *testing.T) {
	r := newRig(t, "", "plain", 3, can)
	s := new(span)
	r.watch(s)
	r.fail(answered(3, ownership.ClaimClaimed, "ledger"))
	require.True(t, r.call.Decide(time.Now()))
	r.fail(answered(2, ownership.ClaimUnclaimed, "ledger"))
	require.False(t, r.call.Decide(time.Now()))
	assert.Equal(t, []string{
		"chainbudget.retry chainbudget.attempt=1,chainbudget.claim=claimed,chainbudget.delay_ms=500,chainbudget.dependency=payments,chainbudget.entry=edge," +
			"chainbudget.hedge=false,chainbudget.hop=1,chainbudget.owner=ledger,chainbudget.profile=plain,chainbudget.reason=allowed,chainbudget.tokens=2",
		"chainbudget.denied chainbudget.attempt=2,chainbudget.claim=unclaimed,chainbudget.delay_ms=0,chainbudget.dependency=payments,chainbudget.entry=edge," +
			"chainbudget.hedge=false,chainbudget.hop=1,chainbudget.owner=ledger,chainbudget.profile=plain,chainbudget.reason=unclaimed,chainbudget.tokens=2",
	}, s.events)
}

func TestSpan_tells_what_a_milder_mode_let_through(t *testing.T) {
	r := newRig(t, "dependencies: {payments: {mode: budget}}\n", "plain", 3, can)
	s := new(span)
	r.watch(s)
	r.fail(answered(3, ownership.ClaimStop, "ledger"))
	require.True(t, r.call.Decide(time.Now()))
	r.fail(rejection)
	require.Len(t, s.events, 1)
	assert.Contains(t, s.events[0], "chainbudget.would_deny=stop")
}

// Each change of the breaker is told once, by the call that caused it.
func TestSpan_tells_changes_of_the_breaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, touchy, "touchy", 3, can)
		first, second, third := new(span), new(span), new(span)
		r.watch(first)
		r.fail(rejection)
		require.Equal(t, breaker.Open, r.dep.Policy().breaker.State())
		time.Sleep(2 * time.Second)
		r.watch(second)
		r.fail(Result{Status: 200})
		r.watch(third)
		r.fail(Result{Status: 200})
		assert.Equal(t, []string{"chainbudget.age_ms=0,chainbudget.dependency=payments,chainbudget.state=open,chainbudget.state_before=closed"}, first.turned())
		assert.Equal(t, []string{
			"chainbudget.age_ms=0,chainbudget.dependency=payments,chainbudget.state=half_open,chainbudget.state_before=open",
			"chainbudget.age_ms=0,chainbudget.dependency=payments,chainbudget.state=closed,chainbudget.state_before=half_open",
		}, second.turned())
		assert.Empty(t, third.turned())
	})
}

// A change that its own call had no span for is told by the next call that has one, as long as it is news.
func TestSpan_tells_changes_that_others_caused(t *testing.T) {
	for wait, want := range map[time.Duration][]string{
		500 * time.Millisecond: {"chainbudget.age_ms=500,chainbudget.dependency=payments,chainbudget.state=open,chainbudget.state_before=closed"},
		turnsFor:               {"chainbudget.age_ms=10000,chainbudget.dependency=payments,chainbudget.state=open,chainbudget.state_before=closed"},
		turnsFor + 1:           nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, touchy, "touchy", 3, can)
			r.fail(rejection)
			time.Sleep(wait)
			s := new(span)
			r.watch(s)
			r.dep.tell(r.ctx, time.Now())
			assert.Equal(t, want, s.turned())
			assert.Nil(t, r.dep.turns.untold.Load())
		})
	}
}

// Where nobody records, nothing piles up, and what is old is forgotten.
func TestSpan_forgets_changes_that_nobody_records(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, touchy, "touchy", 3, can)
		for range 20 {
			r.dep.turns.note("payments", breaker.Closed, breaker.Open)
		}
		assert.Len(t, *r.dep.turns.untold.Load(), maxTurns)
		r.dep.tell(r.ctx, time.Now())
		assert.NotNil(t, r.dep.turns.untold.Load(), "another call's span may record")
		time.Sleep(turnsFor + 1)
		r.dep.tell(r.ctx, time.Now())
		assert.Nil(t, r.dep.turns.untold.Load())
		assert.Zero(t, testing.AllocsPerRun(100, func() { r.dep.tell(r.ctx, time.Now()) }))
	})
}

// Many calls find the same changes: each is told once.
func TestSpan_tells_each_change_once(t *testing.T) {
	r := newRig(t, touchy, "touchy", 3, can)
	s := new(span)
	ctx := trace.ContextWithSpan(r.ctx, s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				r.dep.turns.note("payments", breaker.Closed, breaker.Open)
				r.dep.tell(ctx, time.Now())
			}
		})
	}
	wg.Wait()
	r.dep.tell(ctx, time.Now())
	assert.Len(t, s.turned(), 800)
}

// names keeps what its events say of dependencies, to the byte.
type names struct {
	noop.Span
	dependencies []string
}

func (*names) IsRecording() bool { return true }

func (n *names) AddEvent(_ string, options ...trace.EventOption) {
	config := trace.NewEventConfig(options...)
	for _, a := range config.Attributes() {
		if a.Key == otelprop.AttrDependency {
			n.dependencies = append(n.dependencies, a.Value.AsString())
		}
	}
}

// What is no UTF-8 once made an exporter refuse all the spans that it had.
func TestRegression_what_is_no_UTF8_in_names_is_replaced_in_spans(t *testing.T) {
	s := new(SDK)
	s.Init(Config{Service: "checkout", Catalog: profiles.Builtin()})
	d, _, err := s.Dependency("led\xffger", profiles.ReadHeavy)
	require.NoError(t, err)
	d.turned("", breaker.Closed, breaker.Open)
	var span names
	ctx := trace.ContextWithSpan(context.Background(), &span)
	d.tell(ctx, time.Now())
	var c Call
	in, policy := d.Enter(ctx)
	c.Begin(ctx, in, policy, CallOptions{})
	c.Refuse(ownership.ReasonBreakerOpen, nil)
	assert.Equal(t, []string{"led\uFFFDger", "led\uFFFDger"}, span.dependencies)
}
