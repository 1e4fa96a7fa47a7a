package engine

import (
	"sync/atomic"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// bucket is a dependency's share of retries: funding adds to it, a retry takes from it. The floor is zero: an idle
// service earns nothing. A profile without a budget has a bucket that never refuses. All methods may be called by many
// goroutines at once.
type bucket struct {
	milli atomic.Int64 // thousandths of a token
	off   atomic.Bool
	size  int64 // thousandths; guarded by the SDK's lock
}

const wholeToken = 1000

// fill starts the bucket at its burst.
func (b *bucket) fill(budget profiles.Budget) {
	b.off.Store(!budget.Enabled())
	b.size = int64(budget.Burst) * wholeToken
	b.milli.Store(int64(budget.Burst) * wholeToken)
}

// resize changes the size and keeps the level, as the same share of the whole.
func (b *bucket) resize(budget profiles.Budget) {
	old, size := b.size, int64(budget.Burst)*wholeToken
	if size != old && old > 0 && size > 0 {
		for {
			have := b.milli.Load()
			if b.milli.CompareAndSwap(have, int64(float64(have)/float64(old)*float64(size))) {
				break
			}
		}
	}
	if old == 0 {
		b.milli.Store(size)
	}
	if size > 0 {
		b.size = size
	}
	b.off.Store(size == 0)
}

// add pays in, up to burst tokens.
func (b *bucket) add(milli int64, burst int) {
	full := int64(burst) * wholeToken
	for !b.off.Load() {
		have := b.milli.Load()
		if have >= full {
			return // the usual case writes nothing, so that cores do not fight for the line
		}
		if b.milli.CompareAndSwap(have, min(full, have+milli)) {
			return
		}
	}
}

func (b *bucket) has(milli int64) bool { return b.off.Load() || b.milli.Load() >= milli }

func (b *bucket) take(milli int64) bool {
	for !b.off.Load() {
		have := b.milli.Load()
		if have < milli {
			return false
		}
		if b.milli.CompareAndSwap(have, have-milli) {
			return true
		}
	}
	return true
}

// BudgetLevel returns what the dependency's bucket holds, in retries, or for a quota in its units; 0 without a bucket.
func (d *Dependency) BudgetLevel() float64 { return float64(d.bucket.milli.Load()) / wholeToken }
