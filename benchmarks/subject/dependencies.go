package subject

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Many is how many dependencies a process has where the path says so.
const Many = 10_000

// stride takes an operation from one dependency to another far away. It has no divisor in common with Many, so that all
// have their turn before one has a second.
const stride = 7919

// many are first attempts to Many dependencies in turn, each with a breaker and a budget of its own. The workers share
// them, and begin at different ones.
func many() []Subject {
	const path = "transport/10000_dependencies"
	return []Subject{
		spread(path, SDK, func(s *stage) spreadWay {
			s.client = newSDK(catalog)
			return spreadWay{
				wrap: func(i int, base http.RoundTripper) http.RoundTripper {
					return newTransport(base, named(s.client, dependencyName(i), "plain"))
				},
				context: func() context.Context { return s.inRequest(s.client) },
			}
		}),
		spread(path, Bare, each(bare)),
		spread(path, Failsafe, each(failsafeOn(terms{}))),
		spread(path, ByHand, each(byHandOn(terms{}))),
	}
}

// spreadWay is a layer for each of many dependencies.
type spreadWay struct {
	wrap    func(dependency int, base http.RoundTripper) http.RoundTripper
	context func() context.Context
}

// each makes one layer for each dependency.
func each(open func(*stage) layer) func(*stage) spreadWay {
	return func(s *stage) spreadWay {
		return spreadWay{
			wrap:    func(_ int, base http.RoundTripper) http.RoundTripper { return open(s).wrap(base) },
			context: s.serverContext,
		}
	}
}

func spread(path, who string, open func(*stage) spreadWay) Subject {
	return Subject{Path: path, Who: who, open: func() *stage {
		s := new(stage)
		way := open(s)
		trips, targets := make([]http.RoundTripper, Many), make([]string, Many)
		for i := range trips {
			trips[i] = way.wrap(i, &callee{tally: s.tally()})
			targets[i] = "http://" + dependencyName(i) + ".internal/v1/charges"
		}
		workers := 0
		s.worker = func() Op {
			ctx, next := way.context(), workers*Many/16
			workers++
			return func() error {
				next = (next + stride) % Many
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, targets[next], nil)
				if err != nil {
					return err
				}
				return send(trips[next], req, http.StatusOK)
			}
		}
		return s
	}}
}

func dependencyName(i int) string { return "payments-" + strconv.Itoa(i) }

// Held is how many bytes of heap one dependency holds.
type Held struct {
	Made, One, Twenty float64       // before any request, after one, after 20
	Making            time.Duration // how long it took to make one
}

// PerDependency measures a subject of Many dependencies, and takes time off clock.
func PerDependency(path, who string, clock func() time.Duration) (Held, error) {
	s, err := Find(path, who)
	if err != nil {
		return Held{}, err
	}
	before := liveHeap()
	begin := clock()
	run := s.Open()
	defer run.Close()
	making := (clock() - begin) / Many
	op := run.Worker()
	each := func() float64 { return float64(liveHeap()-before) / Many }
	send := func(rounds int) (float64, error) {
		for range rounds * Many {
			if err := op(); err != nil {
				return 0, err
			}
		}
		return each(), nil
	}
	held := Held{Made: each(), Making: making}
	if held.One, err = send(1); err != nil {
		return Held{}, err
	}
	if held.Twenty, err = send(19); err != nil {
		return Held{}, err
	}
	return held, op() // so that all was still in use
}
