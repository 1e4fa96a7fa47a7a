package breaker

import (
	"time"

	"github.com/chainbudget/chainbudget-go/internal/rolling"
)

// merged is what other processes finished. Breaker.mu guards it.
type merged struct {
	at     time.Duration // the end of the newest slice; may be before the breaker was made
	period time.Duration
	slices [][3]uint64 // successes, failures, slow; newest first
}

// Whatever a store says: nothing overflows, and a failure does not take long to judge.
const (
	longAgo         = -1 << 61 * time.Nanosecond
	maxMergedCount  = 1 << 40
	maxMergedSlices = 1000
)

// Merge tells the breaker what other processes have finished. slices[i] are the successes, the failures, and the slow among
// both, that ended between i+1 and i periods before at, which is about now and not later. They replace what was merged
// before; nil forgets it. They count beside the breaker's own in the failure ratio and in the slow ratio, not among the
// failures in a row and not in [Breaker.Counts], as long as they lie in the window, and only slices that began after
// the breaker last closed; one that never opened counts those from before it was made, too. If the rule then says so, the
// breaker opens before Merge returns. Without another Merge they age out of the window. slices stays the caller's; no more
// than 1000 are read. A period that is not above zero is read as no slices.
func (b *Breaker) Merge(at time.Time, period time.Duration, slices [][3]uint64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	now := b.now()
	b.others.replace(max(longAgo, min(now, at.Sub(b.base))), period, slices)
	p := b.phase()
	if p.state != Closed || p.ring == nil {
		return
	}
	if theirs := b.others.sum(now, p); theirs.Failed+theirs.Slow > 0 {
		b.ask(p)
	}
}

func (m *merged) replace(at, period time.Duration, slices [][3]uint64) {
	m.at, m.period, m.slices = at, period, m.slices[:0]
	if period <= 0 {
		return
	}
	for _, s := range slices[:min(len(slices), maxMergedSlices)] {
		s = [3]uint64{min(s[0], maxMergedCount), min(s[1], maxMergedCount), min(s[2], maxMergedCount)}
		s[2] = min(s[2], s[0]+s[1])
		m.slices = append(m.slices, s)
	}
}

// sum adds up the slices that lie within the window at now, and within the closed phase p.
func (m *merged) sum(now time.Duration, p *phase) (s rolling.Sums) {
	from := max(longAgo, now-p.rules.Window)
	if p.era > 1 { // what is older than the breaker itself has not been decided on yet
		from = max(from, p.start)
	}
	begin := m.at
	for _, slice := range m.slices {
		if begin-from < m.period {
			break
		}
		begin -= m.period
		s.OK += slice[0]
		s.Failed += slice[1]
		s.Slow += slice[2]
	}
	return s
}
