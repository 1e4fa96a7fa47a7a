package engine

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/internal/instruments"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// meters is where the SDK's numbers are observed. The zero value is nowhere.
type meters struct {
	mu           sync.Mutex
	registration metric.Registration // nil = nowhere
	closed       bool
}

var errClosed = errors.New("chainbudget: the SDK is closed: call Instrument after New and before Close")

// Instrument lets a meter observe the numbers, in place of the one before; nil = none.
func (s *SDK) Instrument(meter metric.Meter) error {
	m := &s.meters
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed && meter != nil {
		return errClosed
	}
	err := m.unregister()
	if meter == nil {
		return err
	}
	registration, bad := instruments.Register(meter, s.service, s.collect)
	m.registration = registration
	return errors.Join(err, bad)
}

// unregister ends the observation. The lock is held.
func (m *meters) unregister() error {
	registration := m.registration
	m.registration = nil
	if registration == nil {
		return nil
	}
	return registration.Unregister()
}

// close ends the observation for good.
func (m *meters) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return m.unregister()
}

// collect tells every number there is. What is counted under labels is told once it is not zero: how many series there
// are depends on what the catalog and the code name, and on nothing that arrives.
func (s *SDK) collect(o *instruments.Observer) {
	c := &s.counters
	for word, n := range map[string]*atomic.Int64{
		"entry": &c.entries, "callee": &c.callees, "relayed": &c.relayed, "orphan": &c.orphans, "unreadable": &c.unreadable,
	} {
		o.Int(instruments.Requests, n.Load(), otelprop.AttrSource.String(word))
	}
	for i, word := range mintWords {
		o.Int(instruments.TokensMinted, c.minted[i].Load(), otelprop.AttrSource.String(word))
	}
	o.Int(instruments.TokensReturned, c.returned.Load())
	o.Int(instruments.TokensLost, c.lost.Load())
	o.Int(instruments.NoPurse, c.noPurse.Load())
	o.Int(instruments.ForeignRepeats, c.foreign.Load())
	o.Int(instruments.RepeatedGrants, c.repeatedGrants.Load())
	o.Int(instruments.HiddenRepeats, c.hiddenRepeats.Load())
	o.Int(instruments.BaggageDropped, c.baggageDropped.Load())
	o.Int(instruments.LearnedOtherwise, c.learnedOtherwise.Load())
	for i := range c.retriesByHop {
		some(o, instruments.RetriesByHop, &c.retriesByHop[i], otelprop.AttrHop.String(strconv.Itoa(i)))
	}
	for i := range c.rejects {
		o.Int(instruments.WireRejections, c.rejects[i].Load(), otelprop.AttrReason.String(otelprop.Reject(i).String()))
	}
	status := s.CatalogStatus()
	o.Int(instruments.CatalogGeneration, status.Generation.number)
	o.Int(instruments.CatalogRejections, status.Rejected)
	known := s.labels.all()
	for _, l := range known {
		if m := c.mismatches.look(l); m != nil {
			caller := otelprop.AttrCaller.String(l.name)
			some(o, instruments.ProfileMismatches, &m.divergent, caller, otelprop.AttrKind.String("divergent"))
			some(o, instruments.ProfileMismatches, &m.older, caller, otelprop.AttrKind.String("older"))
		}
		c.claimsSent.look(l).collect(o, instruments.ClaimsSent, otelprop.AttrOwner.String(l.name))
	}
	for _, d := range s.all() {
		d.collect(o, known)
	}
}

var mintWords = [mintCount]string{"entry", "start", "orphan", "no_purse"}

// some tells a number that is not zero.
func some(o *instruments.Observer, id instruments.ID, n *atomic.Int64, attributes ...attribute.KeyValue) {
	if n := n.Load(); n != 0 {
		o.Int(id, n, attributes...)
	}
}

// collect tells the claims that there were; c may be nil.
func (c *claimCounters) collect(o *instruments.Observer, id instruments.ID, attributes ...attribute.KeyValue) {
	if c == nil {
		return
	}
	for i := range c {
		some(o, id, &c[i], append(attributes, otelprop.AttrClaim.String(ownership.Claim(i).String()))...)
	}
}

func (d *Dependency) collect(o *instruments.Observer, known []*label) {
	name := otelprop.AttrDependency.String(d.name)
	p := d.policy.Load()
	o.Int(instruments.DependencyInfo, 1, name, otelprop.AttrProfile.String(string(p.profile.Name)),
		otelprop.AttrDigest.String(p.digest), otelprop.AttrMode.String(p.mode.String()))
	o.Int(instruments.RetriesDisabled, oneIf(d.disabled.Load()), name)
	if p.bucket != nil {
		o.Float(instruments.BudgetTokens, d.BudgetLevel(), name)
	}
	if p.breaker != nil {
		now := p.breaker.State()
		for state := breaker.Closed; state <= breaker.HalfOpen; state++ {
			o.Int(instruments.BreakerStatus, oneIf(state == now), name, otelprop.AttrState.String(state.String()))
		}
	}
	for i := range d.counters.changes {
		o.Int(instruments.BreakerChanges, d.counters.changes[i].Load(), name, otelprop.AttrState.String(breaker.State(i).String()))
	}
	for _, c := range d.counters.all() {
		c.collect(o, known, name, otelprop.AttrProfile.String(c.profile))
	}
}

func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// boundWords are the bounds of the attempts' times as labels.
var boundWords = func() (words [len(timeBounds) + 1]string) {
	for i, bound := range timeBounds {
		words[i] = strconv.FormatFloat(bound.Seconds(), 'g', -1, 64)
	}
	words[len(timeBounds)] = "+Inf"
	return words
}()

func (c *profileCounters) collect(o *instruments.Observer, known []*label, name, profile attribute.KeyValue) {
	o.Int(instruments.Calls, c.calls.Load(), name, profile)
	o.Int(instruments.Attempts, c.attempts.Load(), name, profile)
	var within, failures int64
	for i := range c.ended {
		within += c.ended[i].Load()
		o.Int(instruments.AttemptWithin, within, name, profile, otelprop.AttrWithin.String(boundWords[i]))
	}
	o.Float(instruments.AttemptTime, time.Duration(c.time.Load()).Seconds(), name, profile)
	o.Int(instruments.RetriesPrevented, c.prevented.Load(), name, profile)
	o.Int(instruments.RepeatedCalls, c.repeated.Load(), name, profile)
	o.Int(instruments.TokensLent, c.lent.Load(), name, profile)
	o.Int(instruments.TokensHome, c.home.Load(), name, profile)
	some(o, instruments.Holdout, &c.holdoutSucceeded, name, profile, otelprop.AttrOutcome.String("success"))
	some(o, instruments.Holdout, &c.holdoutFailed, name, profile, otelprop.AttrOutcome.String("failure"))
	for i := range c.wouldDeny {
		some(o, instruments.WouldDeny, &c.wouldDeny[i], name, profile, otelprop.AttrReason.String(ownership.Reason(i).String()))
	}
	for _, l := range known {
		c.entries.look(l).collect(o, name, profile, otelprop.AttrEntry.String(l.name))
		claims := c.claims.look(l)
		claims.collect(o, instruments.ClaimsReceived, name, profile, otelprop.AttrOwner.String(l.name))
		failures += claims.sum()
	}
	o.Int(instruments.AttemptFailures, failures, name, profile)
}

// sum is how many claims there were; c may be nil.
func (c *claimCounters) sum() (n int64) {
	if c == nil {
		return 0
	}
	for i := range c {
		n += c[i].Load()
	}
	return n
}

// collect tells the numbers of chains of one entry; c may be nil.
func (c *entryCounters) collect(o *instruments.Observer, name, profile, entry attribute.KeyValue) {
	if c == nil {
		return
	}
	some(o, instruments.Retries, &c.retries, name, profile, entry, otelprop.AttrKind.String("retry"))
	some(o, instruments.Retries, &c.hedges, name, profile, entry, otelprop.AttrKind.String("hedge"))
	for i := range c.denied {
		some(o, instruments.Denials, &c.denied[i], name, profile, entry, otelprop.AttrReason.String(ownership.Reason(i).String()))
	}
}
