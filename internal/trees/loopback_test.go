package trees

import (
	"context"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/testnet"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// attemptHeader tells the failing server which attempt towards a node a request is.
const attemptHeader = "X-Attempt"

// loopback is the client's half of a network of real connections on which the faults of the plan happen: it refuses.
// The server's half, [failing], does the rest.
type loopback struct {
	base   http.RoundTripper
	closed string // an address at which nobody listens: no system hands this port out
}

func (b loopback) RoundTrip(req *http.Request) (*http.Response, error) {
	a, ok := req.Context().Value(attemptKey{}).(attempt)
	if !ok {
		return b.base.RoundTrip(req)
	}
	req = req.WithContext(req.Context())
	req.Header = maps.Clone(req.Header)
	req.Header[attemptHeader] = []string{strconv.Itoa(a.number)}
	if a.fault.Kind == testnet.Refuse {
		url := *req.URL
		url.Host = b.closed
		req.URL = &url
	}
	return b.base.RoundTrip(req)
}

// failing is the server's half: around a service's handler, it loses, delays and repeats.
type failing struct {
	fleet   *fleet
	service int
	late    time.Duration // what counts as a late answer

	mu     sync.Mutex
	latest []string // return, for testnet.Stale
}

func (s *failing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var fault testnet.Fault
	if l, n := s.fleet.find(r.URL.Path); l != nil && n.id > 0 {
		number, _ := strconv.Atoi(r.Header.Get(attemptHeader))
		fault = l.tree.fault(n, number)
	}
	handler := s.fleet.handlers[s.service]
	pause(fault.Before) // whether or not the client is still there
	switch fault.Kind {
	case testnet.Drop:
		hangUp(w)
		return
	case testnet.Hang:
		io.Copy(io.Discard, r.Body) // the server looks out for the end of the connection only after the body
		<-r.Context().Done()
		return
	case testnet.Crash:
		s.crash(w, r, fault.After)
		return
	case testnet.Deliver:
		if fault.Return == testnet.Keep && fault.After < s.late {
			handler.ServeHTTP(w, r) // what users run, nothing in between
			return
		}
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	switch fault.Kind {
	case testnet.Lose:
		hangUp(w)
		return
	case testnet.Swallow:
		<-r.Context().Done()
		return
	}
	pause(fault.After)
	s.tamper(answer.Header(), fault.Return)
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// tamper does to the return what the fault says.
func (s *failing) tamper(header http.Header, how testnet.Tampering) {
	lines := header[otelprop.HTTPReturnHeader]
	s.mu.Lock()
	before := s.latest
	if len(lines) > 0 {
		s.latest = lines
	}
	s.mu.Unlock()
	switch how {
	case testnet.Remove:
		delete(header, otelprop.HTTPReturnHeader)
	case testnet.Duplicate:
		header[otelprop.HTTPReturnHeader] = append(lines[:len(lines):len(lines)], lines...)
	case testnet.Stale:
		header[otelprop.HTTPReturnHeader] = before
	}
}

// crash hangs up while the handler runs, and ends the handler's context as the end of a process would.
func (s *failing) crash(w http.ResponseWriter, r *http.Request, after time.Duration) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var handler sync.WaitGroup
	handler.Go(func() {
		defer func() { _ = recover() }() // a panic in a process that is gone
		s.fleet.handlers[s.service].ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
	})
	pause(after)
	hangUp(w)
	cancel()
	handler.Wait()
}

func hangUp(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		conn.Close()
	}
}

func pause(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// loopbackTrees runs trees whose every hop is a real HTTP server on loopback.
//
// Each request has a connection of its own. On a connection that was used before, net/http sends a request that died
// with it a second time by itself: below the SDK and without a token. Where such a request carries a lease the SDK stops
// that; where it carries none, the second arrival is allowed, and would read here as a violation of I2.
//
// scale is how much more patient everybody is than in virtual time: a busy machine answers late without a plan, and
// under the race detector more so.
func loopbackTrees(t *testing.T, trees, atOnce int, scale time.Duration) *census {
	t.Helper()
	base := &http.Transport{DisableKeepAlives: true}
	client := loopback{base: base, closed: "127.0.0.1:1"}
	var servers [1 + services]*httptest.Server
	f := newFleet(t, firstSeed, "budget", scale, meter{base: client, connections: true}, func(i int) string { return servers[i].Listener.Addr().String() })
	for i := range servers {
		servers[i] = httptest.NewUnstartedServer(&failing{fleet: f, service: i, late: 150 * time.Millisecond * scale})
		servers[i].Config.ErrorLog = log.New(io.Discard, "", 0) // panics are part of the plan
		servers[i].Start()
	}
	ledgers := make([]*ledger, trees)
	errs := make([]error, trees)
	next := make(chan int)
	var runners sync.WaitGroup
	for range atOnce {
		runners.Go(func() {
			for i := range next {
				ledgers[i], errs[i] = f.enter(newTree(firstSeed+uint64(i), scale), client)
			}
		})
	}
	for i := range trees {
		next <- i
	}
	close(next)
	runners.Wait()
	for _, s := range servers {
		s.Close() // waits for every request
	}
	f.awaitLosers(t, ledgers)
	var c census
	minted, retries := 0, 0
	for i, l := range ledgers {
		if errs[i] != nil {
			t.Errorf("seed %d: %v", l.tree.seed, errs[i])
		}
		for _, v := range l.finish() {
			t.Errorf("seed %d: %s", l.tree.seed, v)
		}
		c.add(l)
		minted += l.minted
		retries += l.retries
	}
	f.reconcile(t, minted, retries)
	return &c
}

// awaitLosers waits until every attempt that the SDKs count has been seen on the wire: one that has lost against a hedge may
// set out when its call is over.
func (f *fleet) awaitLosers(t *testing.T, ledgers []*ledger) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; pause(time.Millisecond) {
		counted, sent := int64(0), int64(0)
		for _, sdk := range f.sdks {
			for _, d := range sdk.Totals().Dependencies {
				counted += d.Attempts
			}
		}
		for _, l := range ledgers {
			l.mu.Lock()
			for _, n := range l.sent {
				sent += int64(n)
			}
			l.mu.Unlock()
		}
		if counted == sent {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("the SDKs counted %d attempts, the wire showed %d", counted, sent)
			return
		}
	}
}

// TestI1_LoopbackTrees holds I1 to I4 on random trees over real connections. The trees are too few for a mean of 15 to be
// certain.
func TestI1_LoopbackTrees(t *testing.T) {
	const trees = 200
	loopbackTrees(t, trees, 8, 16).demand(t, trees, 10)
}
