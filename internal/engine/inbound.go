package engine

import (
	"context"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// Inbound is one inbound request, or one chain of its own: its purse and its tracker. It is made by value inside an
// adapter's per-request state and must not be copied after [SDK.Arrive]. The methods may be called by many goroutines.
type Inbound struct {
	Purse
	Tracker ownership.Tracker

	sdk *SDK
	// generation is the catalog in force when the request arrived.
	generation *Generation
	arrived    time.Time // zero for the purse of one call

	ctx   inboundContext
	wire  otelprop.Request
	entry string
	limit uint8
	hop   uint8
	owes  bool
	// Route names the inbound operation, by a pattern or a method's name and never by a raw path. The adapter sets it; it
	// is asked when the request has been routed.
	Route interface{ Operation() string }
	// Idempotent is set by the adapter when the catalog lists the inbound operation as idempotent.
	Idempotent bool

	callees callees
}

// Arrival is what an adapter knows about a request when it arrives.
type Arrival struct {
	// Generation is the catalog that the request was read by; nil = the newest.
	Generation *Generation
	// Entry makes the request an entry: Wire is ignored, and Budget tokens are minted.
	Entry  bool
	Budget int
	// Wire is what the request brought, Rejects what of it was not taken.
	Wire    otelprop.Request
	Rejects otelprop.Rejects
	// Foreign says that something between the hops counted this request as a repetition.
	Foreign bool
}

// Arrive opens the purse of an inbound request.
func (s *SDK) Arrive(in *Inbound, a Arrival) {
	in.sdk, in.generation, in.arrived = s, a.Generation, time.Now()
	if in.generation == nil {
		in.generation = s.Generation()
	}
	s.CountRejects(&a.Rejects)
	switch {
	case a.Entry:
		s.counters.entries.Add(1)
		in.mint(a.Budget, mintEntry)
	case a.Wire.State == otelprop.Absent:
		if n := s.counters.orphans.Add(1); n == orphansBeforeWarning {
			s.warnOrphans()
		}
		in.mint(in.generation.catalog.Chain.OrphanBudget, mintOrphan)
	default:
		in.receive(&a)
	}
}

// receive opens the purse with what a caller granted.
func (in *Inbound) receive(a *Arrival) {
	s := in.sdk
	in.wire = a.Wire
	s.load.arrived(a.Wire.Attempt)
	in.entry, in.limit, in.hop = a.Wire.Entry, a.Wire.Limit, a.Wire.Hop
	in.owes = a.Wire.Direct
	grant := int(a.Wire.Grant) // I4: the codec has clamped it
	switch {
	case a.Wire.State == otelprop.Unreadable:
		s.counters.unreadable.Add(1)
		in.entry, grant = "unknown", 0
		in.owes = false
	case a.Wire.Direct:
		s.counters.callees.Add(1)
		s.compare(in.generation, &a.Wire)
	default:
		s.counters.relayed.Add(1)
	}
	if a.Foreign {
		s.counters.foreign.Add(1)
		grant = 0
	}
	if grant > 0 && s.nonces.seen(a.Wire.Nonce, in.arrived) {
		s.counters.repeatedGrants.Add(1)
		grant = 0
	}
	in.open(grant, false)
}

func (in *Inbound) mint(tokens int, why mint) {
	s := in.sdk
	in.entry = s.entrySlug
	in.open(tokens, true)
	in.limit = in.granted
	s.counters.minted[why].Add(int64(in.granted))
}

const orphansBeforeWarning = 100

func (s *SDK) warnOrphans() {
	c := &s.counters
	if known := c.entries.Load() + c.callees.Load() + c.relayed.Load(); known >= orphansBeforeWarning/2 {
		return
	}
	s.warnOnce("orphans", "chainbudget: most requests arrive without a budget: if chains begin here, make the handler an Entry()",
		"service", s.service)
}

// Start opens the purse of a chain that begins here without an inbound request.
func (s *SDK) Start(parent context.Context) (*Inbound, context.Context) {
	g := s.Generation()
	in := &Inbound{sdk: s, generation: g, arrived: time.Now()}
	in.mint(g.catalog.Chain.Budget, mintStart)
	return in, in.Context(parent)
}

// orphan opens a purse for one call whose context belongs to no request.
func (s *SDK) orphan(g *Generation) *Inbound {
	s.counters.noPurse.Add(1)
	in := &Inbound{sdk: s, generation: g}
	in.mint(g.catalog.Chain.OrphanBudget, mintNoPurse)
	return in
}

// now is time.Now. It reads one clock where time.Now reads two.
func (in *Inbound) now() time.Time {
	if in.arrived.IsZero() {
		return time.Now()
	}
	return in.arrived.Add(time.Since(in.arrived))
}

// Context returns parent with the request in it.
func (in *Inbound) Context(parent context.Context) context.Context {
	in.ctx = inboundContext{Context: parent, in: in}
	return &in.ctx
}

// FromContext returns the request or chain that ctx belongs to, or nil.
func FromContext(ctx context.Context) *Inbound {
	in, _ := ctx.Value(ctxkey.Inbound{}).(*Inbound)
	return in
}

// inboundContext is the context of an inbound request; it is part of the Inbound, so that it costs no allocation.
type inboundContext struct {
	context.Context
	in *Inbound
}

func (c *inboundContext) Value(key any) any {
	switch key.(type) {
	case ctxkey.Inbound:
		return c.in
	case ctxkey.Tracker:
		return &c.in.Tracker
	case ctxkey.Call, ctxkey.Attempt:
		return nil // a call further up is another service's, or this one's before the request came in
	}
	return c.Context.Value(key)
}

// SDK returns the SDK that the request arrived at.
func (in *Inbound) SDK() *SDK { return in.sdk }

// Generation returns the catalog that holds for the request.
func (in *Inbound) Generation() *Generation { return in.generation }

// Owes reports whether the caller waits for a return.
func (in *Inbound) Owes() bool { return in.owes }

// Keep sets up to n tokens aside for after the return has gone out.
func (in *Inbound) Keep(n int) int { return in.keep(n) }

// Return closes the purse and makes the return that its tokens go home in. It is made once, as the response's headers
// go out; a later one brings nothing home.
func (in *Inbound) Return(v ownership.Verdict) otelprop.Return {
	c, returned := &in.sdk.counters, in.close()
	c.claimsSent.at(in.sdk.label(v.Owner))[v.Claim].Add(1)
	if returned > 0 {
		c.returned.Add(int64(returned))
	}
	return otelprop.Return{
		Returned: uint8(returned),
		Retries:  uint8(min(in.retries.Load()+in.below.Load(), otelprop.MaxTokens)),
		Claim:    v.Claim,
		Nonce:    in.wire.Nonce,
		Leaf:     in.callees.none(),
		Effects:  v.Effects,
		Owner:    v.Owner,
		Depth:    uint8(min(max(v.Depth, 0), otelprop.MaxDepth)),
	}
}

// End is called when the handler is done: what the purse still holds can no longer be used.
func (in *Inbound) End() {
	unused := in.held()
	in.end()
	if in.owes && unused > 0 { // the caller waits for them; what was minted here merely lapses
		in.sdk.counters.lost.Add(int64(unused))
	}
}
