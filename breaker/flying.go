package breaker

import (
	"sync/atomic"
	"time"
)

// lost is after how long, at the earliest, an attempt that was never reported stops counting as in flight; twice that at
// the latest. No profile allows an attempt more than an hour.
const lost = time.Hour

// flying counts the attempts that are out, in one word, so that admission is one compare-and-swap: the number of the
// present hour, those that began in the hour before, and those that began in this one. An attempt that is never reported
// leaves with its hour.
type flying struct{ word atomic.Uint64 }

const (
	placeBits = 20 // 1,000,000, the largest limit, fits
	placeMask = 1<<placeBits - 1
)

func hourOf(at time.Duration) uint64 { return uint64(at / lost) }

// turn returns the word as it is in the hour of at; an hour that is past leaves it alone.
func turn(word uint64, at time.Duration) (hour, before, present uint64) {
	hour, before, present = word>>(2*placeBits), word>>placeBits&placeMask, word&placeMask
	switch now := hourOf(at); {
	case now == hour+1:
		return now, present, 0
	case now > hour:
		return now, 0, 0
	}
	return hour, before, present
}

func pack(hour, before, present uint64) uint64 {
	return hour<<(2*placeBits) | before<<placeBits | present
}

// out returns how many are out at now.
func (f *flying) out(now time.Duration) int {
	_, before, present := turn(f.word.Load(), now)
	return int(before + present)
}

// take counts an attempt that begins at now, unless limit are out. One that says that it began hours ago may go and is
// not counted; nor does give know it then.
func (f *flying) take(now time.Duration, limit int) (ok bool) {
	limit = min(limit, placeMask)
	for {
		word := f.word.Load()
		hour, before, present := turn(word, now)
		if int(before+present) >= limit {
			return false
		}
		switch hour - hourOf(now) {
		case 0:
			present++
		case 1:
			before++
		default:
			return true
		}
		if f.word.CompareAndSwap(word, pack(hour, before, present)) {
			return true
		}
	}
}

// give takes an attempt that began at then off the count, unless its hour is over.
func (f *flying) give(then time.Duration) {
	for {
		word := f.word.Load()
		hour, before, present := turn(word, then)
		switch age := hour - hourOf(then); {
		case age == 0 && present > 0:
			present--
		case age == 1 && before > 0:
			before--
		default:
			return
		}
		if f.word.CompareAndSwap(word, pack(hour, before, present)) {
			return
		}
	}
}
