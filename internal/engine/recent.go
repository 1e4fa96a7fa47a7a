package engine

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// recentSize is how many of the last retries, and of the last refusals, are remembered. They are apart, so that the
// refusals of an open breaker do not push the retries out.
const recentSize = 100

// Recent is one final decision as the live page shows it. It says nothing that a caller or a callee chose freely, but for
// names that the codec has cut to size.
type Recent struct {
	At                  time.Time
	Dependency, Profile string
	Attempt             int // as in [Event]
	Reason, WouldDeny   ownership.Reason
	Hedge               bool
	Delay               time.Duration
	Claim               ownership.Claim
	Owner               string
	Status              int
	Entry               string // of the chain; "" = the call belonged to none
	Hop                 int    // of this service in it
	Trace               trace.TraceID
}

// recents are the last decisions. They are written on the way of a retry or a refusal only.
type recents struct{ retries, denials ring }

func (r *recents) add(e *Recent) {
	if e.Reason == ownership.ReasonAllowed {
		r.retries.add(e)
	} else {
		r.denials.add(e)
	}
}

// ring holds the last entries. Nobody waits: an entry whose place somebody holds at this moment takes the next one.
type ring struct {
	last  atomic.Uint64 // the latest entry's number, from 1
	slots [recentSize]recentSlot
}

type recentSlot struct {
	held   atomic.Bool // guards what follows
	number uint64      // 0 = empty
	entry  Recent
}

func (s *recentSlot) hold() bool { return s.held.CompareAndSwap(false, true) }
func (s *recentSlot) free()      { s.held.Store(false) }

func (r *ring) add(e *Recent) {
	for range 3 {
		n := r.last.Add(1)
		s := &r.slots[n%recentSize]
		if !s.hold() {
			continue
		}
		if n > s.number { // not when it was overtaken by a whole round
			s.number, s.entry = n, *e
		}
		s.free()
		return
	}
}

// list returns the entries, the latest first.
func (r *ring) list() []Recent {
	var list []Recent
	last := r.last.Load()
	for i := range uint64(recentSize) {
		if i >= last {
			break
		}
		n := last - i
		s := &r.slots[n%recentSize]
		if !s.hold() {
			continue // it is being written
		}
		if s.number == n {
			list = append(list, s.entry)
		}
		s.free()
	}
	return list
}

// Recent returns the last retries and the last refusals, the latest first, of those since [SDK.Watch].
func (s *SDK) Recent() (retries, denials []Recent) {
	r := s.live.recents.Load()
	if r == nil {
		return nil, nil
	}
	return r.retries.list(), r.denials.list()
}

// remember notes a final decision, if anybody watches.
func (c *Call) remember() {
	seen := c.dep.sdk.live.recents.Load()
	if seen == nil {
		return
	}
	d, r := &c.inTrouble().decision, &c.Result
	seen.add(&Recent{
		At: time.Now(), Dependency: c.dep.name, Profile: string(c.policy.profile.Name), Attempt: c.failedAttempt(), Reason: d.Reason,
		WouldDeny: d.would, Hedge: d.hedge, Delay: d.Delay, Claim: r.Claim, Owner: r.Owner, Status: r.Status,
		Entry: c.in.entry, Hop: int(c.in.hop), Trace: trace.SpanContextFromContext(c.parent).TraceID(),
	})
}

// remember notes a refusal before the first attempt that took the short way.
func (p *Policy) remember(ctx context.Context, in *Inbound) {
	seen := p.dep.sdk.live.recents.Load()
	if seen == nil {
		return
	}
	e := Recent{
		At: time.Now(), Dependency: p.dep.name, Profile: string(p.profile.Name), Reason: ownership.ReasonBreakerOpen, Owner: p.dep.slug,
		Trace: trace.SpanContextFromContext(ctx).TraceID(),
	}
	if in != nil {
		e.Entry, e.Hop = in.entry, int(in.hop)
	}
	seen.add(&e)
}
