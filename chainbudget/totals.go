package chainbudget

import "github.com/chainbudget/chainbudget-go/profiles"

// Totals is one reading of an SDK's numbers since [New]. The values are read one after the other: a reading under load
// is not one moment.
type Totals struct {
	// Entries, Callees, Relayed, Orphans and Unreadable count inbound requests by what they brought; NoPurse counts
	// calls whose context belonged to no request.
	Entries, Callees, Relayed, Orphans, Unreadable, NoPurse int64
	// Minted counts tokens made here. Lost counts those of which nobody knows what became: leases without a return, and
	// tokens kept back from a return and not used. What an entry minted and did not need lapses, and is not lost.
	Minted, Lost int64
	// Foreign counts inbound requests that something between the hops said it had repeated, RepeatedGrants those whose
	// grant had already arrived, HiddenRepeats requests that the transport below wanted to repeat on its own.
	Foreign, RepeatedGrants, HiddenRepeats int64
	// BaggageDropped counts foreign baggage members that found no room beside the SDK's own.
	BaggageDropped int64
	// Rejects counts wire input that was not taken as it stood, by the reason's word.
	Rejects map[string]int64
	// ClaimsSent counts answers by the claim sent up.
	ClaimsSent map[string]int64
	// RetriesByHop counts the retries made here by the hop's distance from the entry of its chain, 0 at the entry itself:
	// the spread over the services of a chain is the radius of a retry storm.
	RetriesByHop map[int]int64
	// LearnedOtherwise counts failures whose cause learned edges would have found elsewhere, while they only observe.
	LearnedOtherwise int64
	// Mismatched counts inbound requests whose caller uses another profile than the catalog pins, Older those whose caller
	// uses what the catalog said before, within chain.grace. See [SDK.Mismatches].
	Mismatched, Older int64
	// Dependencies has the numbers of each dependency by name.
	Dependencies map[string]DependencyTotals
}

// DependencyTotals is one reading of a dependency's numbers.
type DependencyTotals struct {
	// Calls, Attempts and Retries: attempts include the first of each call, retries do not.
	Calls, Attempts, Retries int64
	// Hedges counts the hedges sent; they are in Attempts and in Retries, too.
	Hedges int64
	// RepeatedCalls counts calls to an operation that had already failed in the same request.
	RepeatedCalls int64
	// Lent and Home count tokens that went out in leases and came back.
	Lent, Home int64
	// Holdout counts retries that ownership refused and that went out all the same, to measure it (chain.holdout);
	// HoldoutSucceeded how many of those succeeded: what ownership gave up wrongly.
	Holdout, HoldoutSucceeded int64
	// Denied counts refused retries by reason, WouldDeny those that a milder mode let through.
	Denied, WouldDeny map[string]int64
	// Claims counts failed attempts by the claim that came with them.
	Claims map[string]int64
}

// Mismatches returns the callers of this service that use, or used, other profiles than the catalog pins for what the
// service serves, by name: at most 256, those beyond count as "other". A caller is compared when it calls directly and
// says what it uses, and only if the catalog pins a profile for everything that this service serves.
func (s *SDK) Mismatches() []profiles.Mismatch {
	if !s.engine().Usable() {
		return nil
	}
	return s.engine().Mismatches()
}

// Totals reads the SDK's numbers.
func (s *SDK) Totals() Totals {
	if !s.engine().Usable() {
		return Totals{}
	}
	t := s.engine().Totals()
	dependencies := make(map[string]DependencyTotals, len(t.Dependencies))
	for name, d := range t.Dependencies {
		dependencies[name] = DependencyTotals(d)
	}
	return Totals{
		Entries: t.Entries, Callees: t.Callees, Relayed: t.Relayed, Orphans: t.Orphans, Unreadable: t.Unreadable,
		NoPurse: t.NoPurse, Minted: t.Minted, Lost: t.Lost, Foreign: t.Foreign, RepeatedGrants: t.RepeatedGrants,
		HiddenRepeats: t.HiddenRepeats, BaggageDropped: t.BaggageDropped, Rejects: t.Rejects, ClaimsSent: t.ClaimsSent,
		RetriesByHop: t.RetriesByHop, LearnedOtherwise: t.LearnedOtherwise,
		Mismatched: t.Mismatched, Older: t.Older,
		Dependencies: dependencies,
	}
}
