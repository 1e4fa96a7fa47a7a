package engine

import (
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Tally is what a process tells its fleet about one dependency, and takes from it: the finished attempts that the breaker
// decides on, and the level of the bucket. Nothing is counted while the SDK is not shared. All methods may be called by
// many goroutines at once.
type Tally struct {
	dep    *Dependency
	bucket Bucket // when counting began
	start  int64  // its level then

	successes, failures, slow atomic.Uint64
}

// Share begins to count for the fleet, with every dependency there is and will be. False = it does so already, for
// somebody else: two views of one process would each take the other's counts for a third party's.
func (s *SDK) Share() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared {
		return false
	}
	s.shared = true
	for _, d := range s.deps {
		d.tally.Store(newTally(d))
	}
	return true
}

// Unshare ends what Share began: what other processes counted and owe is forgotten, and each bucket goes on from its
// level.
func (s *SDK) Unshare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = false
	for _, d := range s.deps {
		t := d.tally.Swap(nil)
		if t == nil {
			continue
		}
		d.kept.Load().Merge(time.Now(), 0, nil)
		if b := t.Bucket(); b.Level() < 0 {
			b.Move(b.Level(), 0)
		}
	}
}

// Tallies returns the tally of each dependency, by name; nothing while the SDK is not shared.
func (s *SDK) Tallies() []*Tally {
	dependencies := s.all()
	list := make([]*Tally, 0, len(dependencies))
	for _, d := range dependencies {
		if t := d.tally.Load(); t != nil {
			list = append(list, t)
		}
	}
	return list
}

func newTally(d *Dependency) *Tally {
	t := &Tally{dep: d}
	t.bucket = t.Bucket()
	t.start = t.bucket.Level()
	return t
}

// count adds a finished attempt, as the breaker sees it.
func (t *Tally) count(outcome breaker.Outcome, took, slow time.Duration) {
	switch outcome {
	case breaker.Success:
		t.successes.Add(1)
	case breaker.Failure:
		t.failures.Add(1)
	default:
		return
	}
	if slow > 0 && took >= slow {
		t.slow.Add(1)
	}
}

// Name returns the dependency's name.
func (t *Tally) Name() string { return t.dep.name }

// Window returns the window of the breaker; 0 = the newest catalog gives it none.
func (t *Tally) Window() time.Duration {
	return t.dep.policy.Load().profile.Breaker.Window
}

// Finished returns the successes, the failures, and the slow among both, since counting began.
func (t *Tally) Finished() [3]uint64 {
	return [3]uint64{t.successes.Load(), t.failures.Load(), t.slow.Load()}
}

// Merge tells the breaker what others have finished; see [breaker.Breaker.Merge].
func (t *Tally) Merge(at time.Time, period time.Duration, slices [][3]uint64) {
	t.dep.policy.Load().breaker.Merge(at, period, slices)
}

// Bucket is the part of a dependency's budget that a fleet can have in common. The zero value says that there is none:
// no budget, or one that counts over time and has no level.
type Bucket struct {
	Kind profiles.BudgetKind
	Full int64 // thousandths of a token
	// Debt is how far below zero the fleet's level may go: several processes that take from one level before they hear
	// of each other owe what they took too much.
	Debt int64

	bucket *bucket
}

// Bucket returns what the newest catalog says about the bucket.
func (t *Tally) Bucket() Bucket {
	p := t.dep.policy.Load()
	if p.bucket == nil || p.bucket.reserve != nil {
		return Bucket{}
	}
	b := Bucket{Kind: p.profile.Budget.Kind, Full: int64(p.profile.Budget.Burst) * wholeToken, bucket: p.bucket}
	if b.Kind != profiles.BudgetThrottle { // below half it refuses everything: it needs no debt
		b.Debt = b.Full
	}
	return b
}

// Start returns the bucket when counting began, and its level then.
func (t *Tally) Start() (Bucket, int64) { return t.bucket, t.start }

// Level returns the present level, in thousandths of a token.
func (b Bucket) Level() int64 {
	if b.bucket == nil {
		return 0
	}
	return b.bucket.level.Load()
}

// Move changes the level from one that Level returned to the fleet's. What was taken or paid in meanwhile is kept. It
// returns the level from which the next difference is to be counted, so that nothing is told twice or never.
func (b Bucket) Move(from, to int64) (base int64) {
	for {
		have := b.bucket.level.Load()
		next := min(max(have+to-from, -b.Debt), b.Full)
		if b.bucket.level.CompareAndSwap(have, next) {
			return next - (have - from)
		}
	}
}
