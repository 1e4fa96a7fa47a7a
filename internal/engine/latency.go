package engine

import (
	"sync/atomic"
	"time"
)

// latency is the typical time of one dependency's successful attempts: a moving average that weighs a new sample by one
// eighth. It knows nothing before minSamples. Of samples that come at the same moment one counts: that many goroutines do not
// wait for each other is worth more. The zero value is ready to use.
type latency struct {
	mean    atomic.Int64 // nanoseconds
	samples atomic.Int32
}

const minSamples = 8

func (l *latency) add(d time.Duration) {
	n := l.samples.Load()
	if n < minSamples {
		n = l.samples.Add(1)
	}
	old := l.mean.Load()
	mean := old + (int64(d)-old)/8
	if old == 0 && n <= 1 {
		mean = int64(d)
	}
	if mean != old {
		l.mean.CompareAndSwap(old, mean)
	}
}

// typical returns the average, or 0 while there are too few samples.
func (l *latency) typical() time.Duration {
	if l.samples.Load() < minSamples {
		return 0
	}
	return time.Duration(l.mean.Load())
}
