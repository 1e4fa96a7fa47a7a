package trees

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/testnet"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

const maxBudget = 10

// fleetCatalog has profiles of all kinds, with the gates off that are about the load of a dependency over time: breaker,
// floor and buckets would hide what the purse does.
func fleetCatalog(t testing.TB, mode string, scale time.Duration) *profiles.Catalog {
	t.Helper()
	const off = `
    budget: {ratio: 100%, burst: 100000}
    breaker: {min_requests: 1000000}
    availability_floor: 0%
`
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nchain: {budget: 3, max_budget: %d, orphan_budget: 1, mode: %s}\nprofiles:\n", maxBudget, mode)
	for _, p := range fleetProfiles {
		hedges := ""
		if p.hedge > 0 {
			hedges = fmt.Sprintf("    hedge: {after: %v, max: 2}\n", p.hedge*scale)
		}
		fmt.Fprintf(&b, "  %s:\n    extends: read-heavy\n    retry: {statuses: [429, 500, 502, 503, 504], attempt_timeout: %v, %s}\n    backoff: {base: %s, throttled_base: 20ms, cap: 1s}%s%s",
			p.name, p.timeout*scale, p.retry, p.base, off, hedges)
	}
	b.WriteString("services:\n  entry:\n    routes:\n")
	seen := map[int]bool{}
	for _, n := range budgets {
		if !seen[n] {
			fmt.Fprintf(&b, "      \"/budget%d/\": {budget: %d}\n", n, n)
			seen[n] = true
		}
	}
	b.WriteString("  service1: {idempotent: [\"PUT /inner/\"]}\n")
	catalog, err := profiles.Load([]byte(b.String()), "catalog of the trees")
	if err != nil {
		t.Fatal(err)
	}
	return catalog
}

var fleetProfiles = []struct {
	name    profiles.Name
	timeout time.Duration // of an attempt, before scaling
	retry   string
	base    string
	hedge   time.Duration // 0 = none
}{
	{"hasty", 60 * time.Millisecond, "max_attempts: 3", "1ms", 0},
	{"plain", 200 * time.Millisecond, "max_attempts: 4", "5ms", 0},
	{"stubborn", 400 * time.Millisecond, "max_attempts: 10", "10ms", 0},
	{"careful", 200 * time.Millisecond, "max_attempts: 3, reserve: 1", "5ms", 0},
	{"once", 200 * time.Millisecond, "max_attempts: 1", "5ms", 0},
	{"unsure", 200 * time.Millisecond, "max_attempts: 3, missing: stop", "5ms", 0},
	{"hedging", 200 * time.Millisecond, "max_attempts: 4", "5ms", 15 * time.Millisecond},
}

func serviceName(i int) string {
	if i == 0 {
		return "entry"
	}
	return "service" + strconv.Itoa(i)
}

// A fleet is one process of each service: the SDKs, their handlers and their transports to each other. It runs many
// trees, and what the SDKs learn from one they know in the next.
type fleet struct {
	sdks       [1 + services]*chainbudget.SDK
	handlers   [1 + services]http.Handler
	transports [1 + services][1 + services]http.RoundTripper
	host       func(service int) string
	hops       context.Context // hanging handlers end with it, whatever their own context does

	runs sync.Map // seed → *ledger
}

// newFleet makes a fleet whose transports use base, and whose services are reached at the hosts that host names.
func newFleet(t testing.TB, seed uint64, mode string, scale time.Duration, base meter, host func(service int) string) *fleet {
	t.Helper()
	f := &fleet{host: host, hops: t.Context()}
	catalog := fleetCatalog(t, mode, scale)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, seed))
	for i := range f.sdks {
		sdk := new(engine.SDK)
		sdk.Init(engine.Config{
			Service: serviceName(i), Catalog: catalog, Mode: profiles.ModeInherit, Observe: observe,
			Random: func(n int64) int64 {
				mu.Lock()
				defer mu.Unlock()
				return random.Int64N(n)
			},
		})
		f.sdks[i] = (*chainbudget.SDK)(sdk)
		for j := 1; j <= services; j++ {
			profile := fleetProfiles[(i*5+j*3)%len(fleetProfiles)].name
			dep, err := f.sdks[i].Dependency(serviceName(j), profile)
			if err != nil {
				t.Fatal(err)
			}
			f.transports[i][j] = budgethttp.NewTransport(base, dep)
		}
		f.handlers[i] = f.handler(i)
	}
	return f
}

// observe sees the SDKs' decisions. Retries of a purse that held nothing when the decision was asked for are the ones
// that waited for a lease.
func observe(e *engine.Event) {
	h := hopOf(e.Context)
	if h == nil {
		return
	}
	if e.Reason == ownership.ReasonAllowed && e.Hedge {
		h.ledger.note(sawHedge)
	} else if e.Reason == ownership.ReasonAllowed && e.Before == 0 {
		h.ledger.note(sawWait)
	}
	if e.Before < 0 || e.Before > h.granted || e.After < 0 || e.After > h.granted {
		h.ledger.mu.Lock()
		h.ledger.violate("I3: node %d held %d before and %d after a decision, granted %d", h.node.id, e.Before, e.After, h.granted)
		h.ledger.mu.Unlock()
	}
}

type hopKey struct{}

func hopOf(ctx context.Context) *hop {
	h, _ := ctx.Value(hopKey{}).(*hop)
	return h
}

type callKey struct{}

// outbound is what the context of a call says about it.
type outbound struct {
	id   callID
	node *node
}

// meter stands below the SDK's transport and writes down what is on the wire. With connections, a request that never got
// one provably never left.
type meter struct {
	base        http.RoundTripper
	connections bool
}

func (m meter) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	out := ctx.Value(callKey{}).(outbound)
	wire, _ := otelprop.ReadRequest(req.Header[otelprop.HTTPBaggageHeader], req.Header[otelprop.HTTPRequestHeader], otelprop.MaxTokens)
	a := hopOf(ctx).leave(out.id, out.node, int(wire.Grant), wire.Nonce)
	if wire.State != otelprop.Valid {
		a.hop.ledger.mu.Lock()
		a.hop.ledger.violate("I6: an attempt carries no member: %v", req.Header)
		a.hop.ledger.mu.Unlock()
	}
	ctx = context.WithValue(ctx, attemptKey{}, a)
	var left atomic.Bool
	if m.connections {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { left.Store(true) }})
	}
	resp, err := m.base.RoundTrip(req.WithContext(ctx))
	a.answered(resp, err, err != nil && m.connections && !left.Load())
	return resp, err
}

type attemptKey struct{}

// plannedFault is the fault of the attempt that a client's request belongs to; nothing happens to a request to an entry.
func plannedFault(req *http.Request) testnet.Fault {
	a, _ := req.Context().Value(attemptKey{}).(attempt)
	return a.fault
}

// callHeader names the call that a request belongs to.
const callHeader = "X-Call"

// handler is one service: what watches the wire, the SDK's handler, and inside it the trees' own code.
func (f *fleet) handler(service int) http.Handler {
	var options []budgethttp.HandlerOption
	if service == 0 {
		options = append(options, budgethttp.Entry())
	}
	exact := budgethttp.NewHandler(budgethttp.HandlerFunc(f.serveExactly), f.sdks[service], options...)
	plain := budgethttp.NewHandler(http.HandlerFunc(f.serve), f.sdks[service], options...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l, n := f.find(r.URL.Path)
		if l == nil {
			http.NotFound(w, r)
			return
		}
		granted := l.tree.budget
		if n.id > 0 {
			wire, _ := otelprop.ReadRequest(r.Header[otelprop.HTTPBaggageHeader], r.Header[otelprop.HTTPRequestHeader], maxBudget)
			granted = int(wire.Grant)
		}
		h, execution := l.arrive(n, parseCallID(r.Header.Get(callHeader)), granted)
		e := &running{hop: h, fleet: f, behaviour: l.tree.behaviour(n, execution)}
		watched := &watchedWriter{ResponseWriter: w, hop: h}
		defer func() {
			p := recover()
			h.closeWith(w.Header()[otelprop.HTTPReturnHeader])
			switch {
			case p == nil:
			case n.recovers:
				watched.WriteHeader(http.StatusInternalServerError)
			default:
				panic(p)
			}
		}()
		r = r.WithContext(context.WithValue(context.WithValue(r.Context(), hopKey{}, h), runningKey{}, e))
		if n.exact {
			exact.ServeHTTP(watched, r)
		} else {
			plain.ServeHTTP(watched, r)
		}
	})
}

// find reads /<operation or budget>/<seed>/<node>.
func (f *fleet) find(path string) (*ledger, *node) {
	parts := strings.Split(path, "/")
	if len(parts) != 4 {
		return nil, nil
	}
	seed, _ := strconv.ParseUint(parts[2], 36, 64)
	l, ok := f.runs.Load(seed)
	id, err := strconv.Atoi(parts[3])
	if !ok || err != nil || id >= len(l.(*ledger).tree.nodes) {
		return nil, nil
	}
	return l.(*ledger), l.(*ledger).tree.nodes[id]
}

func (t *tree) path(n *node) string {
	operation := n.operation
	if n.id == 0 {
		operation = "budget" + strconv.Itoa(t.budget)
	}
	// The 0 makes the seed a name of one thing, not of a kind of things.
	return "/" + operation + "/0" + strconv.FormatUint(t.seed, 36) + "/" + strconv.Itoa(n.id)
}

// watchedWriter sees the return as the headers go out.
type watchedWriter struct {
	http.ResponseWriter
	hop  *hop
	sent bool
}

func (w *watchedWriter) WriteHeader(status int) {
	if w.sent {
		return
	}
	w.sent = true
	w.hop.closeWith(w.Header()[otelprop.HTTPReturnHeader])
	w.ResponseWriter.WriteHeader(status)
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type runningKey struct{}

// running is one execution of a node's handler.
type running struct {
	hop       *hop
	fleet     *fleet
	behaviour behaviour
}

// ownFailure is a failure of the hop itself.
type ownFailure struct{ status int }

func (e ownFailure) Error() string   { return "own failure " + strconv.Itoa(e.status) }
func (e ownFailure) HTTPStatus() int { return e.status }

func (f *fleet) serveExactly(w http.ResponseWriter, r *http.Request) error {
	return r.Context().Value(runningKey{}).(*running).run(w, r)
}

func (f *fleet) serve(w http.ResponseWriter, r *http.Request) {
	err := f.serveExactly(w, r)
	var own ownFailure
	switch {
	case err == nil:
	case errors.As(err, &own):
		w.WriteHeader(own.status)
	default:
		w.WriteHeader(http.StatusBadGateway)
	}
}

func (e *running) run(w http.ResponseWriter, r *http.Request) error {
	ctx, n, b := r.Context(), e.hop.node, e.behaviour
	io.Copy(io.Discard, r.Body)
	sleep(ctx, b.work)
	if !b.last {
		if err := e.fault(ctx); err != nil {
			return err
		}
	}
	if n.early {
		chainbudget.Keep(ctx, n.keep)
		w.WriteHeader(http.StatusOK)
	}
	err := e.callAll(ctx)
	if b.last {
		if err := e.fault(ctx); err != nil {
			return err
		}
	}
	if n.tolerant {
		return nil
	}
	return err
}

// fault plays the faults of the hop itself.
func (e *running) fault(ctx context.Context) error {
	b := e.behaviour
	switch {
	case b.panicky:
		e.hop.ledger.note(sawPanic)
		panic("a handler of node " + strconv.Itoa(e.hop.node.id) + " panics")
	case b.hang:
		e.hop.ledger.note(sawHang)
		select {
		case <-ctx.Done():
		case <-e.fleet.hops.Done():
		}
		return ctx.Err()
	case b.fail:
		return ownFailure{b.status}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// callAll makes the node's calls and returns the failures.
func (e *running) callAll(ctx context.Context) error {
	n := e.hop.node
	failures := make([]error, len(n.children))
	if !n.parallel {
		for i, child := range n.children {
			failures[i] = e.call(ctx, i, child)
			if failures[i] != nil && !n.goesOn {
				break
			}
		}
		return errors.Join(failures...)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for i, child := range n.children {
		all.Go(func() {
			failures[i] = e.call(ctx, i, child)
			if failures[i] != nil && n.cancels {
				e.hop.ledger.note(sawCancel)
				cancel()
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

func (e *running) call(ctx context.Context, i int, child *node) error {
	f, id := e.fleet, callID{e.hop.number, i}
	ctx = context.WithValue(ctx, callKey{}, outbound{id, child})
	var body io.Reader
	switch child.body {
	case replayableBody:
		body = bytes.NewReader([]byte("some bytes"))
	case streamBody:
		body = io.MultiReader(strings.NewReader("a stream"))
	}
	req, err := http.NewRequestWithContext(ctx, child.method, "/", body)
	if err != nil {
		return err
	}
	// Set by hand: with so many requests, parsing their URLs would be a tenth of the time.
	req.Host = f.host(child.service)
	req.URL = &url.URL{Scheme: "http", Host: req.Host, Path: e.hop.ledger.tree.path(child)}
	req.Header[callHeader] = []string{id.String()}
	resp, err := f.transports[e.hop.node.service][child.service].RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode < 400 {
		return nil
	}
	if denied := budgethttp.Denied(resp); denied != nil {
		return denied
	}
	return fmt.Errorf("node %d answers %d", child.id, resp.StatusCode)
}

// enter runs a tree from its entry, through a client that knows nothing of the SDK.
func (f *fleet) enter(t *tree, client http.RoundTripper) (*ledger, error) {
	l := newLedger(t)
	f.runs.Store(t.seed, l)
	ctx := context.Background()
	if t.patience > 0 {
		bounded, cancel := context.WithTimeout(ctx, t.patience)
		defer cancel()
		ctx = bounded
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+f.host(0)+t.path(t.nodes[0]), nil)
	if err != nil {
		return l, err
	}
	resp, err := client.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			l.note(sawCancel)
			return l, nil
		}
		return l, err
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if line := resp.Header[otelprop.HTTPReturnHeader]; line != nil {
		return l, fmt.Errorf("I6: the entry's answer has a return: %q", line)
	}
	return l, nil
}
