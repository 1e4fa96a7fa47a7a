package engine

import (
	"sync/atomic"
	"time"
)

// pacer limits the retries of the whole process to so many a minute, in any minute. It keeps one number: the moment at
// which the allowance would be whole again. The zero value limits nothing.
type pacer struct {
	cost  time.Duration // how much of the minute one retry takes; 0 = no limit
	start time.Time
	whole atomic.Int64 // nanoseconds since start
}

func (p *pacer) init(perMinute int) {
	p.start = time.Now()
	if perMinute > 0 {
		p.cost = time.Minute / time.Duration(perMinute)
	}
}

// after is where the number would be after one more retry now.
func (p *pacer) after(now, whole int64) int64 { return max(now, whole) + int64(p.cost) }

func (p *pacer) has() bool {
	if p.cost == 0 {
		return true
	}
	now := int64(time.Since(p.start))
	return p.after(now, p.whole.Load())-now <= int64(time.Minute)
}

func (p *pacer) take() bool {
	for p.cost != 0 {
		now, whole := int64(time.Since(p.start)), p.whole.Load()
		next := p.after(now, whole)
		if next-now > int64(time.Minute) {
			return false
		}
		if p.whole.CompareAndSwap(whole, next) {
			return true
		}
	}
	return true
}

// refund gives a retry back that did not go out.
func (p *pacer) refund() {
	if p.cost != 0 {
		p.whole.Add(-int64(p.cost))
	}
}
