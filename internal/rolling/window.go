package rolling

import "time"

// A Window counts successes and failures over the last span of time. Adding takes no lock and allocates nothing, except
// for one small block each time a tenth of the span begins. All methods may be called concurrently; a nil
// Window counts nothing.
type Window struct {
	ring  Ring
	start time.Time // only ever compared with time.Since: its wall clock does not matter
}

// NewWindow returns an empty window over span, which is rounded up to a multiple of 10 ns. A span that is not above
// zero counts nothing: the result is nil.
func NewWindow(span time.Duration) *Window {
	if span <= 0 {
		return nil
	}
	w := &Window{start: time.Now()}
	w.ring.Init(span)
	return w
}

// Add counts one event that happened now.
func (w *Window) Add(success bool) { w.AddAt(time.Now(), success) }

// AddAt is Add for a caller that has just read the clock: now is what time.Now returned. A time before the window began
// counts as its beginning.
func (w *Window) AddAt(now time.Time, success bool) {
	if w != nil {
		w.ring.At(max(0, now.Sub(w.start))).Add(success)
	}
}

// Ratio returns how many of the events in the window were successes, and how many there were. Under concurrent
// adding it is right to within what is being added.
func (w *Window) Ratio() (ok, total uint64) {
	if w == nil {
		return 0, 0
	}
	s := w.ring.Sum(time.Since(w.start))
	return s.OK, s.OK + s.Failed
}
