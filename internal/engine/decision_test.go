package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// rig is one hop with one call that has failed once.
type rig struct {
	sdk  *SDK
	in   *Inbound
	dep  *Dependency
	call *Call
	ctx  context.Context

	cancel context.CancelFunc
}

// limit gives the call a deadline.
func (r *rig) limit(d time.Duration) { r.call.parent, r.cancel = context.WithTimeout(r.ctx, d) }

const rigCatalog = `
version: 1
profiles:
  plain:
    extends: read-heavy
    retry: {max_attempts: 3}
    backoff: {base: 1s, throttled_base: 1s, cap: 4s}
    budget: {ratio: 10%, burst: 10}
    breaker: {min_requests: 1000}
    availability_floor: 0%
  single: {extends: plain, retry: {max_attempts: 1}}
  strict: {extends: plain, retry: {missing: stop}}
  floored: {extends: plain, availability_floor: 60%}
  tripping: {extends: plain, breaker: {min_requests: 1, failure_ratio: 1%}}
`

func newRig(t *testing.T, yaml string, profile profiles.Name, tokens int, o CallOptions) *rig {
	t.Helper()
	catalog, err := profiles.Load([]byte(rigCatalog+yaml), "rig")
	require.NoError(t, err)
	r := &rig{sdk: new(SDK)}
	r.sdk.Init(Config{Service: "checkout", Catalog: catalog, Random: func(n int64) int64 { return n / 2 }})
	r.in = new(Inbound)
	r.sdk.Arrive(r.in, Arrival{Wire: otelprop.Request{State: otelprop.Valid, Grant: uint8(tokens), Limit: uint8(tokens),
		Hop: 1, Nonce: 7, Entry: "edge", Direct: true}})
	r.dep, _, err = r.sdk.Dependency("payments", profile)
	require.NoError(t, err)
	r.ctx = r.in.Context(context.Background())
	r.begin(o)
	return r
}

func (r *rig) begin(o CallOptions) {
	r.call = new(Call)
	begin(r.call, r.ctx, r.dep, o)
}

func begin(c *Call, ctx context.Context, dep *Dependency, o CallOptions) {
	in, p := dep.Enter(ctx)
	c.Begin(ctx, in, p, o)
}

// fail makes one attempt that comes to result.
func (r *rig) fail(result Result) {
	r.call.Admit(time.Now())
	r.call.Lend(0)
	r.call.Result = result
	r.call.Result.Judge(r.dep)
	r.call.Done(time.Now())
}

// again is one attempt and the decision after it, with the backoff slept.
func (r *rig) again(result Result) ownership.Reason {
	r.fail(result)
	if r.call.Decide(time.Now()) && r.call.Await() {
		r.call.Backoff()
	}
	return r.call.Decision().Reason
}

func claimed(claim ownership.Claim, owner string, tokens int) Result {
	return Result{
		Status: 503, Failed: true, Retryable: true, HasReturn: true,
		Return: otelprop.Return{Claim: claim, Owner: owner, Returned: uint8(tokens)},
	}
}

var can = CallOptions{Idempotent: true, Replayable: true}

// TestDecision_each_gate_refuses has each gate once as the only refuser, and what the hop then tells its caller.
func TestDecision_each_gate_refuses(t *testing.T) {
	ok := claimed(ownership.ClaimClaimed, "ledger", 99)
	cases := []struct {
		reason  ownership.Reason
		claim   ownership.Claim
		yaml    string
		profile profiles.Name
		tokens  int
		options CallOptions
		result  Result
		prepare func(*rig)
	}{
		{reason: ownership.ReasonAllowed, claim: ownership.ClaimClaimed},
		{reason: ownership.ReasonDisabled, claim: ownership.ClaimUnclaimed, yaml: "overrides: {dependencies: {payments: {retries: disabled}}}\ndependencies: {payments: {profile: plain}}\n"},
		{reason: ownership.ReasonCanceled, claim: ownership.ClaimClaimed, prepare: func(r *rig) {
			ctx, cancel := context.WithCancel(r.ctx)
			cancel()
			r.call.parent = ctx
		}},
		{reason: ownership.ReasonSettled, claim: ownership.ClaimClaimed, prepare: func(r *rig) { r.in.Return(ownership.Verdict{}) }},
		{reason: ownership.ReasonNotRetryable, claim: ownership.ClaimUnclaimed, result: func() Result { r := ok; r.Retryable = false; return r }()},
		{reason: ownership.ReasonStop, claim: ownership.ClaimStop, result: claimed(ownership.ClaimStop, "ledger", 3)},
		{reason: ownership.ReasonStop, claim: ownership.ClaimUnclaimed, profile: "strict", result: Result{Status: 503, Failed: true, Retryable: true}},
		{reason: ownership.ReasonUnclaimed, claim: ownership.ClaimUnclaimed, result: claimed(ownership.ClaimUnclaimed, "ledger", 3)},
		{reason: ownership.ReasonPushback, claim: ownership.ClaimUnclaimed, result: func() Result { r := ok; r.Pushback = true; return r }()},
		{reason: ownership.ReasonPushback, claim: ownership.ClaimUnclaimed, result: func() Result { r := ok; r.HasHint, r.Hint = true, 4*time.Second+1; return r }()},
		{reason: ownership.ReasonNotIdempotent, claim: ownership.ClaimUnclaimed, options: CallOptions{Replayable: true}},
		{reason: ownership.ReasonBreakerOpen, claim: ownership.ClaimUnclaimed, profile: "tripping"},
		{reason: ownership.ReasonAvailabilityFloor, claim: ownership.ClaimUnclaimed, profile: "floored", prepare: func(r *rig) {
			for range floorSamples {
				r.dep.floor.add(time.Now(), false)
			}
		}},
		{reason: ownership.ReasonDependencyBudget, claim: ownership.ClaimUnclaimed, prepare: func(r *rig) { r.dep.Policy().bucket.level.Store(999) }},
		{reason: ownership.ReasonProcessBudget, claim: ownership.ClaimUnclaimed, yaml: "chain: {process_budget: 1}\n", prepare: func(r *rig) { r.sdk.process.take() }},
		{reason: ownership.ReasonMaxAttempts, claim: ownership.ClaimUnclaimed, prepare: func(r *rig) { r.call.attempts = 2 }},
		{reason: ownership.ReasonNoPolicy, claim: ownership.ClaimClaimed, profile: "single"},
		{reason: ownership.ReasonNotReplayable, claim: ownership.ClaimClaimed, options: CallOptions{Idempotent: true}},
		{reason: ownership.ReasonChainExhausted, claim: ownership.ClaimClaimed, tokens: -1},
		{reason: ownership.ReasonDeadline, claim: ownership.ClaimClaimed, prepare: func(r *rig) {
			r.limit(499 * time.Millisecond)
		}},
		{reason: ownership.ReasonAllowed, claim: ownership.ClaimClaimed, prepare: func(r *rig) {
			r.limit(501 * time.Millisecond)
		}},
	}
	for _, c := range cases {
		t.Run(c.reason.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				profile, options, result, tokens := c.profile, c.options, c.result, c.tokens
				if profile == "" {
					profile = "plain"
				}
				if options == (CallOptions{}) {
					options = can
				}
				if !result.Failed {
					result = ok
				}
				switch tokens {
				case 0:
					tokens = 3
				case -1:
					tokens = 0
				}
				r := newRig(t, c.yaml, profile, tokens, options)
				if c.prepare != nil {
					c.prepare(r)
				}
				r.fail(result)
				r.call.Decide(time.Now())
				require.Equal(t, c.reason, r.call.Decision().Reason)
				assert.Equal(t, c.claim, r.call.claim())
				r.call.giveBack()
				b := r.in.Balance()
				assert.Equal(t, b.Granted, b.Held+b.Lent+b.Spent+b.Lost+b.Returned, "I3")
				if c.reason != ownership.ReasonAllowed {
					assert.Zero(t, b.Spent, "a refusal takes nothing")
				}
				if r.cancel != nil {
					r.cancel()
				}
			})
		})
	}
}

// TestDecision_order has every gate refuse at once and takes the first away, one after the other.
func TestDecision_order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "chain: {process_budget: 1}\ndependencies: {payments: {profile: floored}}\n", "floored", 0, CallOptions{})
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		r.call.parent = ctx
		r.dep.disabled.Store(true)
		r.in.end()
		r.dep.Policy().bucket.level.Store(0)
		r.sdk.process.take()
		for range floorSamples {
			r.dep.floor.add(time.Now(), false)
		}
		r.fail(Result{Status: 500, Failed: true, HasReturn: true, Return: otelprop.Return{Claim: ownership.ClaimStop}, Pushback: true})
		r.call.attempts = 3
		steps := []struct {
			reason ownership.Reason
			mend   func()
		}{
			{ownership.ReasonDisabled, func() { r.dep.disabled.Store(false) }},
			{ownership.ReasonCanceled, func() { r.call.parent = r.ctx }},
			{ownership.ReasonSettled, func() { r.in.word.Store(account{}.pack()) }},
			{ownership.ReasonNotRetryable, func() { r.call.Result.Retryable = true }},
			{ownership.ReasonStop, func() { r.call.Result.Claim = ownership.ClaimUnclaimed }},
			{ownership.ReasonUnclaimed, func() { r.call.Result.Claim = ownership.ClaimClaimed }},
			{ownership.ReasonPushback, func() { r.call.Result.Pushback = false }},
			{ownership.ReasonNotIdempotent, func() { r.call.options.Idempotent = true }},
			{ownership.ReasonAvailabilityFloor, func() { r.dep.policy.Load().profile.AvailabilityFloor = 0 }},
			{ownership.ReasonDependencyBudget, func() { r.dep.Policy().bucket.level.Store(10 * wholeToken) }},
			{ownership.ReasonProcessBudget, func() { r.sdk.process.refund() }},
			{ownership.ReasonMaxAttempts, func() { r.call.attempts = 2 }},
			{ownership.ReasonNotReplayable, func() { r.call.options.Replayable = true }},
			{ownership.ReasonChainExhausted, func() { r.in.open(1, false) }},
			{ownership.ReasonAllowed, func() {}},
		}
		for _, s := range steps {
			r.call.Decide(time.Now())
			require.Equal(t, s.reason, r.call.Decision().Reason)
			s.mend()
		}
	})
}

// TestDecision_hint_is_a_lower_bound: the callee's wish plus the ordinal's own jitter.
func TestDecision_hint_is_a_lower_bound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "plain", 3, can)
		result := claimed(ownership.ClaimClaimed, "ledger", 99)
		result.HasHint, result.Hint = true, 3*time.Second
		start := time.Now()
		require.Equal(t, ownership.ReasonAllowed, r.again(result))
		assert.Equal(t, 3*time.Second+500*time.Millisecond, time.Since(start))
	})
}

// TestDecision_waits_for_a_lease: an empty purse whose tokens are out waits, at most the backoff's ceiling or twice the
// holder's typical time, and takes the token that comes home.
func TestDecision_waits_for_a_lease(t *testing.T) {
	sibling := func(r *rig) *Call {
		s := new(Call)
		begin(s, r.ctx, r.dep, can)
		s.Admit(time.Now())
		s.Lend(0)
		return s
	}
	t.Run("comes_home", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "", "plain", 1, can)
			s := sibling(r)
			go func() {
				time.Sleep(300 * time.Millisecond)
				s.Result = Result{Status: 200, HasReturn: true, Return: otelprop.Return{Returned: 1, Claim: ownership.ClaimNone}}
				s.Done(time.Now())
			}()
			start := time.Now()
			require.Equal(t, ownership.ReasonAllowed, r.again(claimed(ownership.ClaimClaimed, "ledger", 0)))
			assert.Equal(t, 500*time.Millisecond, time.Since(start), "the backoff runs while it waits")
			assert.Equal(t, Balance{Granted: 1, Spent: 1}, r.in.Balance())
		})
	})
	t.Run("comes_home_empty", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "", "plain", 1, can)
			s := sibling(r)
			go func() {
				time.Sleep(300 * time.Millisecond)
				s.Result = Result{Failed: true, Err: errors.New("reset")}
				s.Done(time.Now())
			}()
			start := time.Now()
			require.Equal(t, ownership.ReasonChainExhausted, r.again(claimed(ownership.ClaimClaimed, "ledger", 0)))
			assert.Equal(t, 300*time.Millisecond, time.Since(start), "nothing is out any more")
		})
	})
	t.Run("at_most_the_ceiling", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "", "plain", 1, can)
			sibling(r)
			start := time.Now()
			require.Equal(t, ownership.ReasonChainExhausted, r.again(claimed(ownership.ClaimClaimed, "ledger", 0)))
			assert.Equal(t, time.Second, time.Since(start))
		})
	})
	t.Run("or_twice_the_holders_typical_time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "", "plain", 1, can)
			for range minSamples {
				r.dep.latency.add(3 * time.Second)
			}
			sibling(r)
			start := time.Now()
			require.Equal(t, ownership.ReasonChainExhausted, r.again(claimed(ownership.ClaimClaimed, "ledger", 0)))
			assert.Equal(t, 6*time.Second, time.Since(start))
		})
	})
	t.Run("never_into_the_deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "", "plain", 1, can)
			ctx, cancel := context.WithTimeout(r.ctx, 800*time.Millisecond)
			defer cancel()
			r.call.parent = ctx
			sibling(r)
			start := time.Now()
			reason := r.again(claimed(ownership.ClaimClaimed, "ledger", 0))
			assert.Contains(t, []ownership.Reason{ownership.ReasonChainExhausted, ownership.ReasonDeadline}, reason)
			assert.LessOrEqual(t, time.Since(start), 800*time.Millisecond)
		})
	})
	t.Run("asks_settled_again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "", "plain", 1, can)
			sibling(r)
			go func() {
				time.Sleep(300 * time.Millisecond)
				r.in.Return(ownership.Verdict{})
			}()
			require.Equal(t, ownership.ReasonSettled, r.again(claimed(ownership.ClaimClaimed, "ledger", 0)))
		})
	})
	t.Run("asks_the_buckets_again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "", "plain", 1, can)
			s := sibling(r)
			go func() {
				time.Sleep(300 * time.Millisecond)
				r.dep.Policy().bucket.level.Store(0)
				s.Result = Result{Status: 404, HasReturn: true, Return: otelprop.Return{Returned: 1, Claim: ownership.ClaimNone}, Excluded: true, Canceled: true}
				s.Done(time.Now())
			}()
			require.Equal(t, ownership.ReasonDependencyBudget, r.again(claimed(ownership.ClaimClaimed, "ledger", 0)))
			assert.Equal(t, 1, r.in.Balance().Held, "the token that came home stays")
		})
	})
}

// TestClaim_memory_is_per_owner: a failure of another owner, after the first owner's was retried, was never retried here.
func TestClaim_memory_is_per_owner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "plain", 1, can)
		require.Equal(t, ownership.ReasonAllowed, r.again(claimed(ownership.ClaimClaimed, "ledger", 1)))
		require.Equal(t, ownership.ReasonChainExhausted, r.again(claimed(ownership.ClaimClaimed, "vault", 0)))
		f := r.call.Finish()
		assert.Equal(t, ownership.ClaimClaimed, f.Claim)
		assert.Equal(t, "vault", f.Owner)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", "plain", 1, can)
		require.Equal(t, ownership.ReasonAllowed, r.again(claimed(ownership.ClaimClaimed, "ledger", 1)))
		require.Equal(t, ownership.ReasonChainExhausted, r.again(claimed(ownership.ClaimClaimed, "ledger", 0)))
		assert.Equal(t, ownership.ClaimUnclaimed, r.call.Finish().Claim)
	})
}

// TestModes_let_through has the gates that each mode lets through.
func TestModes_let_through(t *testing.T) {
	cases := []struct {
		mode    profiles.Mode
		tokens  int
		claim   ownership.Claim
		reason  ownership.Reason
		would   ownership.Reason
		retries int64
	}{
		{profiles.ModeEnforce, 2, ownership.ClaimUnclaimed, ownership.ReasonUnclaimed, ownership.ReasonAllowed, 0},
		{profiles.ModeBudget, 2, ownership.ClaimUnclaimed, ownership.ReasonAllowed, ownership.ReasonUnclaimed, 1},
		{profiles.ModeBudget, 0, ownership.ClaimClaimed, ownership.ReasonChainExhausted, ownership.ReasonAllowed, 0},
		{profiles.ModeObserve, 2, ownership.ClaimClaimed, ownership.ReasonAllowed, ownership.ReasonAllowed, 1},
		{profiles.ModeObserve, 2, ownership.ClaimUnclaimed, ownership.ReasonAllowed, ownership.ReasonUnclaimed, 0},
		{profiles.ModeObserve, 0, ownership.ClaimClaimed, ownership.ReasonAllowed, ownership.ReasonChainExhausted, 0},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "", "plain", c.tokens, can)
			r.dep.policy.Load().mode = c.mode
			require.Equal(t, c.reason, r.again(claimed(c.claim, "ledger", c.tokens)), c.mode)
			assert.Equal(t, c.would, r.call.Decision().would, c.mode)
			if c.reason == ownership.ReasonAllowed {
				r.call.Admit(time.Now())
			}
			totals := r.dep.totals()
			assert.Equal(t, c.retries, totals.Retries, "a retry that only a milder mode allowed is none of the chain's")
			assert.Equal(t, int(c.retries), r.in.Balance().Spent)
		})
	}
}

// TestBackoff_canceled_gives_back: a token reserved for an attempt that never goes out comes back, everywhere.
func TestBackoff_canceled_gives_back(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "chain: {process_budget: 1}\n", "plain", 1, can)
		ctx, cancel := context.WithCancel(r.ctx)
		r.call.parent = ctx
		go func() {
			time.Sleep(100 * time.Millisecond)
			cancel()
		}()
		start := time.Now()
		require.Equal(t, ownership.ReasonCanceled, r.again(claimed(ownership.ClaimClaimed, "ledger", 1)))
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		assert.Equal(t, Balance{Granted: 1, Held: 1}, r.in.Balance())
		assert.True(t, r.dep.Policy().bucket.has(10*wholeToken))
		assert.True(t, r.sdk.process.has())
	})
}

// TestRefusal_of_a_limit_in_flight_is_over_soon: nobody is told to wait as long as for an open breaker.
func TestRefusal_of_a_limit_in_flight_is_over_soon(t *testing.T) {
	r := newRig(t, "  narrow: {extends: plain, breaker: {max_in_flight: 1, open_for: 1m}}\n", "narrow", 3, can)
	_, err := r.call.Admit(time.Now())
	require.NoError(t, err)
	_, p := r.dep.Enter(r.ctx)
	refused := p.Refusal(r.ctx, r.in, true)
	require.NotNil(t, refused)
	assert.Equal(t, time.Second, refused.RetryAfter, "the first backoff's ceiling")

	second := new(Call)
	begin(second, r.ctx, r.dep, can)
	reason, err := second.Admit(time.Now())
	assert.Equal(t, ownership.ReasonBreakerOpen, reason)
	second.Refuse(reason, err)
	f := second.Finish()
	assert.Equal(t, time.Second, f.RetryAfter)
	assert.Equal(t, "payments", f.Owner, "it is the dependency's failure, not ours")
	assert.Equal(t, 1, f.OwnerDepth)
}
