package engine

import (
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/rolling"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// bucket is a dependency's share of retries, by one of the published rules. A dependency has one of each kind that its
// profiles have had: requests that arrived under another catalog end by the rule that they began with. Where a retry
// takes something, it is reserved when the retry is decided, and given back when it does not go out. All methods may be
// called by many goroutines at once; a nil bucket, of a profile without a budget, never refuses.
type bucket struct {
	kind  profiles.BudgetKind
	level atomic.Int64 // thousandths of a token
	size  atomic.Int64 // thousandths

	reserve *reserve // of [profiles.BudgetReserve], in place of the two
}

const wholeToken = 1000

// milli is a number of tokens, or a ratio, in thousandths.
func milli(tokens float64) int64 { return int64(tokens*wholeToken + 0.5) }

// newBucket makes a full one.
func newBucket(s profiles.Budget) *bucket {
	b := &bucket{kind: s.Kind}
	if s.Kind == profiles.BudgetReserve {
		b.reserve = newReserve(s)
	}
	b.size.Store(int64(s.Burst) * wholeToken)
	b.level.Store(b.size.Load())
	return b
}

// fits reports whether the bucket can go on under other settings.
func (b *bucket) fits(s profiles.Budget) bool {
	return b != nil && b.kind == s.Kind && (b.reserve == nil || b.reserve.ttl == s.TTL)
}

// follow takes settings over from a new catalog. before is the bucket that was in force, or nil. What was spent stays so:
// the same bucket keeps its level, within the new size, and another one begins with the same share of the whole.
func (b *bucket) follow(before *bucket, s profiles.Budget) {
	if b.reserve != nil {
		b.reserve.set(s)
		if before != nil && before != b {
			b.reserve.owe(1 - before.share())
		}
		return
	}
	size := int64(s.Burst) * wholeToken
	b.size.Store(size)
	if before == nil || before == b {
		for have := b.level.Load(); have > size && !b.level.CompareAndSwap(have, size); have = b.level.Load() {
		}
		return
	}
	b.level.Store(int64(before.share() * float64(size)))
}

// share is how full the bucket is, 0 to 1.
func (b *bucket) share() float64 {
	if b.reserve != nil {
		balance, whole := b.reserve.balance()
		return ratio(balance, whole)
	}
	return ratio(b.level.Load(), b.size.Load())
}

// ratio is part of whole within 0 to 1; of nothing it is 1.
func ratio(part, whole int64) float64 {
	if whole <= 0 {
		return 1
	}
	return min(1, max(0, float64(part)/float64(whole)))
}

// add pays in, up to the size.
func (b *bucket) add(milli int64) {
	for {
		have, size := b.level.Load(), b.size.Load()
		if have >= size {
			return // the usual case writes nothing, so that cores do not fight for the line
		}
		if b.level.CompareAndSwap(have, min(size, have+milli)) {
			return
		}
	}
}

// charge takes off what is there, down to nothing.
func (b *bucket) charge(milli int64) {
	for have := b.level.Load(); have > 0 && !b.level.CompareAndSwap(have, max(0, have-milli)); have = b.level.Load() {
	}
}

// has reports whether a retry that costs so much could be reserved.
func (b *bucket) has(milli int64) bool {
	switch {
	case b == nil:
		return true
	case b.kind == profiles.BudgetThrottle:
		return b.level.Load() > b.size.Load()/2
	case b.reserve != nil:
		return b.reserve.has()
	default:
		return b.level.Load() >= milli
	}
}

// take reserves a retry that costs so much.
func (b *bucket) take(milli int64) bool {
	switch {
	case b == nil:
		return true
	case b.kind == profiles.BudgetThrottle: // a retry costs nothing; its failure will
		return b.has(milli)
	case b.reserve != nil:
		return b.reserve.take()
	}
	for {
		have := b.level.Load()
		if have < milli {
			return false
		}
		if b.level.CompareAndSwap(have, have-milli) {
			return true
		}
	}
}

// refund gives back what was reserved for a retry that does not go out.
func (b *bucket) refund(milli int64) {
	switch {
	case b == nil, b.kind == profiles.BudgetThrottle:
	case b.reserve != nil:
		b.reserve.refund()
	default:
		b.add(milli)
	}
}

// sent says that a reserved retry goes out now.
func (b *bucket) sent(now time.Time) {
	if b != nil && b.reserve != nil {
		b.reserve.sent(now)
	}
}

// requested counts a call, before its first attempt.
func (b *bucket) requested(now time.Time, deposit int64) {
	if b.reserve != nil {
		b.reserve.window.AddAt(now, true)
		return
	}
	b.add(deposit)
}

// BudgetLevel returns what the dependency's bucket holds: retries, or a quota's units. Without a bucket it is 0.
func (d *Dependency) BudgetLevel() float64 {
	b := d.policy.Load().bucket
	switch {
	case b == nil:
		return 0
	case b.reserve != nil:
		balance, _ := b.reserve.balance()
		return float64(balance) / wholeToken
	default:
		return float64(b.level.Load()) / wholeToken
	}
}

// BudgetSize returns what the dependency's bucket holds when it is full; 0 without one. That of [profiles.BudgetReserve] moves
// with the traffic.
func (d *Dependency) BudgetSize() float64 {
	b := d.policy.Load().bucket
	switch {
	case b == nil:
		return 0
	case b.reserve != nil:
		_, whole := b.reserve.balance()
		return float64(whole) / wholeToken
	default:
		return float64(b.size.Load()) / wholeToken
	}
}

// BudgetSpent reports whether the dependency's bucket would refuse a retry now, after a failure that did not throttle.
func (d *Dependency) BudgetSpent() bool {
	p := d.policy.Load()
	cost := int64(wholeToken)
	if p.profile.Budget.Kind == profiles.BudgetQuota {
		cost *= int64(p.profile.Budget.Cost)
	}
	return !p.bucket.has(cost)
}

// theBucket returns the bucket for such a budget, nil for none.
func (d *Dependency) theBucket(s profiles.Budget, late bool) *bucket {
	if !s.Enabled() {
		return nil
	}
	place := &d.buckets[s.Kind]
	for {
		b := place.Load()
		if b.fits(s) {
			return b
		}
		if fresh := newBucket(s); late || place.CompareAndSwap(b, fresh) {
			return fresh
		}
	}
}

// reserve is the retry budget of Finagle and Linkerd: retries within ttl stay below a share of the requests within it plus
// so many a second. Requests and retries are in a rolling window, whose counters are no one number to decide on: what a
// retry is decided on is that no other was reserved since the window was read.
type reserve struct {
	ttl    time.Duration
	window *rolling.Window // successes: requests; failures: retries sent
	floor  atomic.Int64    // thousandths: the retries within ttl that are allowed whatever the traffic is
	ratio  atomic.Int64    // thousandths of a retry that a request allows
	taken  atomic.Int64    // retries ever reserved; what is decided on
	ended  atomic.Int64    // of those, how many were sent or refunded

	debt  atomic.Int64 // thousandths that count as retried at since
	since atomic.Pointer[time.Time]
}

func newReserve(s profiles.Budget) *reserve {
	r := &reserve{ttl: s.TTL, window: rolling.NewWindow(s.TTL)}
	r.set(s)
	return r
}

func (r *reserve) set(s profiles.Budget) {
	r.floor.Store(int64(float64(s.MinPerSecond) * s.TTL.Seconds() * wholeToken))
	r.ratio.Store(milli(s.Ratio))
}

// owe makes a share of the whole count as retried just now.
func (r *reserve) owe(share float64) {
	_, whole := r.balance()
	now := time.Now()
	r.debt.Store(int64(share * float64(whole)))
	r.since.Store(&now)
}

// balance is what may be retried now, and what it would be without retries. The order of reading is the safe one: a retry that is
// sent meanwhile is counted twice, never not at all.
func (r *reserve) balance() (left, whole int64) {
	taken, ended := r.taken.Load(), r.ended.Load()
	requests, all := r.window.Ratio()
	whole = r.floor.Load() + int64(requests)*r.ratio.Load()
	left = whole - (taken-ended+int64(all-requests))*wholeToken
	if since := r.since.Load(); since != nil && time.Since(*since) < r.ttl {
		left -= r.debt.Load()
	}
	return left, whole
}

func (r *reserve) has() bool {
	left, _ := r.balance()
	return left >= wholeToken
}

func (r *reserve) take() bool {
	for {
		taken := r.taken.Load()
		if !r.has() {
			return false
		}
		if r.taken.CompareAndSwap(taken, taken+1) {
			return true
		}
	}
}

func (r *reserve) refund() { r.ended.Add(1) }

func (r *reserve) sent(now time.Time) {
	r.window.AddAt(now, false)
	r.ended.Add(1)
}
