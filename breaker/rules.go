package breaker

import (
	"time"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// rules are the settings in force, with what is computed from them once. They are never changed, only replaced.
type rules struct {
	profiles.Breaker
	openFor      time.Duration // with the jitter
	probeTimeout time.Duration
	slowCall     time.Duration // 0 = nothing is slow
	full         *OpenError    // the refusal of MaxInFlight, made once
}

func (b *Breaker) rulesOf(p profiles.Breaker) *rules {
	r := &rules{Breaker: p, openFor: time.Duration(float64(p.OpenFor) * b.jitter), probeTimeout: p.ProbeTimeout}
	if r.probeTimeout <= 0 {
		r.probeTimeout = p.OpenFor
	}
	if p.SlowRatio > 0 {
		r.slowCall = p.SlowCall
	}
	if p.MaxInFlight > 0 {
		r.full = &OpenError{Name: b.name, MaxInFlight: p.MaxInFlight, breaker: b}
	}
	return r
}

// want is how many probes have to succeed.
func (r *rules) want() int { return max(1, r.Probes) }

// plain reports whether only the share of failures decides.
func (r *rules) plain() bool {
	return r.ConsecutiveFailures <= 0 && r.slowCall <= 0 && r.full == nil
}

// tripped is the rule: enough failures in a row, or enough attempts in the window, of this process and of the others, of
// which too large a share failed or was slow. gobreaker asks it after each failure. mu is held.
func (b *Breaker) tripped() bool {
	p := b.phase()
	if n := p.rules.ConsecutiveFailures; n > 0 && b.row >= int64(n) {
		return true
	}
	now := b.now()
	s := p.ring.Sum(now - p.start)
	theirs := b.others.sum(now, p)
	s.OK += theirs.OK
	s.Failed += theirs.Failed
	s.Slow += theirs.Slow
	total := s.OK + s.Failed
	if total == 0 || total < uint64(max(0, p.rules.MinRequests)) {
		return false
	}
	// Dividing rounds once: 7 of 100 is 7 %, where 0.07 times 100 is more than 7.
	return float64(s.Failed)/float64(total) >= p.rules.FailureRatio ||
		p.rules.slowCall > 0 && float64(s.Slow)/float64(total) >= p.rules.SlowRatio
}
