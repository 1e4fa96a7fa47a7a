package profiles

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"time"
)

// The backoff of a profile that sets none.
const (
	DefaultBase          = 50 * time.Millisecond
	DefaultThrottledBase = time.Second
	DefaultCap           = 20 * time.Second
)

// hintSlack is how far a hint may move a delay under HintClamp. Source: the AWS SDKs' standard retry mode, 2026 revision.
const hintSlack = 5 * time.Second

// Backoff computes the wait before a retry. It is a value without state, so that any number of calls share one. The
// delay is always full jitter; there is no setting without. A field that is not above zero is read as its default,
// so that the zero Backoff waits and never spins.
type Backoff struct {
	Base          time.Duration // ceiling of the first wait after a transient failure: 1 ms to 1 h
	ThrottledBase time.Duration // the same after a throttled one (429 and its like): 1 ms to 1 h
	Cap           time.Duration // largest ceiling; applied before the jitter: 1 ms to 1 h
	Hint          HintRule      // what a server's hint does
}

// Ceiling returns the upper bound of the wait before retry n: min(Cap, base·2^n). The first retry is n = 0; a negative
// n is read as 0. It never decreases as n grows, whatever the fields hold.
func (b Backoff) Ceiling(n int, throttled bool) time.Duration {
	base, limit := b.Base, b.limit()
	if base <= 0 {
		base = DefaultBase
	}
	if throttled {
		if base = b.ThrottledBase; base <= 0 {
			base = DefaultThrottledBase
		}
	}
	n = max(n, 0)
	// A shift that would push a set bit into the sign or out is beyond any cap.
	if n >= bits.LeadingZeros64(uint64(base)) {
		return limit
	}
	return min(limit, base<<n)
}

// Delay returns the wait before retry n, uniform over [0, Ceiling(n)] in nanoseconds. random returns a uniform number
// in [0, n) and is only called with n > 0; nil is the runtime's own generator, which every process seeds by itself, so
// that replicas that start together do not draw the same waits.
func (b Backoff) Delay(n int, throttled bool, random func(n int64) int64) time.Duration {
	return draw(b.Ceiling(n, throttled), random)
}

// After returns the wait before retry n when the server asked for hint: by [HintAdd] hint + rand(0, Ceiling(n)), so
// never less than hint; by [HintClamp] the hint moved into [t, t + 5 s] around a drawn delay t. A negative hint is read
// as 0, a sum beyond the largest Duration is that Duration. Whether a hint is too long to follow is for the caller to
// say: see [Backoff.Follows].
func (b Backoff) After(hint time.Duration, n int, throttled bool, random func(n int64) int64) time.Duration {
	hint = max(hint, 0)
	own := b.Delay(n, throttled, random)
	if b.Hint == HintClamp {
		return min(max(hint, own), saturatingAdd(own, hintSlack))
	}
	return saturatingAdd(hint, own)
}

// Follows reports whether a hint is short enough to be waited for: not beyond Cap, unless the rule is [HintClamp],
// which bounds every hint by itself.
func (b Backoff) Follows(hint time.Duration) bool {
	return b.Hint == HintClamp || hint <= b.limit()
}

func (b Backoff) limit() time.Duration {
	if b.Cap <= 0 {
		return DefaultCap
	}
	return b.Cap
}

func draw(ceiling time.Duration, random func(n int64) int64) time.Duration {
	if random == nil {
		random = rand.Int64N
	}
	// The ceiling itself belongs to the range; at the largest Duration, ceiling+1 does not exist.
	if ceiling == math.MaxInt64 {
		return time.Duration(random(math.MaxInt64))
	}
	return time.Duration(random(int64(ceiling) + 1))
}

func saturatingAdd(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
