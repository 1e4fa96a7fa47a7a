package chainbudgettest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

const (
	// patience ends what hangs; nothing that conforms comes near it.
	patience = 10 * time.Second
	// attemptTime is the attempt timeout of cases about it.
	attemptTime = 250 * time.Millisecond
)

// stage is where one case runs.
type stage struct {
	testing.TB
	a Adapter
}

// rules is the catalog of a case: all gates but those that it is about are open.
type rules struct {
	profile string // lines that change the profile, such as `retry: {max_attempts: 2}`
	chain   string // settings of the chain, such as "budget: 3"; "" = the usual ones
	rest    string // lines at the end
}

const suiteProfile profiles.Name = "suite"

func (r rules) option() Option {
	chain := "budget: 3, max_budget: 10, orphan_budget: 1"
	if r.chain != "" {
		chain = r.chain
	}
	var b strings.Builder
	b.WriteString(`version: 1
chain: {` + chain + `}
profiles:
  suite-base:
    extends: read-heavy
    retry: {max_attempts: 4, attempt_timeout: 0s, statuses: [503]}
    budget: disabled
    breaker: disabled
    availability_floor: 0%
  suite:
    extends: suite-base
`)
	for _, line := range strings.Split(r.profile, "\n") {
		b.WriteString("    " + line + "\n")
	}
	b.WriteString(r.rest)
	return Catalog(b.String())
}

// sdk returns the SDK of a service.
func (s *stage) sdk(service string, r rules, options ...Option) *Recorder {
	s.Helper()
	return New(s.TB, append([]Option{Service(service), r.option()}, options...)...)
}

// sleeping makes backoffs last as long as they may.
func sleeping() Option {
	return Option{apply: func(c *engine.Config) {
		c.NoSleep = false
		c.Random = func(n int64) int64 { return n - 1 }
	}}
}

// dial returns a client of the adapter for the dependency that all cases call.
func (s *stage) dial(rec *Recorder, address string) Client {
	s.Helper()
	return s.a.Dial(s.TB, Link{Address: address, Dependency: rec.Dependency("callee", suiteProfile)})
}

// outsider returns a client without the SDK.
func (s *stage) outsider(address string) Client {
	s.Helper()
	return s.a.Dial(s.TB, Link{Address: address})
}

// chain begins a chain at rec, with the tokens of the case's catalog. It ends with the test.
func (s *stage) chain(rec *Recorder) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	ctx, end := chainbudget.Start(ctx, rec.SDK)
	s.Cleanup(func() { end(); cancel() })
	return ctx
}

// context is one of no chain.
func (s *stage) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.Cleanup(cancel)
	return ctx
}

// balance returns the account of the chain or request that ctx belongs to; it must be conserved (I3).
func (s *stage) balance(ctx context.Context) engine.Balance {
	s.Helper()
	in := engine.FromContext(ctx)
	if in == nil {
		s.Fatal("the context belongs to no request")
	}
	b := in.Balance()
	if sum := b.Held + b.Lent + b.Spent + b.Lost + b.Returned; sum != b.Granted {
		s.Errorf("I3: held, lent, spent, lost and returned are %d, granted %d: %+v", sum, b.Granted, b)
	}
	return b
}

// header makes a header map of names and values.
func (s *stage) header(pairs ...string) http.Header {
	h := make(http.Header)
	for i := 0; i+1 < len(pairs); i += 2 {
		name := pairs[i]
		if s.a.Spell != nil {
			name = s.a.Spell(name)
		}
		h[name] = append(h[name], pairs[i+1])
	}
	return h
}

// lines returns all values of a header, however its name is spelled.
func lines(h http.Header, name string) (values []string) {
	for k, v := range h {
		if strings.EqualFold(k, name) {
			values = append(values, v...)
		}
	}
	return values
}

// expect fails the case unless got is want.
func expect[T comparable](s *stage, what string, got, want T) {
	s.Helper()
	if got != want {
		s.Errorf("%s: %v, want %v", what, got, want)
	}
}

// succeeded fails the case unless the call came to a success with that body.
func (s *stage) succeeded(a Answer, body string) {
	s.Helper()
	if a.Err != nil || a.Cut != nil || a.Denied != nil || a.Status != http.StatusOK || a.Body != body {
		s.Errorf("the call came to %v; want a success with body %q", &a, body)
	}
}

// denied fails the case unless the call failed and its retries ended for that reason.
func (s *stage) denied(a Answer, reason ownership.Reason) {
	s.Helper()
	if a.Denied == nil || a.Denied.Reason != reason {
		s.Errorf("the call came to %v; want a failure whose retries end with %v", &a, reason)
	}
}

// arrival is one request as it came to a server without the SDK.
type arrival struct {
	Received
	wire otelprop.Request
}

// readArrival reads what a request brought.
func readArrival(r Received) arrival {
	wire, _ := otelprop.ReadRequest(lines(r.Header, otelprop.BaggageHeader), lines(r.Header, otelprop.RequestHeader), otelprop.MaxTokens)
	return arrival{Received: r, wire: wire}
}

// callee is a service without the SDK, which records what arrives.
type callee struct {
	address  string
	released chan struct{} // closed when the case is over

	mu       sync.Mutex
	arrivals []arrival
	steps    []Handler
}

// callee serves steps: the nth request is answered by the nth, those after the last by the last.
func (s *stage) callee(steps ...Handler) *callee {
	s.Helper()
	c := &callee{steps: steps, released: make(chan struct{})}
	c.address = s.a.Serve(s.TB, Server{Handle: c.handle})
	s.Cleanup(func() { close(c.released) }) // before the server is closed, which may wait for its handlers
	return c
}

func (c *callee) handle(ctx context.Context, r Received, w Reply) error {
	c.mu.Lock()
	c.arrivals = append(c.arrivals, readArrival(Received{Header: r.Header.Clone(), Body: r.Body}))
	step := c.steps[min(len(c.arrivals), len(c.steps))-1]
	c.mu.Unlock()
	return step(context.WithValue(ctx, releasedKey{}, c.released), r, w)
}

type releasedKey struct{}

// all returns what has arrived so far.
func (c *callee) all() []arrival {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.arrivals)
}

// answers is a step that answers with a success.
func answers(body string) Handler {
	return func(_ context.Context, _ Received, w Reply) error { return w.Send(body) }
}

// fails is a step that answers with a failure.
func fails(status int) Handler {
	return func(context.Context, Received, Reply) error { return &Failure{Status: status, Text: "failed"} }
}

// says makes a step one of a service that runs the SDK: it sends back all tokens, and a claim.
func says(claim ownership.Claim, step Handler) Handler {
	return returns(func(wire otelprop.Request) otelprop.Return {
		return otelprop.Return{Returned: wire.Grant, Claim: claim, Nonce: wire.Nonce, Owner: "store"}
	}, step)
}

// returns makes a step one that sends back what answer says.
func returns(answer func(otelprop.Request) otelprop.Return, step Handler) Handler {
	return func(ctx context.Context, r Received, w Reply) error {
		if wire := readArrival(r).wire; wire.Direct {
			ret := answer(wire)
			w.Return(string(ret.Append(nil)))
		}
		return step(ctx, r, w)
	}
}

// served is the answer to a request of a caller that runs the SDK.
type served struct {
	Answer
	lines []string // the returns, as they came
	ret   otelprop.Return
}

// lend sends a request with a lease of so many tokens to a service that is no entry, and reads its return.
func (s *stage) lend(client Client, tokens uint8, extra ...string) served {
	s.Helper()
	return s.send(client, otelprop.Request{Grant: tokens, Limit: 10}, extra...)
}

// send is lend with all that a request can say.
func (s *stage) send(client Client, wire otelprop.Request, extra ...string) served {
	s.Helper()
	wire.Nonce, wire.Entry, wire.Hop = nextNonce(), "gateway", max(wire.Hop, 1)
	return s.sendWire(client, wire, extra...)
}

func (s *stage) sendWire(client Client, wire otelprop.Request, extra ...string) served {
	s.Helper()
	header := s.header(append([]string{otelprop.RequestHeader, wire.Header(), otelprop.BaggageHeader, wire.Member()}, extra...)...)
	got := served{Answer: client(s.context(), Request{Header: header, Body: "asked"})}
	got.lines = lines(got.Header, otelprop.ReturnHeader)
	ret, ok, _ := otelprop.ReadReturn(got.lines, wire.Nonce, int(wire.Grant))
	if ok {
		got.ret = ret
	}
	return got
}

// returned fails the case unless exactly one return came, which is like want but for the nonce.
func (s *stage) returned(got served, want otelprop.Return) {
	s.Helper()
	want.Nonce = got.ret.Nonce
	if len(got.lines) != 1 || got.ret != want || got.ret.Claim == ownership.ClaimMissing {
		s.Errorf("returns %q, read as %+v; want one that reads as %+v (the call came to %v)", got.lines, got.ret, want, &got.Answer)
	}
}

var (
	nonceMu   sync.Mutex
	lastNonce otelprop.Nonce
)

func nextNonce() otelprop.Nonce {
	nonceMu.Lock()
	defer nonceMu.Unlock()
	lastNonce++
	return lastNonce
}

// hop is a service that runs the SDK and answers by handle.
func (s *stage) hop(rec *Recorder, handle Handler) (address string) {
	s.Helper()
	return s.a.Serve(s.TB, Server{SDK: rec.SDK, Handle: handle})
}

// asks is the handler of a hop that makes one call, and fails if that fails.
func asks(client Client) Handler {
	return func(ctx context.Context, r Received, w Reply) error {
		a := client(ctx, Request{Body: r.Body})
		if err := a.cause(); err != nil {
			return err
		}
		return w.Send(a.Body)
	}
}
