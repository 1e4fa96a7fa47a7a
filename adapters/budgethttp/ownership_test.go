package budgethttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// owning is a middle service under test. The test is its caller, as another service's SDK: it lends tokens and reads the
// return. Its dependency "callee" is a handler of the test's.
type owning struct {
	*caller
	url    string
	client *http.Client
	served atomic.Int64 // requests that the callee got
}

// newOwning serves a middle service whose handler is made by handle, above a callee. The settings are YAML: lines of the
// profile, and with a section's name at their front ("chain:", "services:" and so on) sections of the catalog.
func newOwning(t *testing.T, callee http.Handler, handle func(*owning) http.Handler, settings ...string) *owning {
	t.Helper()
	o := new(owning)
	o.caller = newCaller(t, roomy, ownershipCatalog(settings...))
	calleeURL := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.served.Add(1)
		callee.ServeHTTP(w, r)
	})).URL
	o.client = &http.Client{Transport: redirected{o.caller.transport(t, nil), calleeURL}}
	s := serve(t, budgethttp.NewHandler(handle(o), o.SDK))
	o.url = s.URL
	return o
}

func ownershipCatalog(settings ...string) chainbudgettest.Option {
	var profile, sections string
	for _, s := range settings {
		if name, _, _ := strings.Cut(s, " "); strings.HasSuffix(name, ":") && strings.Contains("chain: dependencies: services: overrides:", name) {
			sections += s + "\n"
			continue
		}
		profile += "    " + s + "\n"
	}
	if !strings.Contains(sections, "chain:") {
		sections += "chain: {budget: 3}\n"
	}
	return chainbudgettest.Catalog(`version: 1
profiles:
  base:
    extends: read-heavy
    retry: {max_attempts: 2, attempt_timeout: 0s}
    budget: disabled
    breaker: disabled
    availability_floor: 0%
  roomy:
    extends: base
` + profile + sections)
}

// redirected sends every request to one server.
type redirected struct {
	base http.RoundTripper
	url  string
}

func (r redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	to := req.Clone(req.Context())
	to.URL.Scheme, to.URL.Host = "http", strings.TrimPrefix(r.url, "http://")
	return r.base.RoundTrip(to)
}

// fetch makes one call and returns an error that wraps its failure.
func (o *owning) fetch(ctx context.Context, method, path string) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://callee"+path, nil)
	if err != nil {
		return err
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if denied := budgethttp.Denied(resp); denied != nil {
		return denied
	}
	return nil
}

// exactly is a handler that returns the error of f.
func exactly(f func(o *owning, r *http.Request) error) func(*owning) http.Handler {
	return func(o *owning) http.Handler {
		return budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return f(o, withWriter(r, w)) })
	}
}

// swallowing is a handler that answers 502 when f fails, and tells nobody why.
func swallowing(f func(o *owning, r *http.Request) error) func(*owning) http.Handler {
	return func(o *owning) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if f(o, withWriter(r, w)) != nil {
				w.WriteHeader(http.StatusBadGateway)
			}
		})
	}
}

func oneGet(o *owning, r *http.Request) error { return o.fetch(r.Context(), http.MethodGet, "/") }

// claiming answers with a status, as a service that runs the SDK: with a return of that claim and owner that gives all
// tokens back.
func claiming(status int, claim ownership.Claim, owner string, more ...func(*otelprop.Return)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		wire, _ := otelprop.ReadRequest(r.Header[otelprop.HTTPBaggageHeader], r.Header[otelprop.HTTPRequestHeader], 99)
		ret := otelprop.Return{Returned: wire.Grant, Claim: claim, Nonce: wire.Nonce, Owner: owner}
		for _, f := range more {
			f(&ret)
		}
		w.Header().Set(otelprop.HTTPReturnHeader, string(ret.Append(nil)))
		w.WriteHeader(status)
	}
}

func withEffects(r *otelprop.Return) { r.Effects = true }

var ledgerFails = claiming(503, ownership.ClaimClaimed, "ledger")

// asked sends a request with that many tokens and returns what the service says about its answer.
func (o *owning) asked(t *testing.T, tokens uint8) otelprop.Return {
	t.Helper()
	r := lend(t, http.DefaultClient, http.MethodGet, o.url+"/page", tokens)
	if !r.hasReturn {
		t.Fatalf("status %d came back without a return", r.status)
	}
	return r.ret
}

// told fails the test unless the service says so.
func told(t *testing.T, got otelprop.Return, claim ownership.Claim, owner string) {
	t.Helper()
	if got.Claim != claim || got.Owner != owner {
		t.Errorf("the caller is told %s by %q, want %s by %q", got.Claim, got.Owner, claim, owner)
	}
}

// TestOwnership_each_gate has each gate as the refuser, seen by the caller's caller: one that protects is used up, own
// inability passes up.
func TestOwnership_each_gate(t *testing.T) {
	unclaimed, claimed := ownership.ClaimUnclaimed, ownership.ClaimClaimed
	post := func(o *owning, r *http.Request) error { return o.fetch(r.Context(), http.MethodPost, "/") }
	const pinned = "dependencies: {callee: {profile: roomy}}"
	for _, tt := range []struct {
		reason   ownership.Reason
		claim    ownership.Claim
		owner    string // "" = ledger
		settings []string
		callee   http.Handler // nil = ledgerFails
		call     func(*owning, *http.Request) error
		before   int // requests before the one that counts
		tokens   uint8
		calls    int64 // that the callee gets; 0 = 1
	}{
		{reason: ownership.ReasonDisabled, claim: unclaimed, settings: []string{pinned, "overrides: {retries: disabled}"}},
		{reason: ownership.ReasonNotRetryable, claim: unclaimed, settings: []string{"retry: {statuses: [502]}"}},
		{reason: ownership.ReasonStop, claim: ownership.ClaimStop, callee: claiming(503, ownership.ClaimStop, "ledger")},
		{reason: ownership.ReasonUnclaimed, claim: unclaimed, callee: claiming(503, unclaimed, "ledger")},
		{reason: ownership.ReasonPushback, claim: unclaimed, callee: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3600")
			ledgerFails(w, r)
		})},
		{reason: ownership.ReasonNotIdempotent, claim: unclaimed, call: post},
		{reason: ownership.ReasonBreakerOpen, claim: unclaimed, settings: []string{"breaker: {min_requests: 1, failure_ratio: 1%}"}},
		{reason: ownership.ReasonBreakerOpen, claim: unclaimed, owner: "callee", before: 1, calls: none,
			settings: []string{"breaker: {min_requests: 1, failure_ratio: 1%}"}},
		{reason: ownership.ReasonAvailabilityFloor, claim: unclaimed, settings: []string{"availability_floor: 60%"}, before: 20},
		{reason: ownership.ReasonDependencyBudget, claim: unclaimed, settings: []string{"budget: {ratio: 1%, burst: 1}"}, before: 1},
		{reason: ownership.ReasonProcessBudget, claim: unclaimed, settings: []string{"chain: {process_budget: 1}"}, before: 1},
		{reason: ownership.ReasonMaxAttempts, claim: unclaimed, calls: 2},
		{reason: ownership.ReasonNoPolicy, claim: claimed, settings: []string{"retry: {max_attempts: 1}"}},
		{reason: ownership.ReasonNotReplayable, claim: claimed, call: func(o *owning, r *http.Request) error {
			req := request(t, r.Context(), http.MethodPut, "http://callee/", io.MultiReader(strings.NewReader("a stream")))
			resp, err := o.client.Do(req)
			if err != nil {
				return err
			}
			read(t, resp)
			return budgethttp.Denied(resp)
		}},
		{reason: ownership.ReasonChainExhausted, claim: claimed, tokens: none8},
		{reason: ownership.ReasonDeadline, claim: claimed, callee: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3") // below the profile's cap, beyond the deadline
			ledgerFails(w, r)
		}), call: func(o *owning, r *http.Request) error {
			ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
			defer cancel()
			return o.fetch(ctx, http.MethodGet, "/")
		}},
		// The two that give no verdict: the claim is what the other gates say.
		{reason: ownership.ReasonSettled, claim: claimed, call: settledFirst},
	} {
		for how, wrap := range map[string]func(func(*owning, *http.Request) error) func(*owning) http.Handler{
			"wrapped": exactly, "swallowed": swallowing,
		} {
			if tt.reason == ownership.ReasonSettled && how == "swallowed" {
				continue // the answer is out before there is anything to swallow
			}
			name := fmt.Sprintf("%v/%s/before_%d", tt.reason, how, tt.before)
			t.Run(name, func(t *testing.T) {
				callee, call, tokens := tt.callee, tt.call, uint8(3)
				if callee == nil {
					callee = ledgerFails
				}
				if call == nil {
					call = oneGet
				}
				if tt.tokens == none8 {
					tokens = 0
				}
				var last error
				o := newOwning(t, callee, wrap(func(o *owning, r *http.Request) error {
					last = call(o, r)
					return last
				}), tt.settings...)
				for range tt.before {
					o.asked(t, tokens)
				}
				o.served.Store(0)
				got := o.asked(t, tokens)
				owner := tt.owner
				if owner == "" {
					owner = "ledger"
				}
				if tt.reason != ownership.ReasonSettled { // whose headers are out before anything failed
					told(t, got, tt.claim, owner)
				}
				var denied *chainbudget.DeniedError
				if !errors.As(last, &denied) || denied.Reason != tt.reason || denied.Claim != tt.claim {
					t.Errorf("the call ends with %v, want reason %s and claim %s", last, tt.reason, tt.claim)
				}
				want := max(tt.calls, 1)
				if tt.calls == none {
					want = 0
				}
				if n := o.served.Load(); n != want {
					t.Errorf("the callee got %d requests, want %d", n, want)
				}
			})
		}
	}
}

const (
	none  = -1
	none8 = 255
)

// settledFirst sends a failure's headers before it calls.
func settledFirst(o *owning, r *http.Request) error {
	w := r.Context().Value(writerKey{}).(http.ResponseWriter)
	w.WriteHeader(http.StatusInternalServerError)
	return oneGet(o, r)
}

type writerKey struct{}

func withWriter(r *http.Request, w http.ResponseWriter) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), writerKey{}, w))
}

// What was canceled for another reason than time is no failure, and the cause of none, also where a handler returns its
// error: as when the first failure of several calls ends the others.
func TestOwnership_a_canceled_call_causes_nothing(t *testing.T) {
	hanging := make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) {
		hanging <- struct{}{}
		<-r.Context().Done()
	})
	mux.Handle("/", ledgerFails)
	for how, wrap := range map[string]func(func(*owning, *http.Request) error) func(*owning) http.Handler{
		"wrapped": exactly, "swallowed": swallowing,
	} {
		for _, fails := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/beside_a_failure_%t", how, fails), func(t *testing.T) {
				o := newOwning(t, mux, wrap(func(o *owning, r *http.Request) error {
					ctx, cancel := context.WithCancel(r.Context())
					canceled := make(chan error)
					go func() { canceled <- o.fetch(ctx, http.MethodPut, "/hang") }()
					<-hanging
					var failed error
					if fails {
						failed = oneGet(o, r)
					}
					cancel()
					err := <-canceled
					var denied *chainbudget.DeniedError
					if !errors.As(err, &denied) || denied.Claim != ownership.ClaimNone || !errors.Is(err, context.Canceled) {
						t.Errorf("the canceled call ends with %v, want one that is canceled and claims nothing", err)
					}
					return errors.Join(err, failed)
				}), onePolicy)
				if fails {
					told(t, o.asked(t, 3), ownership.ClaimClaimed, "ledger")
				} else {
					told(t, o.asked(t, 3), ownership.ClaimClaimed, "caller")
				}
			})
		}
	}
}
