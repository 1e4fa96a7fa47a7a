package chainbudgettest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Chain is a chain of services over real HTTP servers on loopback: an entry, and below it the hops hop1, hop2 and so on,
// each of which calls the next. All are made up, but for those that Services puts in their place, and go wrong as Faults
// says. [Chain.Run] sends requests down and checks what every chain must keep, whatever goes wrong.
type Chain struct {
	// Handler and Transport are an adapter's server side and client side, which the made-up hops run on:
	//
	//	Handler:   func(next http.Handler, sdk *chainbudget.SDK) http.Handler { return budgethttp.NewHandler(next, sdk) },
	//	Transport: budgethttp.NewTransport,
	Handler   func(next http.Handler, sdk *chainbudget.SDK) http.Handler
	Transport func(base http.RoundTripper, dep *chainbudget.Dependency) http.RoundTripper
	// Depth is how many hops there are below the entry, 1 to 20; 0 is 1.
	Depth int
	// FanOut is how many calls each made-up hop makes to the next one, one after the other, 1 to 10; 0 is 1. It makes all
	// of them, and fails if one of them fails.
	FanOut int
	// Requests is how many requests are sent, one after the other; 0 is 1.
	Requests int
	// Catalog is the text of the catalog file of the entry and all made-up hops, for whom hops are dependencies of their
	// own names with the profile chain. Empty is three tokens and four attempts of 1 s each, every other gate open.
	Catalog string
	// Services are the services under test, by the hop in whose place they stand: 1 is what the entry calls.
	Services map[int]func(Place) http.Handler
	// Faults is the plan of what goes wrong. Of several faults of one hop the first that is left happens.
	Faults []Fault
}

// Place is where a service under test stands in a [Chain].
type Place struct {
	// Base belongs below the transport that the service calls the next hop with: it watches what leaves.
	Base http.RoundTripper
	// Next is the URL of the next hop, "" at the end of the chain.
	Next string
}

// defaultCatalog is that of a chain that brings none.
const defaultCatalog = `version: 1
chain: {budget: 3}
profiles:
  chain:
    extends: read-heavy
    retry: {max_attempts: 4, attempt_timeout: 1s}
    budget: disabled
    breaker: disabled
    availability_floor: 0%
`

const chainProfile profiles.Name = "chain"

const (
	maxDepth  = 20
	maxFanOut = 10
	// attemptID tells a hop's server which attempt a request is; the hop does not see it.
	attemptID = "X-Chainbudgettest-Attempt"
)

func hopName(hop int) string { return fmt.Sprintf("hop%d", hop) }

// Run sends the requests, ends the servers and checks, with every purse that can be seen and against what was on the wire:
//
//   - no more retries than tokens were minted, and no service reached more often on one path than one and those (I1, I2);
//   - every purse adds up, and no hop gives out more than it has got (I3);
//   - no token is lost without a fault that explains it;
//   - no failure that came back as unclaimed, or asked to stop, was retried, or went up as claimed.
//
// The error lists what was violated, with the [Outcome] drawn as a tree. It is also returned for a Chain that makes no
// sense, then without an Outcome. The checks are those of mode enforce; from a catalog in a milder mode the last, or all,
// do not follow and are not made. Run ends with ctx at the latest.
func (c Chain) Run(ctx context.Context) (*Outcome, error) {
	r, err := c.build(ctx)
	if err != nil {
		return nil, err
	}
	for range max(c.Requests, 1) {
		r.request(ctx)
	}
	r.close()
	return r.outcome()
}

// run is one run of a chain.
type run struct {
	chain    Chain
	catalog  *profiles.Catalog
	depth    int
	fanOut   int
	faults   []Fault // what is left of the plan
	servers  []*httptest.Server
	base     *http.Transport
	entry    *chainbudget.SDK
	first    http.RoundTripper
	requests []*visit // the entry's

	mu       sync.Mutex
	attempts []*attempt // all, by their ids
	strays   []*attempt // whose context belongs to no request
}

// build checks the chain and starts its servers, from the last hop to the first.
func (c Chain) build(ctx context.Context) (*run, error) {
	r := &run{chain: c, depth: max(c.Depth, 1), fanOut: max(c.FanOut, 1), faults: slices.Clone(c.Faults)}
	text := c.Catalog
	if text == "" {
		text = defaultCatalog
	}
	catalog, err := profiles.Load([]byte(text), "the catalog of the chain")
	problems := []error{err}
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("chainbudgettest: "+format, args...))
	}
	if c.Handler == nil || c.Transport == nil {
		bad("the chain has no adapter: set Handler and Transport, for instance to budgethttp's")
	}
	if c.Depth < 0 || c.Depth > maxDepth || c.FanOut < 0 || c.FanOut > maxFanOut {
		bad("Depth is %d and FanOut %d: at most %d and %d", c.Depth, c.FanOut, maxDepth, maxFanOut)
	}
	for hop, service := range c.Services {
		if hop < 1 || hop > r.depth || service == nil {
			bad("Services has nothing to put in the place of hop %d: hops are 1 to Depth, which is %d", hop, r.depth)
		}
	}
	for i, f := range c.Faults {
		if why := f.problem(r); why != "" {
			bad("Faults[%d] (%s): %s", i, f, why)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	r.catalog = catalog
	r.base = &http.Transport{DisableKeepAlives: true} // what net/http replays on a connection that died would not be on the plan
	next := ""
	for hop := r.depth; hop >= 1; hop-- {
		if next, err = r.start(ctx, hop, next); err != nil {
			r.close()
			return nil, err
		}
	}
	r.entry = r.sdk("entry")
	if r.first, err = r.client(r.entry, 1); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// sdk is that of a made-up service.
func (r *run) sdk(service string) *chainbudget.SDK {
	sdk := new(engine.SDK)
	sdk.Init(engine.Config{Service: service, Catalog: r.catalog, Mode: profiles.ModeInherit, NoSleep: true, Strict: true})
	return (*chainbudget.SDK)(sdk)
}

// client is a made-up service's to the next hop.
func (r *run) client(sdk *chainbudget.SDK, next int) (http.RoundTripper, error) {
	dep, err := sdk.Dependency(hopName(next), chainProfile)
	if err != nil {
		return nil, err
	}
	return r.chain.Transport(meter{run: r, hop: next}, dep), nil
}

// start starts the server of a hop and returns its URL.
func (r *run) start(ctx context.Context, hop int, next string) (url string, err error) {
	var h http.Handler
	if service := r.chain.Services[hop]; service != nil {
		if h = service(Place{Base: meter{run: r, hop: hop + 1}, Next: next}); h == nil {
			return "", fmt.Errorf("chainbudgettest: the service in the place of hop %d has no handler", hop)
		}
	} else {
		sdk := r.sdk(hopName(hop))
		logic := &madeUp{run: r, hop: hop, next: next}
		if next != "" {
			if logic.client, err = r.client(sdk, hop+1); err != nil {
				return "", err
			}
		}
		h = r.chain.Handler(logic, sdk)
	}
	s := httptest.NewUnstartedServer(&door{run: r, hop: hop, next: h})
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // what breaks is part of the plan
	s.Start()
	r.servers = append(r.servers, s)
	return s.URL + "/", nil
}

// close ends the servers, and with them every handler.
func (r *run) close() {
	for _, s := range slices.Backward(r.servers) {
		s.Close()
	}
	r.base.CloseIdleConnections()
}

// request sends one request from the entry down.
func (r *run) request(parent context.Context) {
	ctx, end := chainbudget.Start(parent, r.entry)
	defer end()
	in := engine.FromContext(ctx)
	v := &visit{number: len(r.requests) + 1, purse: in, granted: in.Balance().Granted}
	r.requests = append(r.requests, v)
	v.status = http.StatusOK
	if err := r.call(context.WithValue(ctx, visitKey{}, v), r.first, r.servers[len(r.servers)-1].URL+"/", 1); err != nil {
		v.status = http.StatusServiceUnavailable
	}
	v.held = in.Balance().Held
}

// call makes one call, and returns its failure.
func (r *run) call(ctx context.Context, client http.RoundTripper, url string, number int) error {
	ctx = context.WithValue(ctx, callKey{}, number)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// Calls of one hop ask different things: they are no repetitions of each other.
	req.URL.RawQuery = fmt.Sprintf("call=%d", number)
	resp, err := client.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
		return &statusError{status: resp.StatusCode}
	}
	return nil
}

// statusError is the failure of a call that got an answer.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("status %d", e.status) }

// madeUp is the handler of a hop that only calls the next one.
type madeUp struct {
	run    *run
	hop    int
	next   string
	client http.RoundTripper
}

// ServeHTTP implements [http.Handler].
func (m *madeUp) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	ctx := req.Context()
	v, _ := ctx.Value(visitKey{}).(*visit)
	if v == nil {
		http.Error(w, "not of this chain", http.StatusNotFound)
		return
	}
	v.purse = engine.FromContext(ctx)
	switch v.fault {
	case Fails:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case DropsContext:
		lost := context.WithValue(context.Background(), visitKey{}, v)
		bounded, cancel := context.WithCancel(lost)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		ctx = bounded
	}
	if m.client == nil {
		return
	}
	var failed []error
	for i := range m.run.fanOut {
		if err := m.run.call(ctx, m.client, m.next, i+1); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}
