package engine

import (
	"math"
	"strconv"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/rolling"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// throttle is the client-side throttling of the Google SRE book, "Handling Overload": what a dependency does not accept, it
// is asked for less often, the first attempts included. It belongs to a dependency and counts on under another catalog, as
// long as its window is the same. All methods may be called by many goroutines at once; a nil throttle refuses nothing.
type throttle struct {
	span   time.Duration
	window *rolling.Window // successes: accepted attempts; failures: attempts asked for, those refused here included
}

// theThrottle returns the throttle for such settings, nil for none.
func (d *Dependency) theThrottle(s profiles.Throttle, late bool) *throttle {
	if !s.Enabled() {
		return nil
	}
	for {
		t := d.throttle.Load()
		if t != nil && t.span == s.Window {
			return t
		}
		if fresh := (&throttle{span: s.Window, window: rolling.NewWindow(s.Window)}); late || d.throttle.CompareAndSwap(t, fresh) {
			return fresh
		}
	}
}

// probability is that of a refusal, when k times what is accepted goes through.
func (t *throttle) probability(k float64) float64 {
	accepts, all := t.window.Ratio()
	requests := float64(all - accepts)
	return max(0, (requests-k*float64(accepts))/(requests+1))
}

// asked counts an attempt, before it is sent or because it was refused: what is under way must be seen.
func (t *throttle) asked(now time.Time) {
	if t != nil {
		t.window.AddAt(now, false)
	}
}

// answered counts what came of an attempt.
func (t *throttle) answered(now time.Time, r *Result) {
	if t != nil && !r.rejected() {
		t.window.AddAt(now, true)
	}
}

// rejected reports whether the dependency would not or could not deal with the attempt. An answer that is wrong for other
// reasons was dealt with, and so, for want of a better word, was an attempt that the caller gave up.
func (r *Result) rejected() bool {
	switch {
	case !r.Failed || r.Canceled, r.Excluded && r.Status == 0:
		return false
	case r.Throttled, r.Pushback:
		return true
	case r.Status >= 400 && r.Status < 500:
		return false
	default:
		return r.Retryable
	}
}

// throttles draws whether adaptive throttling refuses the next attempt, and counts it if so.
func (c *Call) throttles(now time.Time) error {
	t := c.policy.throttle
	if t == nil {
		return nil
	}
	p := t.probability(c.policy.profile.Throttle.K)
	if p <= 0 || c.dep.sdk.draw() >= p {
		return nil
	}
	t.asked(now)
	return &throttledError{dependency: c.dep.name, probability: p, err: c.Result.Err}
}

// draw returns a number in [0, 1).
func (s *SDK) draw() float64 {
	const steps = 1 << 53 // as many as a float64 tells apart there
	return float64(s.random(steps)) / steps
}

// throttledError says that adaptive throttling refused an attempt.
type throttledError struct {
	dependency  string
	probability float64
	err         error // of the attempt before, or nil
}

// Error says how likely the refusal was.
func (e *throttledError) Error() string {
	s := "chainbudget: adaptive throttling refuses an attempt at dependency " + strconv.Quote(e.dependency) + ", with probability " +
		strconv.FormatFloat(math.Round(e.probability*1e4)/1e4, 'f', -1, 64) + ": it accepts too few"
	if e.err != nil {
		s += "; the last attempt: " + e.err.Error()
	}
	return s
}

// Unwrap returns the error of the attempt before, so that nothing that was said is hidden.
func (e *throttledError) Unwrap() error { return e.err }
