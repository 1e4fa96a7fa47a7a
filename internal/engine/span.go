package engine

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/internal/instruments"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// recording returns the span of ctx, or nil if nobody reads what is written into it.
func recording(ctx context.Context) trace.Span {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		return span
	}
	return nil
}

// traceDecision writes the final decision into the span around the call.
func (c *Call) traceDecision() {
	span := recording(c.parent)
	if span == nil {
		return
	}
	d, r := &c.inTrouble().decision, &c.Result
	name := otelprop.EventDenied
	if d.Allowed() {
		name = otelprop.EventRetry
	}
	attributes := append(make([]attribute.KeyValue, 0, 12),
		instruments.Valid(otelprop.AttrDependency.String(c.dep.name)),
		instruments.Valid(otelprop.AttrProfile.String(string(c.policy.profile.Name))),
		otelprop.AttrAttempt.Int(c.failedAttempt()),
		otelprop.AttrReason.String(d.Reason.String()),
		otelprop.AttrHedge.Bool(d.hedge),
		otelprop.AttrDelayMillis.Float64(Millis(d.Delay)),
		otelprop.AttrClaim.String(r.Claim.String()),
		otelprop.AttrOwner.String(r.Owner),
	)
	if d.would != ownership.ReasonAllowed {
		attributes = append(attributes, otelprop.AttrWouldDeny.String(d.would.String()))
	}
	span.AddEvent(name, trace.WithAttributes(c.in.appendAttributes(attributes)...))
}

// traceClaim writes what a handler's failure says to its caller into the handler's span.
func (in *Inbound) traceClaim(ctx context.Context, v *ownership.Verdict) {
	span := recording(ctx)
	if span == nil {
		return
	}
	attributes := append(make([]attribute.KeyValue, 0, 7),
		otelprop.AttrClaim.String(v.Claim.String()),
		otelprop.AttrOwner.String(v.Owner),
		otelprop.AttrOwnerDepth.Int(v.Depth),
		instruments.Valid(otelprop.AttrWhy.String(v.Why)),
	)
	span.AddEvent(otelprop.EventClaim, trace.WithAttributes(in.appendAttributes(attributes)...))
}

// appendAttributes appends where in its chain the request is, and what it holds.
func (in *Inbound) appendAttributes(list []attribute.KeyValue) []attribute.KeyValue {
	entry, hop, tokens := in.Standing()
	return append(list, otelprop.AttrEntry.String(entry), otelprop.AttrHop.Int(hop), otelprop.AttrTokens.Int(tokens))
}

// Standing returns where in its chain the request is, and the tokens that it holds now.
func (in *Inbound) Standing() (entry string, hop, tokens int) {
	return in.entry, int(in.hop), in.held()
}

// Millis returns d in milliseconds, as spans and logs tell durations.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// turns are the breaker's latest changes of state that no span has told yet. A change is told by the call that caused it,
// or else, where that one's span does not record or the change came with a catalog or from another process, by the next
// call that sees it. Nothing is allocated but for a change.
type turns struct{ untold atomic.Pointer[[]turn] }

type turn struct {
	from, to breaker.State
	at       time.Time
}

const (
	maxTurns = 8                // of those that nobody has told, the latest
	turnsFor = 10 * time.Second // a span of later than that would only look for a cause in the wrong place
)

// note is called at each change.
func (t *turns) note(_ string, from, to breaker.State) {
	next := turn{from, to, time.Now()}
	for {
		old := t.untold.Load()
		var list []turn
		if old != nil {
			list = append(list, (*old)[max(0, len(*old)+1-maxTurns):]...)
		}
		list = append(list, next)
		if t.untold.CompareAndSwap(old, &list) {
			return
		}
	}
}

// tell writes what has not been told into the span of ctx.
func (d *Dependency) tell(ctx context.Context, now time.Time) {
	if list := d.turns.untold.Load(); list != nil {
		d.tellAll(ctx, now, list)
	}
}

func (d *Dependency) tellAll(ctx context.Context, now time.Time, list *[]turn) {
	span := recording(ctx)
	if span == nil {
		if now.Sub((*list)[len(*list)-1].at) > turnsFor { // until then another call's span may record
			d.turns.untold.CompareAndSwap(list, nil)
		}
		return
	}
	if list = d.turns.untold.Swap(nil); list == nil {
		return
	}
	for _, t := range *list {
		age := max(0, now.Sub(t.at))
		if age > turnsFor {
			continue
		}
		span.AddEvent(otelprop.EventBreaker, trace.WithAttributes(
			instruments.Valid(otelprop.AttrDependency.String(d.name)),
			otelprop.AttrState.String(t.to.String()),
			otelprop.AttrStateBefore.String(t.from.String()),
			otelprop.AttrAgeMillis.Float64(Millis(age)),
		))
	}
}

// allow asks the breaker for an attempt.
func (c *Call) allow(now time.Time) (breaker.Permit, error) {
	permit, err := c.policy.breaker.AllowAt(now)
	c.dep.tell(c.parent, now)
	return permit, err
}
