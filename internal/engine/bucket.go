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
	off   bool
}

const wholeToken = 1000

// fill starts the bucket at its burst.
func (b *bucket) fill(budget profiles.Budget) {
	b.off = !budget.Enabled()
	b.milli.Store(int64(budget.Burst) * wholeToken)
}

// add pays in, up to burst tokens.
func (b *bucket) add(milli int64, burst int) {
	full := int64(burst) * wholeToken
	for !b.off {
		have := b.milli.Load()
		if have >= full {
			return // the usual case writes nothing, so that cores do not fight for the line
		}
		if b.milli.CompareAndSwap(have, min(full, have+milli)) {
			return
		}
	}
}

func (b *bucket) has(milli int64) bool { return b.off || b.milli.Load() >= milli }

func (b *bucket) take(milli int64) bool {
	for !b.off {
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
