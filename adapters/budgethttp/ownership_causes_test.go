package budgethttp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

const onePolicy = "retry: {max_attempts: 1}"

// byPath answers each path with another owner's failure.
func byPath() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/users", claiming(503, ownership.ClaimClaimed, "users"))
	mux.Handle("/ledger", claiming(503, ownership.ClaimUnclaimed, "ledger"))
	mux.Handle("/index", claiming(503, ownership.ClaimStop, "index"))
	mux.HandleFunc("/fine", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("/changed", claiming(200, ownership.ClaimNone, "", withEffects))
	return mux
}

// TestOwnership_several_causes: the most restrictive goes up; what did not cause the failure does not count where that is
// known exactly.
func TestOwnership_several_causes(t *testing.T) {
	for _, tt := range []struct {
		calls, causes string // paths, in order
		claim         ownership.Claim
		owner         string
	}{
		{"/users /ledger /index", "", ownership.ClaimStop, "index"},
		{"/users /ledger", "", ownership.ClaimUnclaimed, "ledger"},
		{"/users /fine", "", ownership.ClaimClaimed, "users"},
		{"/users /ledger /index", "/users /ledger", ownership.ClaimUnclaimed, "ledger"},
		{"/index /users", "/users", ownership.ClaimClaimed, "users"},
		{"/index /ledger", "own", ownership.ClaimClaimed, "caller"},
	} {
		t.Run(strings.ReplaceAll(tt.calls+" of "+tt.causes, "/", ""), func(t *testing.T) {
			o := newOwning(t, byPath(), func(o *owning) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					var causes []error
					for _, path := range strings.Fields(tt.calls) {
						if err := o.fetch(r.Context(), http.MethodGet, path); err != nil && strings.Contains(tt.causes, path) {
							causes = append(causes, err)
						}
					}
					ownership.Blame(r.Context(), errors.Join(causes...))
					if tt.causes == "own" {
						ownership.Own(r.Context())
					}
					w.WriteHeader(http.StatusBadGateway)
				})
			}, onePolicy)
			told(t, o.asked(t, 3), tt.claim, tt.owner)
		})
	}
}

// A failure of another owner, after the first owner's was retried, was never retried here: it passes up.
func TestOwnership_another_owner_after_a_retry(t *testing.T) {
	for _, second := range []string{"vault", "ledger"} {
		callee := script(ledgerFails, claiming(503, ownership.ClaimClaimed, second))
		o := newOwning(t, callee, exactly(oneGet), "retry: {max_attempts: 3}")
		want := ownership.ClaimClaimed
		if second == "ledger" {
			want = ownership.ClaimUnclaimed
		}
		told(t, o.asked(t, 1), want, second)
		if n := o.served.Load(); n != 2 {
			t.Errorf("%d requests, want 2: one token is one retry", n)
		}
	}
}

// TestOwnership_effects: what must not run twice and may have run, here or below, is told on success too, and nothing is
// claimed any more.
func TestOwnership_effects(t *testing.T) {
	const refused = "http://127.0.0.1:1" // no system hands this port out
	type step func(*owning, *http.Request) error
	send := func(method, path string) step {
		return func(o *owning, r *http.Request) error { return o.fetch(r.Context(), method, path) }
	}
	for _, tt := range []struct {
		name    string
		before  step
		effects bool
	}{
		{"none", send(http.MethodGet, "/fine"), false},
		{"an_idempotent_write", send(http.MethodPut, "/fine"), false},
		{"a_post_that_ran", send(http.MethodPost, "/fine"), true},
		{"a_post_that_failed", send(http.MethodPost, "/users"), true},
		{"a_post_that_was_canceled", func(o *owning, r *http.Request) error {
			ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
			defer cancel()
			return o.fetch(ctx, http.MethodPost, "/hang")
		}, true},
		{"a_post_that_never_left", func(o *owning, r *http.Request) error {
			resp, err := o.transport(t, nil).RoundTrip(request(t, r.Context(), http.MethodPost, refused, nil))
			if err == nil {
				resp.Body.Close()
			}
			return err
		}, false},
		{"a_post_with_a_key", func(o *owning, r *http.Request) error {
			req := request(t, r.Context(), http.MethodPost, "http://callee/fine", nil)
			req.Header.Set("Idempotency-Key", "7")
			resp, err := o.client.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}, false},
		{"below", send(http.MethodGet, "/changed"), true},
		{"a_function", func(o *owning, r *http.Request) error {
			return chainbudget.Do(r.Context(), o.dep, func(context.Context) error { return nil })
		}, true},
		{"an_idempotent_function", func(o *owning, r *http.Request) error {
			return chainbudget.Do(r.Context(), o.dep, func(context.Context) error { return nil }, chainbudget.Idempotent())
		}, false},
	} {
		for _, answer := range []string{"success", "own", "passes_up", "idempotent", "stop"} {
			t.Run(tt.name+"/"+answer, func(t *testing.T) {
				mux := http.NewServeMux()
				mux.Handle("/", byPath())
				mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
				settings := []string{onePolicy}
				if answer == "idempotent" {
					settings = append(settings, `services: {caller: {idempotent: ["GET /page"]}}`)
				}
				o := newOwning(t, mux, exactly(func(o *owning, r *http.Request) error {
					tt.before(o, r)
					switch answer {
					case "success":
						return nil
					case "passes_up":
						return o.fetch(r.Context(), http.MethodGet, "/users")
					case "stop":
						return o.fetch(r.Context(), http.MethodGet, "/index")
					default:
						return errors.New("my own")
					}
				}), settings...)
				got := o.asked(t, 3)
				claim := ownership.ClaimClaimed
				if tt.effects {
					claim = ownership.ClaimUnclaimed
				}
				switch answer {
				case "success":
					told(t, got, ownership.ClaimNone, "")
				case "own":
					told(t, got, claim, "caller")
				case "passes_up":
					told(t, got, claim, "users")
				case "idempotent":
					told(t, got, ownership.ClaimClaimed, "caller")
				case "stop":
					told(t, got, ownership.ClaimStop, "index")
				}
				if got.Effects != tt.effects {
					t.Errorf("the return says effects %t, want %t", got.Effects, tt.effects)
				}
			})
		}
	}
}

// A claim counts only with the nonce of the attempt that it answers, from a callee of the fleet, and once.
func TestOwnership_claims_that_do_not_count(t *testing.T) {
	stop := func(nonce func(otelprop.Nonce) otelprop.Nonce, lines int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			wire, _ := otelprop.ReadRequest(r.Header[otelprop.HTTPBaggageHeader], r.Header[otelprop.HTTPRequestHeader], 99)
			ret := otelprop.Return{Returned: 3, Claim: ownership.ClaimStop, Nonce: nonce(wire.Nonce), Owner: "liar"}
			for range lines {
				w.Header().Add(otelprop.HTTPReturnHeader, string(ret.Append(nil)))
			}
			w.WriteHeader(503)
		}
	}
	same := func(n otelprop.Nonce) otelprop.Nonce { return n }
	for name, tt := range map[string]struct {
		callee   http.Handler
		settings []string
		counts   bool
	}{
		"its_own":               {callee: stop(same, 1), counts: true},
		"relayed_by_a_hop":      {callee: stop(func(n otelprop.Nonce) otelprop.Nonce { return n + 1 }, 1)},
		"twice":                 {callee: stop(same, 2)},
		"forged_by_an_external": {callee: stop(same, 1), settings: []string{"external: true"}},
		"no_claim_at_all":       {callee: answer(503, "")},
		"no_failure_it_says":    {callee: claiming(503, ownership.ClaimNone, "liar")},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOwning(t, tt.callee, exactly(func(o *owning, r *http.Request) error {
				req := request(t, r.Context(), http.MethodGet, "http://callee/", nil)
				resp, err := o.client.Do(req)
				if err != nil {
					return err
				}
				read(t, resp)
				if lines := resp.Header[otelprop.HTTPReturnHeader]; lines != nil {
					t.Errorf("the response still has %q", lines)
				}
				return budgethttp.Denied(resp)
			}), append(tt.settings, keepsTokens)...)
			got := o.asked(t, 3)
			if tt.counts {
				told(t, got, ownership.ClaimStop, "liar")
				return
			}
			told(t, got, ownership.ClaimUnclaimed, "callee")
			if n := o.served.Load(); n != 2 {
				t.Errorf("%d requests, want 2: a missing claim may be retried", n)
			}
		})
	}
}

// A claim is made as the headers go out; what comes after changes nothing, and is no second return.
func TestOwnership_after_the_headers(t *testing.T) {
	for _, status := range []int{200, 500} {
		o := newOwning(t, ledgerFails, exactly(func(o *owning, r *http.Request) error {
			w := r.Context().Value(writerKey{}).(http.ResponseWriter)
			w.WriteHeader(status)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			return oneGet(o, r) // HandlerFunc blames it
		}))
		r := lend(t, http.DefaultClient, http.MethodGet, o.url, 3)
		want := ownership.ClaimNone
		if status == 500 {
			want = ownership.ClaimClaimed // at that moment no call had failed
		}
		if r.status != status || !r.hasReturn || r.ret.Claim != want || len(r.header[otelprop.HTTPReturnHeader]) != 1 {
			t.Errorf("status %d, return %+v, %d lines; want claim %s once", r.status, r.ret, len(r.header[otelprop.HTTPReturnHeader]), want)
		}
	}
}

// TestOwnership_timeouts: whoever was asked when the time ran out owns the failure; if nobody was, this service does.
func TestOwnership_timeouts(t *testing.T) {
	hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	const short = "retry: {attempt_timeout: 50ms}"
	within := func(f func(*owning, *http.Request) error) func(*owning, *http.Request) error {
		return func(o *owning, r *http.Request) error {
			ctx, cancel := context.WithTimeout(r.Context(), 50*time.Millisecond)
			defer cancel()
			return f(o, r.WithContext(ctx))
		}
	}
	wait := func(_ *owning, r *http.Request) error { <-r.Context().Done(); return r.Context().Err() }
	for _, tt := range []struct {
		name     string
		callee   http.Handler
		call     func(*owning, *http.Request) error
		settings []string
		left     time.Duration // that the caller says it has
		claim    ownership.Claim
		owner    string
		calls    int64
	}{
		{"an_attempts", hang, oneGet, []string{"retry: {attempt_timeout: 50ms, reserve: 99}"}, 0, ownership.ClaimUnclaimed, "callee", 2},
		{"an_attempts_and_its_lease_is_gone", hang, oneGet, []string{short}, 0, ownership.ClaimClaimed, "callee", 1},
		{"mine_while_a_call_was_out", hang, within(oneGet), []string{keepsTokens}, 0, ownership.ClaimClaimed, "callee", 1},
		{"mine_before_any_call", hang, within(wait), nil, 0, ownership.ClaimClaimed, "caller", 0},
		{"the_callers_while_a_call_was_out", hang, oneGet, []string{keepsTokens}, 50 * time.Millisecond, ownership.ClaimClaimed, "callee", 1},
		{"the_callers_before_any_call", hang, wait, nil, 50 * time.Millisecond, ownership.ClaimClaimed, "caller", 0},
		{"the_callees", claiming(504, ownership.ClaimUnclaimed, "vault"), oneGet, nil, 0, ownership.ClaimUnclaimed, "vault", 1},
		{"the_callees_own", claiming(504, ownership.ClaimClaimed, "callee"), oneGet, nil, 0, ownership.ClaimUnclaimed, "callee", 2},
	} {
		for how, wrap := range map[string]func(func(*owning, *http.Request) error) func(*owning) http.Handler{
			"wrapped": exactly, "swallowed": swallowing,
		} {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				o := newOwning(t, tt.callee, wrap(tt.call), tt.settings...)
				req := request(t, t.Context(), http.MethodGet, o.url, nil)
				wire := otelprop.Request{Grant: 3, Limit: 3, Hop: 1, Nonce: nextNonce(), Entry: "shop", Caller: "shop", Attempt: 1, Timeout: tt.left}
				req.Header.Set(otelprop.HTTPRequestHeader, wire.Header())
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				got := readReply(t, resp, wire.Nonce, 3)
				told(t, got.ret, tt.claim, tt.owner)
				if n := o.served.Load(); n != tt.calls {
					t.Errorf("the callee got %d requests, want %d", n, tt.calls)
				}
			})
		}
	}
}

var nonces atomic.Uint32

func nextNonce() otelprop.Nonce { return otelprop.Nonce(0xf0000000 + nonces.Add(1)) }

// TestOwnership_panics: a panic is the service's own failure, whatever calls failed before it and wherever it is recovered.
func TestOwnership_panics(t *testing.T) {
	recovers := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
	for name, value := range map[string]any{"a_value": "a bug", "a_runtime_error": nil} {
		panics := func(o *owning) http.Handler {
			return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if oneGet(o, r) == nil {
					t.Error("the call did not fail")
				}
				if value == nil {
					var none *owning
					none.url = ""
				}
				panic(value)
			})
		}
		t.Run(name+"/recovered_inside", func(t *testing.T) {
			o := newOwning(t, ledgerFails, func(o *owning) http.Handler { return recovers(panics(o)) })
			told(t, o.asked(t, 3), ownership.ClaimClaimed, "caller")
		})
		t.Run(name+"/recovered_outside", func(t *testing.T) {
			o := newOwning(t, ledgerFails, panics)
			o.url = serve(t, recovers(budgethttp.NewHandler(panics(o), o.SDK))).URL
			told(t, o.asked(t, 3), ownership.ClaimClaimed, "caller")
		})
	}
	t.Run("not_what_was_recovered_before", func(t *testing.T) {
		o := newOwning(t, ledgerFails, swallowing(func(o *owning, r *http.Request) error {
			func() {
				defer func() { _ = recover() }()
				panic("of some library, which goes on")
			}()
			return oneGet(o, r)
		}))
		told(t, o.asked(t, 3), ownership.ClaimUnclaimed, "ledger")
	})
}

// TestOwnership_of_another_requests_call: whoever shares the result of another request's call has made none, and its failure
// still has that call's owner.
func TestOwnership_of_another_requests_call(t *testing.T) {
	for _, wrapped := range []bool{true, false} {
		var once sync.Once
		var shared error
		wrap := swallowing
		if wrapped {
			wrap = exactly
		}
		o := newOwning(t, ledgerFails, wrap(func(o *owning, r *http.Request) error {
			once.Do(func() { shared = oneGet(o, r) })
			return shared
		}))
		told(t, o.asked(t, 3), ownership.ClaimUnclaimed, "ledger") // it made the call
		second := o.asked(t, 3)
		if !wrapped { // nobody said so, and it called nobody
			told(t, second, ownership.ClaimClaimed, "caller")
			continue
		}
		told(t, second, ownership.ClaimUnclaimed, "ledger")
		if second.Returned != 3 {
			t.Errorf("%d tokens came back, want 3", second.Returned)
		}
	}
}
