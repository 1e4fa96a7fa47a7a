package breaker

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// model is the breaker without locks, rings, words and gobreaker: lists of everything, searched each time.
type model struct {
	p       profiles.Breaker
	jitter  float64
	base    time.Time
	state   State
	era     int
	start   time.Duration
	until   time.Duration
	changes []change

	events []modelEvent
	row    int
	theirs []modelSlice

	succeeded int
	used      map[int]bool   // their slots; which are free decides only which of two probes of one age is replaced first
	probes    []*modelPermit // out, of this era
	places    map[*modelPermit]bool
	why       string // what opened it, for coverage
}

type modelEvent struct {
	end      time.Duration // of its slice, after the start of the era
	ok, slow bool
}

type modelSlice struct {
	begin            time.Duration
	ok, failed, slow int
}

type modelPermit struct {
	era      int
	began    time.Duration
	probe    bool
	due      time.Duration
	slot     int
	replaced bool
}

func newModel(p profiles.Breaker, jitter float64) *model {
	return &model{p: p, jitter: jitter, base: time.Now(), places: map[*modelPermit]bool{}}
}

func (m *model) now() time.Duration     { return time.Since(m.base) }
func (m *model) off() bool              { return m.state == Closed && m.p.Window <= 0 }
func (m *model) period() time.Duration  { return (m.p.Window + 9) / 10 }
func (m *model) openFor() time.Duration { return time.Duration(float64(m.p.OpenFor) * m.jitter) }

func (m *model) probeTimeout() time.Duration {
	if m.p.ProbeTimeout > 0 {
		return m.p.ProbeTimeout
	}
	return m.p.OpenFor
}

func (m *model) enter(s State) {
	if s != m.state {
		m.changes = append(m.changes, change{m.state, s})
	}
	m.state, m.start = s, m.now()
	m.era++
	m.events, m.row, m.probes, m.succeeded, m.used = nil, 0, nil, 0, map[int]bool{}
	m.until = m.start + m.openFor()
}

func (m *model) shown() State {
	if m.state == Open && m.now() > m.until {
		return HalfOpen
	}
	return m.state
}

// flying is how many places are taken: those of this hour and of the one before.
func (m *model) flying() (n int) {
	hour := int(m.now() / time.Hour)
	for p := range m.places {
		if hour-int(p.began/time.Hour) <= 1 {
			n++
		} else {
			delete(m.places, p)
		}
	}
	return n
}

func (m *model) full(spare int) bool {
	return m.p.MaxInFlight > 0 && m.flying()-spare >= m.p.MaxInFlight
}

// allow returns the permit, nil if there is no breaker at present, or why not.
func (m *model) allow() (p *modelPermit, refused string) {
	now := m.now()
	if m.off() {
		return nil, ""
	}
	if m.state == Open && now <= m.until {
		return nil, "open"
	}
	if m.state != HalfOpen {
		if m.full(0) {
			return nil, "full"
		}
		if m.state == Open {
			m.enter(HalfOpen)
		}
	}
	p = &modelPermit{era: m.era, began: now}
	if m.state == HalfOpen {
		live, used := m.succeeded, maps.Clone(m.used)
		var victim *modelPermit
		for _, out := range m.probes {
			used[out.slot] = true
			if now <= out.due {
				live++
			}
			if victim == nil || out.due < victim.due || out.due == victim.due && out.slot < victim.slot {
				victim = out
			}
		}
		if live >= m.p.Probes {
			return nil, "half_open"
		}
		if m.succeeded+len(m.probes) < m.p.Probes {
			victim = nil
		}
		if m.full(map[bool]int{true: 1}[victim != nil && m.places[victim]]) {
			return nil, "full"
		}
		if victim != nil {
			m.drop(victim)
			delete(m.places, victim)
			victim.replaced = true
			p.slot = victim.slot
		} else {
			for used[p.slot] {
				p.slot++
			}
		}
		p.probe, p.due = true, now+m.probeTimeout()
		m.probes = append(m.probes, p)
	}
	if m.p.MaxInFlight > 0 {
		m.places[p] = true
	}
	return p, ""
}

func (m *model) drop(p *modelPermit) {
	for i, out := range m.probes {
		if out == p {
			m.probes = append(m.probes[:i:i], m.probes[i+1:]...)
			return
		}
	}
}

func (m *model) done(p *modelPermit, o Outcome) {
	if p == nil || p.replaced {
		return
	}
	delete(m.places, p)
	slow := m.p.SlowCall > 0 && m.p.SlowRatio > 0 && m.now()-p.began >= m.p.SlowCall
	if p.era != m.era {
		return
	}
	if p.probe {
		m.drop(p)
		switch {
		case o == Failure, o == Success && slow:
			m.why = "probe"
			m.enter(Open)
		case o == Success:
			m.succeeded++
			m.used[p.slot] = true
			if m.succeeded >= m.p.Probes {
				m.enter(Closed)
			}
		}
		return
	}
	if o == Ignored {
		return
	}
	age := (p.began - m.start) / m.period()
	m.events = append(m.events, modelEvent{end: (age + 1) * m.period(), ok: o == Success, slow: slow})
	if o == Success || m.p.ConsecutiveFailures <= 0 {
		m.row = 0
	} else {
		m.row++
	}
	if o == Failure || slow {
		m.judge("result")
	}
}

func (m *model) from() time.Duration {
	return ((m.now()-m.start)/m.period() - 9) * m.period()
}

func (m *model) counts() (ok, failed, slow int) {
	if m.off() {
		return 0, 0, 0
	}
	for _, e := range m.events {
		if e.end <= m.from() {
			continue
		}
		if e.ok {
			ok++
		} else {
			failed++
		}
		if e.slow {
			slow++
		}
	}
	return ok, failed, slow
}

func (m *model) merged() (ok, failed, slow int) {
	for _, s := range m.theirs {
		if (m.era == 0 || s.begin >= m.start) && s.begin >= m.now()-m.p.Window {
			ok, failed, slow = ok+s.ok, failed+s.failed, slow+s.slow
		}
	}
	return ok, failed, slow
}

func (m *model) judge(by string) {
	ok, failed, slow := m.counts()
	ok2, failed2, slow2 := m.merged()
	total := float64(ok + ok2 + failed + failed2)
	enough := total > 0 && total >= float64(m.p.MinRequests)
	switch {
	case m.p.ConsecutiveFailures > 0 && m.row >= m.p.ConsecutiveFailures:
		m.why = by + "/row"
	case enough && float64(failed+failed2)/total >= m.p.FailureRatio:
		m.why = by + "/failures"
	case enough && m.p.SlowCall > 0 && m.p.SlowRatio > 0 && float64(slow+slow2)/total >= m.p.SlowRatio:
		m.why = by + "/slow"
	default:
		return
	}
	m.enter(Open)
}

func (m *model) configure(p profiles.Breaker) {
	if p == m.p {
		return
	}
	old := m.p
	if wasOff := m.off(); wasOff || p.Window <= 0 {
		m.p = p
		m.enter(Closed)
		return
	}
	switch m.state {
	case Closed:
		if old.Window != p.Window {
			now := m.now() - m.start
			var kept []modelEvent
			oldFrom := m.from()
			m.p = p
			for _, e := range m.events {
				if e.end > oldFrom && min(e.end, now+1) > m.from() {
					kept = append(kept, modelEvent{min(e.end, now+1), e.ok, e.slow})
				}
			}
			m.events = kept
		}
		m.p = p
		if p.ConsecutiveFailures <= 0 {
			m.row = 0
		}
		m.judge("configure")
	case Open:
		m.p = p
		m.until = min(m.until, m.now()+m.openFor())
	case HalfOpen:
		m.p = p
		if m.succeeded >= p.Probes {
			m.enter(Closed)
		}
	}
}

func (m *model) merge(at time.Duration, period time.Duration, slices [][3]uint64) {
	m.theirs = nil
	at = min(at, m.now())
	for i, s := range slices {
		m.theirs = append(m.theirs, modelSlice{at - time.Duration(i+1)*period, int(s[0]), int(s[1]), int(s[2])})
	}
	if _, failed, slow := m.merged(); m.state == Closed && !m.off() && failed+slow > 0 {
		m.judge("merge")
	}
}

// Whatever happens, in whatever order and at whatever time, also to its settings: the breaker does what the model does.
func TestProperty_does_what_the_model_does(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed_", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { against(t, seed, seen) })
		})
	}
	t.Log(seen)
	for _, what := range []string{
		"closed", "open", "half_open", "off", "refused/open", "refused/half_open", "refused/full", "replaced",
		"result/row", "result/failures", "result/slow", "merge/failures", "merge/slow",
		"configure/row", "configure/failures", "configure/slow", "probe", "closed by configure", "surplus probes",
	} {
		require.NotZero(t, seen[what], "the histories never had: %s; only %v", what, seen)
	}
}

func against(t *testing.T, seed uint64, seen map[string]int) {
	random := rand.New(rand.NewPCG(seed, 2))
	pick := func(list ...int) int { return list[random.IntN(len(list))] }
	ms := func(list ...int) time.Duration { return time.Duration(pick(list...)) * time.Millisecond }
	vary := func(p profiles.Breaker) profiles.Breaker {
		switch random.IntN(12) {
		case 0:
			p.Window = ms(1000, 1001, 333, 10_000)
		case 1:
			p.FailureRatio = float64(pick(10, 30, 50, 100)) / 100
		case 2:
			p.MinRequests = pick(1, 5, 20)
		case 3:
			p.Probes = pick(1, 2, 3, 5)
		case 4:
			p.OpenFor = ms(100, 1000, 5000)
		case 5:
			p.ProbeTimeout = ms(0, 50, 700)
		case 6, 9, 10:
			p.ConsecutiveFailures = pick(0, 2, 3, 5, 9)
		case 7:
			p.SlowCall, p.SlowRatio = ms(0, 0, 20, 200), float64(pick(20, 60, 100))/100
		default:
			p.MaxInFlight = pick(0, 0, 3, 10, 30)
		}
		return p
	}
	p := settings()
	for range 8 {
		p = vary(p)
	}
	var hooked []change
	b := New("payments", p, func(_ string, from, to State) { hooked = append(hooked, change{from, to}) })
	b.jitter = 0.8 + 0.4*random.Float64() // a seed is a history
	b.phase().rules.openFor = b.rulesOf(p).openFor
	m := newModel(p, b.jitter)
	type running struct {
		permit Permit
		model  *modelPermit
	}
	var calls []running
	last := p
	for step := range 2500 {
		switch op := random.IntN(100); {
		case m.state == Open && op < 30:
			time.Sleep(m.until - m.now() + time.Duration(random.IntN(2))) // up to the last instant, or beyond
		case op < 40 || len(calls) == 0:
			want := b.Refuses()
			permit, err := b.Allow()
			if want != err {
				t.Fatalf("step %d: Allow %v, Refuses %v", step, err, want)
			}
			mp, refused := m.allow()
			got := ""
			if open, ok := errors.AsType[*OpenError](err); ok {
				switch {
				case open.MaxInFlight > 0:
					got = "full"
				case open.until > 0:
					got = "open"
				default:
					got = "half_open"
				}
			}
			if got != refused {
				t.Fatalf("step %d: refused by %q, want %q", step, got, refused)
			}
			if refused != "" {
				seen["refused/"+refused]++
			} else if random.IntN(100) > 0 { // one in 100 never ends
				calls = append(calls, running{permit, mp})
			}
			if m.state == HalfOpen && len(m.probes)+m.succeeded > m.p.Probes {
				seen["surplus probes"]++
			}
		case op < 80:
			i := random.IntN(len(calls))
			c := calls[i]
			calls[i] = calls[len(calls)-1]
			calls = calls[:len(calls)-1]
			o := Success
			switch roll := random.IntN(100); {
			case roll < 5:
				o = Ignored
			case roll < 5+badShare(step):
				o = Failure
			}
			if c.model != nil && c.model.replaced {
				seen["replaced"]++
			}
			before := len(m.changes)
			b.Done(&c.permit, o)
			m.done(c.model, o)
			if len(m.changes) > before && m.state == Open {
				seen[m.why]++
			}
		case op < 87:
			next := vary(last)
			if random.IntN(40) == 0 {
				next = profiles.Breaker{}
			} else {
				last = next
			}
			before := len(m.changes)
			b.Configure(next)
			m.configure(next)
			if len(m.changes) > before {
				if m.state == Open {
					seen[m.why]++
				} else if m.changes[before].from == HalfOpen && m.p.Enabled() {
					seen["closed by configure"]++
				}
			}
		case op < 90:
			var slices [][3]uint64
			for range pick(0, 1, 3, 10, 20) {
				ok, failed := uint64(random.IntN(8)), uint64(random.IntN(1+badShare(step)/16))
				slices = append(slices, [3]uint64{ok, failed, random.Uint64N(ok + failed + 1)})
			}
			if random.IntN(2) == 0 {
				slices = nil
			}
			at, period := time.Duration(random.IntN(200)-150)*time.Millisecond, ms(10, 33, 100, 1000)
			before := len(m.changes)
			b.Merge(time.Now().Add(at), period, slices)
			m.merge(m.now()+at, period, slices)
			if len(m.changes) > before {
				seen[m.why]++
			}
		default:
			steps := []time.Duration{m.period() / 4, m.period(), m.p.Window, 5 * time.Millisecond, 60 * time.Millisecond, m.openFor()}
			if random.IntN(100) == 0 || m.full(0) && random.IntN(4) == 0 {
				steps = []time.Duration{3 * time.Hour}
			}
			time.Sleep(time.Duration(random.Int64N(1 + int64(steps[random.IntN(len(steps))]))))
		}
		if b.State() != m.shown() {
			t.Fatalf("step %d: %v, want %v", step, b.State(), m.shown())
		}
		if len(hooked) != len(m.changes) || len(hooked) > 0 && hooked[len(hooked)-1] != m.changes[len(hooked)-1] {
			t.Fatalf("step %d: changes %v, want %v", step, hooked, m.changes)
		}
		wantOK, wantFailed := 0, 0
		switch m.state {
		case Closed:
			wantOK, wantFailed, _ = m.counts()
		case HalfOpen:
			wantOK = m.succeeded
		}
		if ok, failed := b.Counts(); int(ok) != wantOK || int(failed) != wantFailed {
			t.Fatalf("step %d: %v, %d and %d, want %d and %d", step, m.state, ok, failed, wantOK, wantFailed)
		}
		seen[m.state.String()]++
		if m.off() {
			seen["off"]++
		}
	}
}
