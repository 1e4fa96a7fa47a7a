package ownership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
)

type trackerContext struct {
	context.Context
	t *Tracker
}

func (c trackerContext) Value(key any) any {
	if _, ok := key.(ctxkey.Tracker); ok {
		return c.t
	}
	return c.Context.Value(key)
}

func tracked() (*Tracker, context.Context) {
	t := new(Tracker)
	return t, trackerContext{context.Background(), t}
}

func failure(dependency, owner string, claim Claim) *DeniedError {
	return &DeniedError{Dependency: dependency, Owner: owner, Claim: claim, Reason: ReasonMaxAttempts, Attempts: 1}
}

func TestVerdict(t *testing.T) {
	ledger := failure("payments", "ledger", ClaimUnclaimed)
	users := failure("users", "users", ClaimClaimed)
	stop := failure("search", "index", ClaimStop)
	open := failure("ads", "ads", ClaimStop)
	open.FailOpen = true
	cases := []struct {
		name       string
		failed     []*DeniedError
		say        func(context.Context)
		effects    bool
		idempotent bool
		claim      Claim
		owner      string
	}{
		{name: "none_failed", claim: ClaimClaimed, owner: "me"},
		{name: "retried_here", failed: []*DeniedError{ledger}, claim: ClaimUnclaimed, owner: "ledger"},
		{name: "passes_up", failed: []*DeniedError{users}, claim: ClaimClaimed, owner: "users"},
		{name: "stop", failed: []*DeniedError{users, stop, ledger}, claim: ClaimStop, owner: "index"},
		{name: "several_unclaimed_before_claimed", failed: []*DeniedError{users, ledger}, claim: ClaimUnclaimed, owner: "ledger"},
		{name: "fail_open_causes_nothing", failed: []*DeniedError{open}, claim: ClaimClaimed, owner: "me"},
		{name: "fail_open_beside_a_cause", failed: []*DeniedError{open, users}, claim: ClaimClaimed, owner: "users"},
		{name: "exact_picks_the_cause", failed: []*DeniedError{ledger, users}, claim: ClaimClaimed, owner: "users",
			say: func(ctx context.Context) { Blame(ctx, fmt.Errorf("load user: %w", users)) }},
		{name: "exact_beats_declared", failed: []*DeniedError{open}, claim: ClaimStop, owner: "ads",
			say: func(ctx context.Context) { Blame(ctx, open) }},
		{name: "exact_own", failed: []*DeniedError{ledger}, claim: ClaimClaimed, owner: "me",
			say: func(ctx context.Context) { Blame(ctx, errors.New("my own bug")) }},
		{name: "own", failed: []*DeniedError{ledger}, claim: ClaimClaimed, owner: "me", say: Own},
		{name: "own_takes_blame_back", failed: []*DeniedError{ledger}, claim: ClaimClaimed, owner: "me",
			say: func(ctx context.Context) { Blame(ctx, ledger); Own(ctx) }},
		{name: "joined_errors_are_all_causes", failed: []*DeniedError{ledger, users, stop}, claim: ClaimUnclaimed, owner: "ledger",
			say: func(ctx context.Context) { Blame(ctx, errors.Join(users, fmt.Errorf("x: %w", ledger))) }},
		{name: "blame_adds_up", failed: []*DeniedError{ledger, users}, claim: ClaimUnclaimed, owner: "ledger",
			say: func(ctx context.Context) { Blame(ctx, users); Blame(ctx, ledger) }},
		{name: "another_requests_failure_is_named", claim: ClaimUnclaimed, owner: "ledger",
			say: func(ctx context.Context) { Blame(ctx, ledger) }},
		{name: "overloaded", failed: []*DeniedError{users}, claim: ClaimStop, owner: "me", say: Overloaded},
		{name: "effects_own", effects: true, claim: ClaimUnclaimed, owner: "me"},
		{name: "effects_pass_nothing_up", failed: []*DeniedError{users}, effects: true, claim: ClaimUnclaimed, owner: "users"},
		{name: "effects_keep_stop", failed: []*DeniedError{stop}, effects: true, claim: ClaimStop, owner: "index"},
		{name: "effects_of_an_idempotent_operation", effects: true, idempotent: true, claim: ClaimClaimed, owner: "me"},
		{name: "blame_nil_says_nothing", failed: []*DeniedError{ledger}, claim: ClaimUnclaimed, owner: "ledger",
			say: func(ctx context.Context) { Blame(ctx, nil) }},
		{name: "blame_typed_nil", failed: []*DeniedError{ledger}, claim: ClaimClaimed, owner: "me",
			say: func(ctx context.Context) { Blame(ctx, (*DeniedError)(nil)) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			tr, ctx := tracked()
			for _, f := range c.failed {
				tr.Failed(f)
			}
			if c.effects {
				tr.Effects.Store(true)
			}
			if c.say != nil {
				c.say(ctx)
			}
			v := tr.Verdict(true, "me", c.idempotent, nil)
			assert.Equal(t, c.claim, v.Claim, v.Why)
			assert.Equal(t, c.owner, v.Owner, v.Why)
			assert.NotEmpty(t, v.Why)
		})
	}
}

func TestVerdict_of_a_success(t *testing.T) {
	tr, _ := tracked()
	tr.Failed(failure("ads", "ads", ClaimStop))
	assert.Equal(t, Verdict{Claim: ClaimNone, Why: "no failure"}, tr.Verdict(false, "me", false, nil))
	tr.Effects.Store(true)
	assert.True(t, tr.Verdict(false, "me", true, nil).Effects, "told on success too")
}

func TestTracker_is_bounded_and_keeps_the_most_restrictive(t *testing.T) {
	tr, _ := tracked()
	for range MaxFailures * 3 {
		tr.Failed(failure("users", "users", ClaimClaimed))
	}
	tr.Failed(failure("search", "index", ClaimStop))
	failed, _, _ := tr.Failures()
	assert.Len(t, failed, MaxFailures)
	assert.Equal(t, ClaimStop, tr.Verdict(true, "me", false, nil).Claim)
}

func TestTracker_failures(t *testing.T) {
	tr, ctx := tracked()
	failed, causes, exact := tr.Failures()
	assert.Empty(t, failed)
	assert.Empty(t, causes)
	assert.False(t, exact)
	users, ads := failure("users", "users", ClaimClaimed), failure("ads", "ads", ClaimClaimed)
	tr.Failed(users)
	tr.Failed(ads)
	Blame(ctx, users)
	failed, causes, exact = tr.Failures()
	assert.Equal(t, []*DeniedError{users, ads}, failed)
	assert.Equal(t, []*DeniedError{users}, causes)
	assert.True(t, exact)
	assert.Zero(t, testing.AllocsPerRun(100, func() { tr.Failures() }))
}

// learned answers as if two edges were known.
func learned(f *DeniedError) (bool, string) {
	return f.Dependency != "ads", "learned: " + f.Dependency
}

func TestVerdict_order(t *testing.T) {
	ads, users := failure("ads", "ads", ClaimStop), failure("users", "users", ClaimUnclaimed)
	tr, ctx := tracked()
	tr.Failed(ads)
	v := tr.Verdict(true, "me", false, learned)
	assert.Equal(t, ClaimClaimed, v.Claim, "learned fail-open: our own")
	assert.Equal(t, "me", v.Owner)
	assert.Equal(t, "learned: ads", v.Why)
	tr.Failed(users)
	v = tr.Verdict(true, "me", false, learned)
	assert.Equal(t, ClaimUnclaimed, v.Claim)
	assert.Equal(t, "learned: users", v.Why)
	closed := failure("ads", "ads", ClaimStop)
	closed.FailClosed = true
	tr.Failed(closed)
	v = tr.Verdict(true, "me", false, learned)
	assert.Equal(t, ClaimStop, v.Claim, "declared beats learned")
	Own(ctx)
	v = tr.Verdict(true, "me", false, learned)
	assert.Equal(t, "me", v.Owner, "exact beats declared")
}

func TestTracker_concurrent(t *testing.T) {
	tr, ctx := tracked()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				f := failure("users", "users", ClaimClaimed)
				tr.Failed(f)
				tr.Effects.Store(true)
				Blame(ctx, f)
				tr.Verdict(true, "me", false, nil)
				tr.Failures()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, ClaimUnclaimed, tr.Verdict(true, "me", false, nil).Claim)
}

func TestBlame_outside_a_request(t *testing.T) {
	Blame(context.Background(), errors.New("x"))
	Own(context.Background())
	Overloaded(context.Background())
}

// cyclic wraps itself: a broken error must not hang the walk.
type cyclic struct{}

func (cyclic) Error() string   { return "cyclic" }
func (c cyclic) Unwrap() error { return c }

func TestBlame_survives_a_cycle(t *testing.T) {
	tr, ctx := tracked()
	Blame(ctx, cyclic{})
	assert.Equal(t, "me", tr.Verdict(true, "me", false, nil).Owner)
}

func TestReason_words(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Reasons() {
		assert.NotContains(t, []string{"", "invalid"}, r.String())
		assert.False(t, seen[r.String()], r)
		seen[r.String()] = true
	}
	assert.Len(t, seen, 18)
	assert.Equal(t, "invalid", Reason(200).String())
	assert.Equal(t, "invalid", Claim(200).String())
	inability := []Reason{ReasonAllowed, ReasonCanceled, ReasonSettled, ReasonNoPolicy, ReasonNotReplayable, ReasonChainExhausted, ReasonDeadline}
	for _, r := range Reasons() {
		assert.Equal(t, !contains(inability, r), r.Protects(), r)
	}
}

func contains(list []Reason, r Reason) bool {
	for _, x := range list {
		if x == r {
			return true
		}
	}
	return false
}
