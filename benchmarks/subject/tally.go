package subject

import "sync/atomic"

// tally counts how often one callee was reached. It fills cache lines of its own, so that workers do not slow each other
// down by counting.
type tally struct {
	n atomic.Int64
	_ [120]byte
}

// hit counts once more and returns the number, which begins at 1.
func (t *tally) hit() int64 { return t.n.Add(1) }

// tally returns a new tally of the stage.
func (s *stage) tally() *tally {
	t := new(tally)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tallies = append(s.tallies, t)
	return t
}

// Reached returns how often each callee of the run was reached, which tells whether operations do what they are measured
// for: that a retry was made, or that none was.
func (r *Run) Reached() []int64 {
	r.stage.mu.Lock()
	defer r.stage.mu.Unlock()
	list := make([]int64, len(r.stage.tallies))
	for i, t := range r.stage.tallies {
		list[i] = t.n.Load()
	}
	return list
}
