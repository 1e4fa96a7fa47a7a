package stormlab

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// rival makes calls by another system's rules. It knows nothing of the SDK, but hands its baggage on.
type rival struct {
	Policy
	*edge
	limiter limiter // nil = there is none
}

// limiter is a budget that one caller has for one dependency.
type limiter interface {
	called(now int64)
	retry(now int64) bool
	// attempted is told of each attempt; ordinal 1 is the first.
	attempted(ordinal int, ok bool)
}

// The headers by which rivals tell each other.
const (
	retryMark  = "Retry-Mark"
	budgetLeft = "Budget-Left"
)

func newRival(e *edge, p Policy) *rival {
	r := &rival{Policy: p, edge: e}
	if r.Base == 0 {
		r.Base = time.Millisecond
	}
	if r.Cap == 0 {
		r.Cap = r.Base
	}
	usual := 3
	switch p.Kind {
	case PolicyNone:
		r.Attempts = 1
	case PolicyDownOnly:
		usual = p.Budget + 1
	case PolicyRatio:
		r.limiter = newRatio(p)
	case PolicyFinagle:
		usual = 25
		r.limiter = new(finagle)
	case PolicyGRPC:
		usual = 5
		r.limiter = &throttle{level: throttleMax}
	case PolicyAWS:
		r.limiter = &quota{level: quotaMax}
	}
	if r.Attempts == 0 {
		r.Attempts = usual
	}
	return r
}

// call makes attempts until one succeeds or the rules allow no other.
func (r *rival) call(f *frame, v *visit) error {
	c, header := r.cell, v.request
	_, drops := r.caller.withoutSDK(c.now())
	marked := r.Kind == PolicyChainStop && header.Get(retryMark) != ""
	left := r.Budget
	if n, err := strconv.Atoi(header.Get(budgetLeft)); err == nil {
		left = n
	}
	if r.limiter != nil {
		r.limiter.called(c.now())
	}
	for n := 1; ; n++ {
		out := make(http.Header, 2)
		if !drops {
			v.passBaggage(out)
		}
		switch r.Kind {
		case PolicyChainStop:
			if marked || n > 1 {
				out.Set(retryMark, "1")
			}
		case PolicyDownOnly:
			out.Set(budgetLeft, strconv.Itoa(left-(n-1)))
		}
		err := r.attempt(f, v, out)
		if r.limiter != nil {
			r.limiter.attempted(n, err == nil)
		}
		if err == nil || n >= r.Attempts || marked || r.Kind == PolicyDownOnly && n > left {
			return err
		}
		if r.limiter != nil && !r.limiter.retry(c.now()) {
			return err
		}
		if !c.pass(c.now()+r.wait(n), v.until(f)) {
			return err
		}
	}
}

func (r *rival) attempt(f *frame, v *visit, header http.Header) error {
	if r.Timeout == 0 {
		return result(r.send(f, f, v, header))
	}
	ctx, cancel := context.WithTimeout(f, r.Timeout)
	defer cancel()
	return result(r.send(ctx, f, v, header))
}

// wait is how long before retry n.
func (r *rival) wait(n int) int64 {
	if r.Fixed {
		return int64(r.Base)
	}
	ceiling := r.Cap
	if shift := n - 1; shift < 32 && r.Base<<shift < ceiling {
		ceiling = r.Base << shift
	}
	return int64(r.source.share(r.sends, drawWork) * float64(ceiling))
}

// ratio is a bucket that calls pay into, in thousandths of a retry.
type ratio struct{ level, most, deposit int }

func newRatio(p Policy) *ratio {
	burst := p.Burst
	if burst == 0 {
		burst = 10
	}
	return &ratio{most: 1000 * burst, deposit: int(p.Ratio*1000 + .5)}
}

func (b *ratio) called(int64) { b.level = min(b.level+b.deposit, b.most) }

func (b *ratio) retry(int64) bool {
	if b.level < 1000 {
		return false
	}
	b.level -= 1000
	return true
}

func (b *ratio) attempted(int, bool) {}

// finagle is a bucket over ten seconds, in ten slices: a call pays in a fifth of a retry, and ten retries a second are there
// without calls. What is not used within the ten seconds is gone.
type finagle struct {
	slices [10]int // fifths
	turn   int64   // the second of the newest slice
}

const finagleReserve = 10 * 10 * 5 // ten a second for ten seconds, in fifths

// now empties the slices that ten seconds have passed of.
func (b *finagle) now(now int64) *int {
	second := now / int64(time.Second)
	for ; b.turn < second; b.turn++ {
		if second-b.turn > 10 {
			b.turn = second - 10
		}
		b.slices[(b.turn+1)%10] = 0
	}
	return &b.slices[second%10]
}

func (b *finagle) called(now int64) { *b.now(now)++ }

func (b *finagle) retry(now int64) bool {
	slice, sum := b.now(now), finagleReserve
	for _, n := range b.slices {
		sum += n
	}
	if sum < 5 {
		return false
	}
	*slice -= 5
	return true
}

func (b *finagle) attempted(int, bool) {}

// throttle is gRPC's, in thousandths.
type throttle struct{ level int }

const throttleMax = 10_000

func (b *throttle) called(int64) {}

func (b *throttle) retry(int64) bool { return b.level > throttleMax/2 }

func (b *throttle) attempted(_ int, ok bool) {
	if ok {
		b.level = min(b.level+100, throttleMax)
		return
	}
	b.level = max(b.level-1000, 0)
}

// quota is that of an AWS client.
type quota struct{ level int }

const (
	quotaMax  = 500
	quotaCost = 14 // of a retry after a transient failure
)

func (b *quota) called(int64) {}

func (b *quota) retry(int64) bool {
	if b.level < quotaCost {
		return false
	}
	b.level -= quotaCost
	return true
}

func (b *quota) attempted(ordinal int, ok bool) {
	switch {
	case !ok:
	case ordinal == 1:
		b.level = min(b.level+1, quotaMax)
	default: // what the last retry took
		b.level = min(b.level+quotaCost, quotaMax)
	}
}
