package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// ruled makes a bucket that a dependency has from its first catalog.
func ruled(s profiles.Budget) *bucket {
	b := newBucket(s)
	b.follow(nil, s)
	return b
}

func TestBucket_spends_what_was_paid_in(t *testing.T) {
	b := ruled(profiles.Budget{Ratio: 0.1, Burst: 2})
	assert.True(t, b.take(wholeToken))
	assert.True(t, b.take(wholeToken))
	assert.False(t, b.take(wholeToken))
	for range 9 {
		b.add(100)
	}
	assert.False(t, b.has(wholeToken))
	b.add(100)
	assert.True(t, b.take(wholeToken))
	b.refund(wholeToken)
	assert.True(t, b.take(wholeToken))
	for range 100 {
		b.add(100)
	}
	assert.Equal(t, int64(2*wholeToken), b.level.Load(), "never above its burst")

	var off *bucket
	assert.True(t, off.has(wholeToken) && off.take(wholeToken))
	off.refund(wholeToken)
	off.sent(time.Now())
}

// TestBucket_throttle_as_gRPC: a retry takes nothing, and may go while more than half is there.
func TestBucket_throttle_as_gRPC(t *testing.T) {
	b := ruled(profiles.Budget{Kind: profiles.BudgetThrottle, Ratio: 0.1, Burst: 10})
	for range 4 {
		b.charge(wholeToken)
		assert.True(t, b.has(wholeToken) && b.take(wholeToken))
	}
	b.charge(wholeToken)
	assert.False(t, b.has(wholeToken), "half is not more than half")
	assert.False(t, b.take(wholeToken))
	b.refund(wholeToken)
	assert.Equal(t, int64(5*wholeToken), b.level.Load(), "there is nothing to give back")
	b.add(100)
	assert.True(t, b.take(wholeToken))
	for range 20 {
		b.charge(wholeToken)
	}
	assert.Zero(t, b.level.Load())
}

// A book of requests and retries is the reference for the reserve: it knows each, in slices of a tenth of the time.
type reserveBook struct {
	floor, ratio      int64
	requests, retries []int64 // the slices they are in
	reserved          int64
}

func (b *reserveBook) left(slice int64) int64 {
	within := func(list []int64) (n int64) {
		for _, at := range list {
			if at > slice-10 {
				n++
			}
		}
		return n
	}
	return b.floor + b.ratio*within(b.requests) - wholeToken*(within(b.retries)+b.reserved)
}

func TestProperty_reserve_agrees_with_a_book(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 10))
			s := profiles.Budget{Kind: profiles.BudgetReserve, Ratio: .2, MinPerSecond: random.IntN(3), TTL: time.Duration(1+random.IntN(10)) * time.Second}
			start := time.Now()
			b := ruled(s)
			book := reserveBook{floor: int64(s.MinPerSecond) * int64(s.TTL/time.Second) * wholeToken, ratio: 200}
			took, refused := 0, 0
			for step := range 2000 {
				slice := int64(time.Since(start) / (s.TTL / 10))
				switch random.IntN(7) {
				case 0, 1, 2:
					b.requested(time.Now(), 200)
					book.requests = append(book.requests, slice)
				case 3, 4:
					want := book.left(slice) >= wholeToken
					require.Equal(t, want, b.has(wholeToken), "step %d", step)
					require.Equal(t, want, b.take(wholeToken), "step %d", step)
					if want {
						book.reserved++
						took++
					} else {
						refused++
					}
				case 5:
					if book.reserved > 0 {
						book.reserved--
						if random.IntN(3) == 0 {
							b.refund(wholeToken)
						} else {
							b.sent(time.Now())
							book.retries = append(book.retries, slice)
						}
					}
				default:
					time.Sleep(time.Duration(random.ExpFloat64() * float64(s.TTL/20)))
				}
				if left, _ := b.reserve.balance(); left != book.left(int64(time.Since(start)/(s.TTL/10))) {
					t.Fatalf("step %d: balance %d, the book has %d", step, left, book.left(slice))
				}
			}
			require.True(t, took > 20 && refused > 20, "%d taken, %d refused", took, refused)
		})
	}
}

// TestBucket_never_overspends has retries of each kind reserved, sent and refunded by many goroutines. What a bucket lets
// through at once is never more than it has, and what is refunded is all there again.
func TestBucket_never_overspends(t *testing.T) {
	before := runtime.GOMAXPROCS(8)
	defer runtime.GOMAXPROCS(before)
	for _, s := range []profiles.Budget{
		{Ratio: .1, Burst: 10},
		{Kind: profiles.BudgetQuota, Burst: 10, Cost: 1, ThrottledCost: 1},
		{Kind: profiles.BudgetReserve, Ratio: .0001, MinPerSecond: 1, TTL: 10 * time.Second},
	} {
		t.Run(s.Kind.String(), func(t *testing.T) {
			b := ruled(s)
			var out, sent atomic.Int64
			var all sync.WaitGroup
			for range 32 {
				all.Go(func() {
					for range 500 {
						if !b.take(wholeToken) {
							continue
						}
						if n := out.Add(1); n > 10 {
							t.Errorf("%d retries reserved out of 10", n)
						}
						runtime.Gosched()
						out.Add(-1)
						b.refund(wholeToken)
					}
				})
			}
			all.Wait()
			for b.take(wholeToken) {
				b.sent(time.Now())
				sent.Add(1)
			}
			assert.EqualValues(t, 10, sent.Load(), "everything came back")
			for range 32 {
				all.Go(func() {
					if b.take(wholeToken) {
						sent.Add(1)
					}
				})
			}
			all.Wait()
			assert.EqualValues(t, 10, sent.Load(), "and is spent once")
		})
	}
}

const bucketCatalog = `
profiles:
  ratio-10: {extends: read-heavy, budget: {burst: 10}}
  ratio-4: {extends: read-heavy, budget: {burst: 4}}
  ratio-40: {extends: read-heavy, budget: {burst: 40}}
  quota: {extends: aws-standard, budget: {burst: 500}}
  grpc: {extends: read-heavy, budget: {kind: throttle, ratio: 10%%, burst: 10}}
  reserve: {extends: read-heavy, budget: {kind: reserve, ratio: 20%%, min_per_second: 10, ttl: 10s}}
  reserve-20: {extends: read-heavy, budget: {kind: reserve, ratio: 20%%, min_per_second: 10, ttl: 20s}}
  none: {extends: read-heavy, budget: disabled}
dependencies: {payments: {profile: %s}}
`

// TestBucket_keeps_its_level_under_another_catalog: within the same kind as it is, in another as the same share.
func TestBucket_keeps_its_level_under_another_catalog(t *testing.T) {
	for _, tt := range []struct {
		profiles []string
		levels   []float64
	}{
		{[]string{"ratio-10", "ratio-4", "ratio-40"}, []float64{7, 4, 4}},
		{[]string{"ratio-10", "ratio-40", "ratio-4"}, []float64{7, 7, 4}},
		{[]string{"ratio-10", "quota", "ratio-10"}, []float64{7, 350, 7}},
		{[]string{"ratio-10", "none", "ratio-10"}, []float64{7, 0, 7}},
		{[]string{"ratio-10", "none", "grpc"}, []float64{7, 0, 7}},
		{[]string{"ratio-10", "grpc", "reserve", "quota"}, []float64{7, 7, 70, 350}},
		{[]string{"ratio-10", "reserve", "reserve-20", "reserve"}, []float64{7, 70, 140, 70}},
		{[]string{"none", "quota"}, []float64{0, 500}},
	} {
		t.Run(fmt.Sprint(tt.profiles), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(SDK)
				s.Init(Config{Service: "checkout", Catalog: catalogOf(t, fmt.Sprintf(bucketCatalog, tt.profiles[0]))})
				d, _, err := s.Dependency("payments", "")
				require.NoError(t, err)
				for range 3 {
					d.Policy().bucket.take(wholeToken)
				}
				assert.Equal(t, tt.levels[0], d.BudgetLevel())
				for i, name := range tt.profiles[1:] {
					require.NoError(t, s.Swap(catalogOf(t, fmt.Sprintf(bucketCatalog, name))))
					assert.InDelta(t, tt.levels[i+1], d.BudgetLevel(), 1e-9, name)
				}
				time.Sleep(time.Minute)
				if b := d.Policy().bucket; b != nil && b.reserve != nil {
					assert.Equal(t, 1.0, b.share(), "what it owed is over after its time")
				}
			})
		})
	}
}

// TestBucket_a_request_ends_by_the_rule_that_it_began_with: what it reserved comes back where it was taken.
func TestBucket_a_request_ends_by_the_rule_that_it_began_with(t *testing.T) {
	r := newRig(t, "dependencies: {payments: {profile: plain}}", "", 3, can)
	old := r.dep.Policy().bucket
	r.fail(claimed(ownership.ClaimClaimed, "payments", 3))
	require.True(t, r.call.Decide(time.Now()))
	full := old.size.Load()
	assert.Equal(t, full-wholeToken, old.level.Load())
	require.NoError(t, r.sdk.Swap(catalogOf(t, fmt.Sprintf(bucketCatalog, "quota"))))
	level := r.dep.BudgetLevel()
	r.call.giveBack()
	assert.Equal(t, full, old.level.Load())
	assert.Equal(t, level, r.dep.BudgetLevel(), "it took nothing of the new one")
}

// TestBucket_throttle_what_takes_a_token: as in gRPC a failure that is worth a retry, or whose callee asked for none.
func TestBucket_throttle_what_takes_a_token(t *testing.T) {
	for _, tt := range []struct {
		name   string
		result Result
		level  float64 // from 8
	}{
		{"worth_a_retry", Result{Status: 503, Failed: true, Retryable: true}, 7},
		{"pushback", Result{Status: 500, Failed: true, Pushback: true}, 7},
		{"not_worth_a_retry", Result{Status: 500, Failed: true}, 8},
		{"canceled", Result{Canceled: true}, 8},
		{"no_success", Result{Status: 404, Excluded: true}, 8},
		{"success", Result{Status: 200}, 8.1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, fmt.Sprintf(bucketCatalog[len("\nprofiles:\n"):], "grpc"), "", 9, can)
			r.feed(2, rejection)
			r.feed(1, tt.result)
			assert.Equal(t, tt.level, r.dep.BudgetLevel())
		})
	}
}

// TestBudgetSpent is what the gate would say: each kind has a rule of its own.
func TestBudgetSpent(t *testing.T) {
	for name, budget := range map[string]string{
		"ratio":    "{burst: 2}",
		"throttle": "{kind: throttle, ratio: 0.1, burst: 4}",
		"quota":    "{kind: quota, burst: 10, cost: 5, throttled_cost: 10}",
		"reserve":  "{kind: reserve, ratio: 0.2, min_per_second: 0, ttl: 10s}",
	} {
		t.Run(name, func(t *testing.T) {
			yaml := "  spent: {extends: plain, budget: " + budget + "}\n"
			r := newRig(t, yaml, "spent", 9, can)
			spent := 0
			for range 12 {
				b := r.dep.policy.Load().bucket
				gate := !b.has(r.call.cost())
				assert.Equal(t, gate, r.dep.BudgetSpent())
				if gate {
					spent++
				}
				if b.kind == profiles.BudgetThrottle {
					b.charge(wholeToken)
				}
				b.take(r.call.cost())
			}
			assert.Positive(t, spent)
		})
	}
}

// TestBucket_is_funded_by_what_the_profile_says: by every call as it begins, or by every success.
func TestBucket_is_funded_by_what_the_profile_says(t *testing.T) {
	for fund, want := range map[string][2]int64{"requests": {500, 500}, "successes": {0, 500}} {
		r := newRig(t, "  funded: {extends: plain, budget: {ratio: 50%, burst: 10, fund: "+fund+"}}\n", "funded", 3, can)
		level := &r.dep.Policy().bucket.level
		level.Store(0)
		r.begin(can)
		assert.Equal(t, want[0], level.Load(), "%s, begun", fund)
		r.fail(Result{Status: 200})
		assert.Equal(t, want[1], level.Load(), "%s, succeeded", fund)
	}
}
