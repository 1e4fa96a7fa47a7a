package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// TestT11 has the published matrix, row by row, over real servers: a caller's caller (the test, which reads the wire), the
// caller, and a callee that answers as the row says. The caller's retries are counted at the callee, what it propagates is
// read from its return.
func TestT11_ownership_matrix(t *testing.T) {
	tab := newTable(t, "T11", "does the caller retry, and what does it propagate", "")
	defer tab.print()

	tests := []matrixRow{
		{what: "callee no error, caller error", paper: "n/a, claimed", callee: fine, own: true, want: "1 call, claimed by caller"},
		{what: "callee error, claim missing, external", paper: "yes, unclaimed", callee: plainFailure, external: true, want: "2 calls, unclaimed by callee"},
		{what: "callee error, claim missing, known as silent", paper: "yes, unclaimed", callee: plainFailure, learned: true, want: "2 calls, unclaimed by callee"},
		{what: "callee error, claimed", paper: "yes, unclaimed", callee: says(ownership.ClaimClaimed), want: "2 calls, unclaimed by owner"},
		{what: "callee error, unclaimed", paper: "no, unclaimed", callee: says(ownership.ClaimUnclaimed), want: "1 call, unclaimed by owner"},

		{what: "closest caller has no policy", paper: "no, claimed", callee: says(ownership.ClaimClaimed), profile: "retry: {max_attempts: 1}",
			want: "1 call, claimed by owner"},
		{what: "refused by dependency_budget", paper: "no, unclaimed", callee: says(ownership.ClaimClaimed), spent: "dependency_budget",
			profile: "budget: {ratio: 1%, burst: 1}", want: "1 call, unclaimed by owner"},
		{what: "refused by process_budget", paper: "no, unclaimed", callee: says(ownership.ClaimClaimed), spent: "process_budget",
			chain: "process_budget: 1", want: "1 call, unclaimed by owner"},
		{what: "chain_exhausted before any retry of that owner", paper: "no, claimed", callee: says(ownership.ClaimClaimed), grant: none,
			want: "1 call, claimed by owner"},

		// What the rows above leave open: whoever is asked at the last moment, and what a caller says who does not know.
		// Nothing is known yet of a callee that says nothing: the lease that it got is gone, so that the caller has no token, and
		// the claim passes up to whoever has.
		{what: "callee error, claim missing, at the first request", paper: "yes, unclaimed", callee: plainFailure, want: "1 call, claimed by callee"},
		{what: "callee error, stop", paper: "-", callee: says(ownership.ClaimStop), want: "1 call, stop by owner"},
		{what: "no connection at all", paper: "-", nobody: true, want: "0 calls, unclaimed by callee"},
		{what: "callee error, missing is told to stop", paper: "no, unclaimed", callee: plainFailure, profile: "retry: {missing: stop}",
			want: "1 call, unclaimed by callee"},
	}
	for _, tt := range tests {
		for _, wraps := range []bool{true, false} {
			how := "swallowed"
			if wraps {
				how = "wrapped"
			}
			tt.wraps = wraps
			got := tt.run(t)
			tab.add(tt.what+", "+how, tt.paper, tt.want, got, "exact", got == tt.want)
		}
	}
}

// A calleeKind answers a request whose wire it has read.
type calleeKind func(w http.ResponseWriter, wire otelprop.Request)

func fine(http.ResponseWriter, otelprop.Request) {}

// plainFailure is a service without the SDK.
func plainFailure(w http.ResponseWriter, _ otelprop.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

// says is a service whose return claims so, for the service "owner". It gives every token back.
func says(claim ownership.Claim) calleeKind {
	return func(w http.ResponseWriter, wire otelprop.Request) {
		ret := otelprop.Return{Returned: wire.Grant, Claim: claim, Nonce: wire.Nonce, Owner: "owner"}
		w.Header().Set(otelprop.HTTPReturnHeader, string(ret.Append(nil)))
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

const none = -1

// matrixRow is one row of T11.
type matrixRow struct {
	what, paper    string
	callee         calleeKind
	nobody         bool   // there is no callee: connections are refused
	external       bool   // the callee is declared to be outside
	learned        bool   // it has answered without a return before, as often as it takes to know
	own            bool   // the caller fails by itself
	wraps          bool   // its handler returns the error of its call
	grant          int    // tokens that the caller gets; 0 = 3
	profile, chain string // settings in YAML
	spent          string // a bucket that a request before this one emptied
	want           string
}

func (m matrixRow) catalog() string {
	chain := m.chain
	if chain == "" {
		chain = "budget: 3"
	}
	return fmt.Sprintf(`
version: 1
chain: {%s}
profiles:
  plain:
    extends: read-heavy
    retry: {max_attempts: 2, attempt_timeout: 0s}
    budget: disabled
    breaker: disabled
    availability_floor: 0%%
  table:
    extends: plain
    external: %t
    %s
`, chain, m.external, m.profile)
}

// run makes one request and says how often the callee was called, and what the caller propagated.
func (m matrixRow) run(t *testing.T) string {
	t.Helper()
	catalog, err := profiles.Load([]byte(m.catalog()), m.what)
	if err != nil {
		t.Fatal(err)
	}
	sdk := new(engine.SDK)
	sdk.Init(engine.Config{Service: "caller", Catalog: catalog, NoSleep: true, Strict: true})
	s := &service{name: "caller", sdk: (*chainbudget.SDK)(sdk), t: t}

	var calls atomic.Int64
	var healthy atomic.Bool
	l := newLoopback(t)
	l.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		wire, _ := otelprop.ReadRequest(r.Header[otelprop.HTTPBaggageHeader], r.Header[otelprop.HTTPRequestHeader], 99)
		if healthy.Load() {
			return
		}
		m.callee(w, wire)
	}))
	url := l.url
	if m.nobody {
		closed := httptest.NewServer(nil)
		closed.Close()
		url = closed.URL
	}
	client := s.transport("callee", l.base)
	f := func(r *http.Request) error {
		if err := call(r.Context(), client, url); err != nil {
			return err
		}
		if m.own {
			return errors.New("a bug of the caller")
		}
		return nil
	}
	h := swallowed(f)
	if m.wraps {
		h = wrapped(f)
	}
	l.serve(budgethttp.NewHandler(h, s.sdk))
	if m.spent != "" {
		m.lend(t, l)
	}
	if m.learned {
		healthy.Store(true)
		for range 16 {
			ask(t, l, 3)
		}
		healthy.Store(false)
	}
	calls.Store(0)
	ret := m.lend(t, l)
	n := calls.Load()
	unit := "calls"
	if n == 1 {
		unit = "call"
	}
	return fmt.Sprintf("%d %s, %s by %s", n, unit, ret.Claim, ret.Owner)
}

// lend asks the caller as another service's SDK would, and reads its return.
func (m matrixRow) lend(t *testing.T, l *loopback) otelprop.Return {
	t.Helper()
	grant := uint8(3)
	if m.grant == none {
		grant = 0
	}
	return lend(t, l, grant)
}

var nonces atomic.Uint32

// lend asks the server that was made last, as another service's SDK with that many tokens would, and reads what it says
// about its failure.
func lend(t *testing.T, l *loopback, grant uint8) otelprop.Return {
	t.Helper()
	status, ret := ask(t, l, grant)
	if status < 500 {
		t.Errorf("the caller answered %d, want a failure", status)
	}
	return ret
}

func ask(t *testing.T, l *loopback, grant uint8) (status int, ret otelprop.Return) {
	t.Helper()
	wire := otelprop.Request{Grant: grant, Limit: 3, Hop: 1, Nonce: otelprop.Nonce(nonces.Add(1)), Entry: "edge", Caller: "edge", Attempt: 1}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, l.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header[otelprop.HTTPRequestHeader] = []string{wire.Header()}
	resp, err := l.base.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	ret, ok, rejects := otelprop.ReadReturn(resp.Header[otelprop.HTTPReturnHeader], wire.Nonce, int(grant))
	if !ok {
		t.Fatalf("no return that counts came back: %q, %v", resp.Header[otelprop.HTTPReturnHeader], rejects)
	}
	return resp.StatusCode, ret
}
