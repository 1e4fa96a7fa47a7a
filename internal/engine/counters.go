package engine

import (
	"sync/atomic"

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
	minted, lost                                            atomic.Int64
	foreign, repeatedGrants, hiddenRepeats                  atomic.Int64
	baggageDropped, learnedOtherwise                        atomic.Int64
	mismatched, older                                       atomic.Int64
	rejects                                                 [len(otelprop.Rejects{})]atomic.Int64
	claimsSent                                              [claimCount]atomic.Int64
	retriesByHop                                            [otelprop.MaxHop + 1]atomic.Int64
}

// dependencyCounters are the numbers of one dependency.
type dependencyCounters struct {
	calls, attempts, retries, repeated atomic.Int64
	hedges                             atomic.Int64
	lent, home                         atomic.Int64
	holdout, holdoutSucceeded          atomic.Int64
	denied, wouldDeny                  [reasonCount]atomic.Int64
	claims                             [claimCount]atomic.Int64
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

// Totals reads the counters.
func (s *SDK) Totals() Totals {
	c := &s.counters
	t := Totals{
		Entries: c.entries.Load(), Callees: c.callees.Load(), Relayed: c.relayed.Load(), Orphans: c.orphans.Load(),
		Unreadable: c.unreadable.Load(), NoPurse: c.noPurse.Load(), Minted: c.minted.Load(), Lost: c.lost.Load(),
		Foreign: c.foreign.Load(), RepeatedGrants: c.repeatedGrants.Load(), HiddenRepeats: c.hiddenRepeats.Load(),
		BaggageDropped: c.baggageDropped.Load(), LearnedOtherwise: c.learnedOtherwise.Load(),
		Mismatched: c.mismatched.Load(), Older: c.older.Load(), RetriesByHop: make(map[int]int64),
		Rejects: make(map[string]int64), ClaimsSent: make(map[string]int64),
		Dependencies: make(map[string]DependencyTotals),
	}
	for i := range c.rejects {
		if n := c.rejects[i].Load(); n != 0 {
			t.Rejects[otelprop.Reject(i).String()] = n
		}
	}
	for i := range c.claimsSent {
		if n := c.claimsSent[i].Load(); n != 0 {
			t.ClaimsSent[ownership.Claim(i).String()] = n
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
	c := &d.counters
	t := DependencyTotals{
		Calls: c.calls.Load(), Attempts: c.attempts.Load(), Retries: c.retries.Load(), Hedges: c.hedges.Load(), RepeatedCalls: c.repeated.Load(),
		Lent: c.lent.Load(), Home: c.home.Load(), Holdout: c.holdout.Load(), HoldoutSucceeded: c.holdoutSucceeded.Load(),
		Denied: make(map[string]int64), WouldDeny: make(map[string]int64), Claims: make(map[string]int64),
	}
	for i := range c.denied {
		if n := c.denied[i].Load(); n != 0 {
			t.Denied[ownership.Reason(i).String()] = n
		}
		if n := c.wouldDeny[i].Load(); n != 0 {
			t.WouldDeny[ownership.Reason(i).String()] = n
		}
	}
	for i := range c.claims {
		if n := c.claims[i].Load(); n != 0 {
			t.Claims[ownership.Claim(i).String()] = n
		}
	}
	return t
}
