package stormlab

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// cell is one copy of the fleet, in one bubble of virtual time. Its goroutines wake at different instants, so that one of
// them runs at a time, and what they write here needs no lock.
type cell struct {
	*clock
	scenario *Scenario
	variant  *Variant
	number   int
	stop     *atomic.Bool
	progress *atomic.Int64 // intervals that are over

	network  Latency
	services []*service
	ledger   *ledger
	counted  *ledger // what the run has come to: ledger, but for an overrun
	underWay int     // requests from outside and calls
	most     int     // that may be
	crowd    *crowd  // nil = there were never more
	crew     *crew
	running  sync.WaitGroup // what comes from outside
}

// newCell builds the fleet. It is called in the bubble.
func newCell(s *Scenario, v *Variant, number, most int, stop *atomic.Bool, progress *atomic.Int64) *cell {
	c := &cell{clock: newClock(), scenario: s, variant: v, number: number, most: most, stop: stop, progress: progress, network: s.Network}
	if c.network == (Latency{}) {
		c.network = Latency{Min: 200 * time.Microsecond, Max: 400 * time.Microsecond}
	}
	c.ledger, c.crew = newLedger(s), &crew{clock: c.clock}
	c.counted = c.ledger
	index := make(map[string]*service, len(s.Services))
	for i := range s.Services {
		made := c.newService(&s.Services[i], i)
		c.services = append(c.services, made)
		index[made.name] = made
	}
	for _, caller := range c.services {
		for k := range caller.Calls {
			caller.edges = append(caller.edges, c.newEdge(caller, index[caller.Calls[k].To], k))
		}
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		to := index[f.Service]
		to.faults = append(to.faults, faultOf(f))
	}
	return c
}

// run lets all traffic in, and returns when the last request has ended.
func (c *cell) run() {
	for i := range c.scenario.Traffic {
		t := &c.scenario.Traffic[i]
		var to *service
		for _, s := range c.services {
			if s.name == t.To {
				to = s
			}
		}
		source := streamOf(c.scenario.Seed, c.number, "traffic", fmt.Sprintf("%s#%d", t.To, i))
		until := t.Until
		if until == 0 || until > c.scenario.Duration {
			until = c.scenario.Duration
		}
		if t.Clients > 0 {
			c.clients(t, to, source, int64(until))
			continue
		}
		a := &arrivals{cell: c, to: to, source: source, even: t.Even, at: float64(t.From), until: float64(until), gap: float64(time.Second) * float64(c.cells()) / t.Rate}
		if t.Even { // the first one at once, and those of the cells in turn
			a.at += a.gap * (float64(c.number)/float64(c.cells()) - 1)
		}
		a.next(0)
	}
	c.running.Add(1)
	go c.watch()
	c.running.Wait()
	synctest.Wait() // whoever has just ended is idle now
	c.crew.dismiss()
	if c.crowd == nil {
		c.counted.close(c.services)
	}
}

func (c *cell) cells() int { return max(c.scenario.Cells, 1) }

// watch takes down what changes without an event of its own, at the end of each interval.
func (c *cell) watch() {
	defer c.running.Done()
	interval := int64(c.scenario.interval())
	for i := range c.scenario.intervals() {
		c.sleepUntil(min(int64(i+1)*interval, int64(c.scenario.Duration)))
		if c.ended() {
			return
		}
		c.ledger.look(i, c.services)
		c.progress.Add(1)
	}
}

// arrivals are requests that come by themselves.
type arrivals struct {
	cell   *cell
	to     *service
	source stream
	even   bool
	at     float64 // of the latest, in nanoseconds like the others
	until  float64
	gap    float64 // mean time between two
}

// next makes request n come in its time. Whoever makes a request first says when the next one comes, so that a request
// needs no goroutine to wait for but its own.
func (a *arrivals) next(n uint64) {
	c := a.cell
	if a.even {
		a.at += a.gap
	} else {
		a.at -= a.gap * math.Log(1-a.source.share(n, drawWork))
	}
	if a.at >= a.until || c.ended() {
		return
	}
	at := c.reserve(int64(a.at), 0)
	c.running.Add(1)
	c.crew.start(at, func() {
		defer c.running.Done()
		a.next(n + 1)
		c.request(a.to, a.source.of(n, drawNeed), true)
	})
}

// clients are those that ask again and again.
func (c *cell) clients(t *Traffic, to *service, source stream, until int64) {
	for i := c.number; i < t.Clients; i += c.cells() {
		first := int64(t.From) + int64(source.share(uint64(i), drawWork)*float64(t.Every))
		if first >= until {
			continue
		}
		at := c.reserve(first, 0)
		c.running.Add(1)
		go func() {
			defer c.running.Done()
			c.wait(at)
			source, wish := source.of(uint64(i), drawNeed), uint64(0) // what has failed it asks for again
			for !c.ended() {
				began, every := c.now(), t.Every
				if c.request(to, source.of(wish, drawNeed), false) {
					wish++
				} else if t.RetryEvery > 0 {
					every = t.RetryEvery
				}
				next := max(began+int64(every), c.now()+1)
				if next >= until {
					return
				}
				c.sleepUntil(next)
			}
		}()
	}
}

// request makes one request from outside and reports whether it succeeded. need says what it is about, expected that it would
// have come at this time whatever had happened before.
func (c *cell) request(to *service, need stream, expected bool) bool {
	began := c.now()
	c.ledger.sent(to, began, expected)
	c.enter(to)
	defer c.leave(to)
	n := to.outside
	to.outside++
	if to.unreachable(began, "", to.source, n) != "" { // whoever asked has no answer, and is not there any more
		c.ledger.ended(false, began, 0)
		c.publish()
		return false
	}
	v := &visit{cell: c, to: to, lanes: new(int), need: need, giveUp: math.MaxInt64, client: context.Background(), request: make(http.Header)}
	handler := to.entry
	if len(to.faults) > 0 && to.sdk != nil {
		if bare, _ := to.withoutSDK(began); bare {
			handler = to.bare
		}
	}
	ok := v.serve(handler, &to.template)
	c.ledger.ended(ok, c.now(), c.now()-began)
	c.ledger.storm(v.storm, c.now())
	c.publish()
	return ok
}

// woken orders calls that the SDK has woken; see [engine.Config].
func (c *cell) woken(ctx context.Context) {
	lane := 0
	if f, _ := ctx.Value(frameKey{}).(*frame); f != nil {
		lane = f.lane
	}
	c.order(lane)
}

// sdk makes the SDK of a service.
func (c *cell) sdk(name string) *engine.SDK {
	source := streamOf(c.scenario.Seed, c.number, "sdk", name)
	var drawn atomic.Uint64
	draw := func() uint64 { return source.bits(drawn.Add(1), drawWork) }
	sdk := new(engine.SDK)
	sdk.Init(engine.Config{
		Service: name, Catalog: c.variant.catalog(),
		Random: func(n int64) int64 { return int64(draw() % uint64(n)) },
		Nonce:  func() uint32 { return uint32(draw()) },
		Woken:  c.woken,
	})
	return sdk
}
