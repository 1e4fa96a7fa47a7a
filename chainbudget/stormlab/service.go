package stormlab

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// service is one service of a cell.
type service struct {
	*Service
	name     string
	index    int
	cell     *cell
	policy   Policy
	sdk      *engine.SDK // nil = it has none
	edges    []*edge
	faults   []fault
	station  *station
	source   stream
	visits   uint64
	outside  uint64 // requests from there
	inside   int
	underWay int // requests and calls to it, on their way too
	calling  int // requests that wait for its calls
	template http.Request

	entry, inner http.Handler // where chains begin, and where they go on
	bare         http.Handler // without the SDK
}

func (c *cell) newService(of *Service, index int) *service {
	s := &service{
		Service: of, name: of.Name, index: index, cell: c, policy: c.variant.policy(of.Name),
		station: newStation(of.Workers, of.Queue), source: streamOf(c.scenario.Seed, c.number, "service", of.Name),
	}
	s.template = http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: s.name, Path: "/"}, Host: s.name,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, Header: http.Header{},
	}
	s.bare = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.handle(r.Context()); err != nil {
			w.WriteHeader(statusOf(err))
		}
	})
	if s.policy.Kind != PolicySDK {
		s.entry, s.inner = s.bare, s.bare
		return s
	}
	s.sdk = c.sdk(s.name)
	next := s.bare
	if !s.PlainErrors {
		next = budgethttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error { return s.handle(r.Context()) })
	}
	s.entry = budgethttp.NewHandler(next, (*chainbudget.SDK)(s.sdk), budgethttp.Entry())
	s.inner = budgethttp.NewHandler(next, (*chainbudget.SDK)(s.sdk))
	return s
}

// failure is a failure of the service's own.
type failure int

// Error implements error.
func (f failure) Error() string { return http.StatusText(int(f)) }

// HTTPStatus is what is answered.
func (f failure) HTTPStatus() int { return int(f) }

func statusOf(err error) int {
	if f, ok := err.(failure); ok {
		return int(f)
	}
	return http.StatusBadGateway
}

// handle is what the service does for one request.
func (s *service) handle(ctx context.Context) (err error) {
	c := s.cell
	v := ctx.Value(visitKey{}).(*visit)
	n := s.visits
	s.visits++
	now := c.now()
	c.ledger.arrived(s, now)
	defer func() { c.ledger.answered(s, c.now(), c.now()-now, err) }()
	if s.MaxInFlight > 0 && s.inside >= s.MaxInFlight {
		c.ledger.rejected(s, now)
		return failure(http.StatusServiceUnavailable)
	}
	s.inside++
	defer func() { s.inside-- }()
	end := v.until(ctx)
	work := s.Work.draw(s.source.share(n, drawWork))
	for i := range s.faults {
		f := &s.faults[i]
		if !f.meets(now) || f.Share < 1 && s.source.share(n, drawFault+draws(i)<<8) >= f.Share {
			continue
		}
		switch f.Kind {
		case FaultError:
			return failure(f.Status)
		case FaultSlow:
			work = int64(min(float64(work)*f.Factor, float64(maxLatency)))
		case FaultHang:
			c.pass(min(end, now+int64(hangs)), end)
			return failure(http.StatusServiceUnavailable)
		case FaultDropContext:
			ctx = v
		}
	}
	if work > 0 {
		done, ok := s.station.accept(now, work+s.source.blur(n, drawWork+1<<8))
		if !ok {
			c.ledger.rejected(s, now)
			return failure(http.StatusServiceUnavailable)
		}
		if !c.pass(done, end) {
			return failure(http.StatusGatewayTimeout)
		}
	}
	fails := s.Failure > 0 && s.source.share(n, drawFailure) < s.Failure
	if fails && !s.FailsLate {
		return failure(http.StatusServiceUnavailable)
	}
	if err := s.calls(ctx, v); err != nil {
		return err
	}
	if fails {
		return failure(http.StatusServiceUnavailable)
	}
	return nil
}

// hangs is after what time a request that hangs is answered after all.
const hangs = time.Minute

// calls makes the calls that the service needs for the request that v is.
func (s *service) calls(ctx context.Context, v *visit) error {
	if len(s.edges) == 0 {
		return nil
	}
	s.calling++
	defer func() { s.calling-- }()
	if s.Parallel {
		return s.callsAtOnce(ctx, v)
	}
	for k, e := range s.edges {
		for n := range s.times(k, v) {
			s.cell.enter(e.to)
			err := e.call(ctx, v, v.lane, v.needOf(k, n))
			s.cell.leave(e.to)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// times is how often call k is made for the request that v is.
func (s *service) times(k int, v *visit) int {
	call := &s.Calls[k]
	if call.Share > 0 && call.Share < 1 && v.need.share(uint64(k), drawCall) >= call.Share {
		return 0
	}
	return max(call.Times, 1)
}

// callsAtOnce makes them on goroutines of their own, each with a lane and an instant to begin at. It needs all of them, and
// answers when the last one has ended.
func (s *service) callsAtOnce(ctx context.Context, v *visit) error {
	var calls sync.WaitGroup
	var failed error // of the first call in order that failed
	at := math.MaxInt
	order := 0
	for k, e := range s.edges {
		for n := range s.times(k, v) {
			if s.cell.enter(e.to); s.cell.crowd != nil {
				s.cell.leave(e.to)
				break
			}
			*v.lanes++
			lane, place, need := *v.lanes, order, v.needOf(k, n)
			order++
			calls.Add(1)
			s.cell.crew.start(s.cell.reserve(0, 0), func() {
				defer calls.Done()
				defer s.cell.leave(e.to)
				if err := e.call(ctx, v, lane, need); err != nil && place < at {
					failed, at = err, place
				}
			})
		}
	}
	calls.Wait()
	if s.cell.crowd != nil {
		return errCrowd
	}
	return failed
}

// fault is one that may meet a service's requests.
type fault struct {
	Fault
	from, until int64
}

func faultOf(f *Fault) fault {
	made := fault{Fault: *f, from: int64(f.From), until: int64(f.Until)}
	if made.until == 0 {
		made.until = math.MaxInt64
	}
	if made.Share == 0 {
		made.Share = 1
	}
	if made.Status == 0 {
		made.Status = http.StatusServiceUnavailable
	}
	return made
}

func (f *fault) meets(now int64) bool { return now >= f.from && now < f.until }

// unreachable returns the fault that keeps a caller's request n from the service now, or "". From outside there is no caller.
func (s *service) unreachable(now int64, caller string, source stream, n uint64) FaultKind {
	for i := range s.faults {
		f := &s.faults[i]
		away := f.Kind == FaultCrash || f.Kind == FaultCut && (f.Caller == "" || f.Caller == caller)
		if away && f.meets(now) && (f.Share == 1 || source.share(n, drawFault+draws(i)<<8) < f.Share) {
			return f.Kind
		}
	}
	return ""
}

// withoutSDK reports whether the service is one without the SDK now, and whether it drops baggage, too.
func (s *service) withoutSDK(now int64) (bare, drops bool) {
	for i := range s.faults {
		if f := &s.faults[i]; f.meets(now) {
			bare = bare || f.Kind == FaultNoSDK || f.Kind == FaultNoBaggage
			drops = drops || f.Kind == FaultNoBaggage
		}
	}
	return bare, drops
}
