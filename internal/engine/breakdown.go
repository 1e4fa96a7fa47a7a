package engine

// Breakdown is one dependency's part of what [Totals] sums up, by whom it is about. The names are those of labels: "other"
// stands for those that nobody has declared, "" for none.
type Breakdown struct {
	Claims    map[string]map[string]int64 // failed attempts by owner, and by the claim that came with them
	Entries   map[string]EntryTotals      // by the entry of the chain
	Prevented int64                       // retries that did not go out for the sake of others
}

// EntryTotals are a dependency's numbers in the chains of one entry. Retries include the hedges.
type EntryTotals struct {
	Retries, Hedges int64
	Denied          map[string]int64
}

// Breakdown reads the counters.
func (d *Dependency) Breakdown() Breakdown {
	b := Breakdown{Claims: make(map[string]map[string]int64), Entries: make(map[string]EntryTotals)}
	known := d.sdk.labels.all()
	for _, c := range d.counters.all() {
		b.Prevented += c.prevented.Load()
		for _, l := range known {
			c.claims.look(l).addUnder(l.name, b.Claims)
			e := c.entries.look(l)
			if e == nil {
				continue
			}
			t := b.Entries[l.name]
			if t.Denied == nil {
				t.Denied = make(map[string]int64)
			}
			hedges := e.hedges.Load()
			t.Retries += e.retries.Load() + hedges
			t.Hedges += hedges
			addReasons(t.Denied, &e.denied)
			b.Entries[l.name] = t
		}
	}
	return b
}

// addUnder adds what is not zero under a name; c may be nil.
func (c *claimCounters) addUnder(name string, to map[string]map[string]int64) {
	if c.sum() == 0 {
		return
	}
	if to[name] == nil {
		to[name] = make(map[string]int64)
	}
	c.addTo(to[name])
}

// Flow is what became of tokens and answers, in more parts than [Totals] has.
type Flow struct {
	Minted     map[string]int64            // by what for: entry, start, orphan, no_purse
	Returned   int64                       // to callers
	ClaimsSent map[string]map[string]int64 // by owner, and by claim
}

// Flow reads the counters.
func (s *SDK) Flow() Flow {
	f := Flow{Minted: make(map[string]int64), Returned: s.counters.returned.Load(), ClaimsSent: make(map[string]map[string]int64)}
	for i, word := range mintWords {
		f.Minted[word] = s.counters.minted[i].Load()
	}
	for _, l := range s.labels.all() {
		s.counters.claimsSent.look(l).addUnder(l.name, f.ClaimsSent)
	}
	return f
}
