package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// reasonCount is how many reasons there are, ReasonAllowed included.
const reasonCount = int(ownership.ReasonDeadline) + 1

// claimCount is how many claims there are.
const claimCount = int(ownership.ClaimStop) + 1

// counters are the SDK's own numbers. They are added to on the request path and read by whoever watches.
type counters struct {
	entries, callees, relayed, orphans, noPurse, unreadable atomic.Int64
	minted                                                  [mintCount]atomic.Int64
	returned, lost                                          atomic.Int64
	foreign, repeatedGrants, hiddenRepeats                  atomic.Int64
	baggageDropped, learnedOtherwise                        atomic.Int64
	mismatches                                              byLabel[mismatchCounters] // by caller
	rejects                                                 [len(otelprop.Rejects{})]atomic.Int64
	claimsSent                                              byLabel[claimCounters] // by owner
	retriesByHop                                            [otelprop.MaxHop + 1]atomic.Int64
}

// mint is why tokens are made.
type mint uint8

const (
	mintEntry mint = iota
	mintStart
	mintOrphan
	mintNoPurse

	mintCount = int(mintNoPurse) + 1
)

type (
	mismatchCounters struct{ divergent, older atomic.Int64 }
	claimCounters    [claimCount]atomic.Int64
	entryCounters    struct {
		retries, hedges atomic.Int64 // retries without the hedges
		denied          [reasonCount]atomic.Int64
	}
)

// profileCounters are the numbers of one dependency under one profile: what a call counts stays with the profile that it
// really ran on.
type profileCounters struct {
	// What every call adds to comes first, so that it is one line of a processor's cache. ended counts the attempts that
	// ended within each bound and not within the one before, time their nanoseconds.
	calls, attempts, time atomic.Int64
	ended                 [len(timeBounds) + 1]atomic.Int64

	repeated, prevented             atomic.Int64
	lent, home                      atomic.Int64
	holdout                         atomic.Int64 // when they go out
	holdoutSucceeded, holdoutFailed atomic.Int64
	wouldDeny                       [reasonCount]atomic.Int64
	entries                         byLabel[entryCounters]
	claims                          byLabel[claimCounters] // by owner

	profile string
}

// timeBounds are the bounds of the attempts' times.
var timeBounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// end counts an attempt that was answered or has failed.
func (c *profileCounters) end(took time.Duration) {
	i := 0
	for i < len(timeBounds) && took > timeBounds[i] {
		i++
	}
	c.ended[i].Add(1)
	c.time.Add(int64(took))
}

// dependencyCounters are the numbers of one dependency.
type dependencyCounters struct {
	mu       sync.Mutex
	profiles []*profileCounters // one for each profile that it has had

	changes [breaker.HalfOpen + 1]atomic.Int64 // of the breaker, by the new state
}

// of returns the counters under a profile.
func (c *dependencyCounters) of(profile string) *profileCounters {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.profiles) >= maxProfiles && !slices.ContainsFunc(c.profiles, func(p *profileCounters) bool { return p.profile == profile }) {
		profile = otherLabel
	}
	for _, p := range c.profiles {
		if p.profile == profile {
			return p
		}
	}
	made := &profileCounters{profile: profile}
	c.profiles = append(c.profiles, made)
	return made
}

// all returns the counters under every profile.
func (c *dependencyCounters) all() []*profileCounters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.profiles)
}

// Totals is one reading of the numbers; chainbudget.Totals, which has the same shape, says what they mean.
type Totals struct {
	Entries, Callees, Relayed, Orphans, Unreadable, NoPurse int64
	Minted, Lost                                            int64
	Foreign, RepeatedGrants, HiddenRepeats                  int64
	BaggageDropped                                          int64
	Rejects                                                 map[string]int64
	ClaimsSent                                              map[string]int64
	RetriesByHop                                            map[int]int64
	LearnedOtherwise                                        int64
	Mismatched, Older                                       int64
	Dependencies                                            map[string]DependencyTotals
}

// DependencyTotals is the same for one dependency; see chainbudget.DependencyTotals.
type DependencyTotals struct {
	Calls, Attempts, Retries int64
	Hedges                   int64
	RepeatedCalls            int64
	Lent, Home               int64
	Holdout                  int64
	HoldoutSucceeded         int64
	Denied, WouldDeny        map[string]int64
	Claims                   map[string]int64
}

// Tokens returns how many tokens were minted here and how many are lost, as [SDK.Totals] does, which costs more.
func (s *SDK) Tokens() (minted, lost int64) {
	for i := range s.counters.minted {
		minted += s.counters.minted[i].Load()
	}
	return minted, s.counters.lost.Load()
}

// Totals reads the counters.
func (s *SDK) Totals() Totals {
	c := &s.counters
	t := Totals{
		Entries: c.entries.Load(), Callees: c.callees.Load(), Relayed: c.relayed.Load(), Orphans: c.orphans.Load(),
		Unreadable: c.unreadable.Load(), NoPurse: c.noPurse.Load(), Lost: c.lost.Load(),
		Foreign: c.foreign.Load(), RepeatedGrants: c.repeatedGrants.Load(), HiddenRepeats: c.hiddenRepeats.Load(),
		BaggageDropped: c.baggageDropped.Load(), LearnedOtherwise: c.learnedOtherwise.Load(),
		RetriesByHop: make(map[int]int64),
		Rejects:      make(map[string]int64), ClaimsSent: make(map[string]int64),
		Dependencies: make(map[string]DependencyTotals),
	}
	for i := range c.minted {
		t.Minted += c.minted[i].Load()
	}
	c.mismatches.each(func(m *mismatchCounters) {
		t.Mismatched += m.divergent.Load()
		t.Older += m.older.Load()
	})
	c.claimsSent.each(func(sent *claimCounters) { sent.addTo(t.ClaimsSent) })
	for i := range c.rejects {
		if n := c.rejects[i].Load(); n != 0 {
			t.Rejects[otelprop.Reject(i).String()] = n
		}
	}
	for i := range c.retriesByHop {
		if n := c.retriesByHop[i].Load(); n != 0 {
			t.RetriesByHop[i] = n
		}
	}
	for _, d := range s.all() {
		t.Dependencies[d.name] = d.totals()
	}
	return t
}

func (d *Dependency) totals() DependencyTotals {
	t := DependencyTotals{Denied: make(map[string]int64), WouldDeny: make(map[string]int64), Claims: make(map[string]int64)}
	for _, c := range d.counters.all() {
		t.Calls += c.calls.Load()
		t.Attempts += c.attempts.Load()
		t.RepeatedCalls += c.repeated.Load()
		t.Lent += c.lent.Load()
		t.Home += c.home.Load()
		t.Holdout += c.holdout.Load()
		t.HoldoutSucceeded += c.holdoutSucceeded.Load()
		c.entries.each(func(e *entryCounters) {
			hedges := e.hedges.Load()
			t.Hedges += hedges
			t.Retries += e.retries.Load() + hedges
			addReasons(t.Denied, &e.denied)
		})
		addReasons(t.WouldDeny, &c.wouldDeny)
		c.claims.each(func(claims *claimCounters) { claims.addTo(t.Claims) })
	}
	return t
}

// addReasons adds what is not zero to totals by the reason's word.
func addReasons(to map[string]int64, counts *[reasonCount]atomic.Int64) {
	for i := range counts {
		if n := counts[i].Load(); n != 0 {
			to[ownership.Reason(i).String()] += n
		}
	}
}

// addTo adds what is not zero to totals by the claim's word.
func (c *claimCounters) addTo(to map[string]int64) {
	for i := range c {
		if n := c[i].Load(); n != 0 {
			to[ownership.Claim(i).String()] += n
		}
	}
}
