package budgethttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Every gate that a retry passes, a hedge passes. What refuses it leaves the first attempt alone.
func TestHedge_passes_every_gate(t *testing.T) {
	const ms = time.Millisecond
	slow := []track{{after: 100 * ms, status: 200}}
	t.Run("disabled", func(t *testing.T) {
		for _, when := range []time.Duration{0, 30 * ms} {
			synctest.Test(t, func(t *testing.T) {
				text := func(switches string) string {
					return "version: 1\nprofiles: {roomy: {extends: read-heavy, " + hedging(1) + "}}\n" + switches
				}
				who := newCaller(t, roomy, chainbudgettest.Catalog(text("")))
				off, err := profiles.Load([]byte(text("overrides: {retries: disabled}")), "switched off")
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(when, func() {
					if err := (*engine.SDK)(who.SDK).Swap(off); err != nil {
						t.Error(err)
					}
				})
				ctx, end := who.endlessChain(t.Context())
				defer end()
				c := &course{tracks: slow}
				if got := c.call(t, who, ctx, http.MethodGet); got.status != 200 || len(c.sent) != 1 || got.reasons != "h:disabled" || got.spent != 0 {
					t.Errorf("got %+v after %d attempts", got, len(c.sent))
				}
			})
		}
	})
	for _, tt := range []struct {
		name, method, settings, reasons string
		mode                            profiles.Mode
	}{
		{"not_idempotent", http.MethodPost, "", "", profiles.ModeInherit},
		{"max_attempts", http.MethodGet, "retry: {max_attempts: 2}", "h:allowed", profiles.ModeInherit},
		{"dependency_budget", http.MethodGet, "budget: {ratio: 1%, burst: 1}", "h:allowed h:dependency_budget", profiles.ModeInherit},
		{"process_budget", http.MethodGet, "process_budget: 1", "h:allowed h:process_budget", profiles.ModeInherit},
		{"observe_sends_what_is_allowed", http.MethodGet, "", "h:allowed h:allowed", profiles.ModeObserve},
	} {
		t.Run(tt.name, func(t *testing.T) {
			settings := []string{hedging(2)}
			if tt.name == "max_attempts" {
				settings = []string{hedging(1), tt.settings}
			} else if tt.settings != "" {
				settings = append(settings, tt.settings)
			}
			c := &course{tracks: []track{{after: 300 * ms, status: 200}, silence}}
			got := c.race(t, tt.method, catalog(9, settings...), chainbudgettest.Mode(tt.mode))
			if got.reasons != tt.reasons || got.status != 200 || got.took != 300*ms || len(c.sent) != 1+strings.Count(tt.reasons, "h:allowed") {
				t.Errorf("got %+v after %d attempts, want decisions %q", got, len(c.sent), tt.reasons)
			}
		})
	}
	t.Run("observe_sends_nothing_else", func(t *testing.T) {
		c := &course{tracks: []track{{after: 300 * ms, status: 200}, silence}}
		got := c.race(t, http.MethodGet, catalog(1, hedging(2)), chainbudgettest.Mode(profiles.ModeObserve))
		if got.reasons != "h:allowed h:chain_exhausted" || len(c.sent) != 2 || got.spent != 1 || len(got.numbers.WouldDeny) != 0 {
			t.Errorf("got %+v after %d attempts", got, len(c.sent))
		}
	})
	t.Run("not_beside_a_retry_that_ownership_refused", func(t *testing.T) {
		c := &course{tracks: []track{{after: 10 * ms, status: 503, claim: "u"}, {after: 300 * ms, status: 200}, silence}}
		got := c.race(t, http.MethodGet, catalog(9, hedging(2)), chainbudgettest.Mode(profiles.ModeBudget))
		if got.reasons != "allowed" || len(c.sent) != 2 || got.status != 200 {
			t.Errorf("got %+v after %d attempts", got, len(c.sent))
		}
	})
	t.Run("bypass", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			who := newCaller(t, roomy, catalog(9, hedging(2)), chainbudgettest.Mode(profiles.ModeBypass))
			sent := 0
			resp, err := who.transport(t, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				sent++
				time.Sleep(time.Second)
				return response(r, 200, http.NoBody), nil
			})).RoundTrip(request(t, t.Context(), http.MethodGet, "http://callee/", nil))
			if err != nil || resp.StatusCode != 200 || sent != 1 {
				t.Errorf("%v, %v after %d attempts", resp, err, sent)
			}
		})
	})
	t.Run("settled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			who := newCaller(t, roomy, catalog(3, hedging(1)))
			ctx, end := who.endlessChain(t.Context())
			time.AfterFunc(20*ms, end)
			c := &course{tracks: slow}
			if got := c.call(t, who, ctx, http.MethodGet); got.reasons != "h:settled" || got.status != 200 || len(c.sent) != 1 {
				t.Errorf("got %+v after %d attempts", got, len(c.sent))
			}
		})
	})
	t.Run("deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			who := newCaller(t, roomy, catalog(9, hedging(1)))
			ctx, end := who.endlessChain(t.Context())
			defer end()
			for range 8 { // so that the typical time is known
				(&course{tracks: []track{{after: 40 * ms, status: 200}}}).call(t, who, ctx, http.MethodGet)
			}
			limited, cancel := context.WithTimeout(ctx, 89*ms)
			defer cancel()
			c := &course{tracks: []track{{after: 60 * ms, status: 200}}}
			if got := c.call(t, who, limited, http.MethodGet); got.reasons != "h:deadline" || got.status != 200 || len(c.sent) != 1 {
				t.Errorf("got %+v after %d attempts", got, len(c.sent))
			}
		})
	})
	t.Run("breaker_open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			who := newCaller(t, roomy, catalog(9, hedging(1), "breaker: {min_requests: 1, failure_ratio: 1%, open_for: 1s, probes: 1}", "retry: {max_attempts: 2}"))
			ctx, end := who.endlessChain(t.Context())
			defer end()
			(&course{tracks: []track{{status: 500}}}).call(t, who, ctx, http.MethodGet)
			time.Sleep(2 * time.Second)
			before := len(who.Events())
			c := &course{tracks: slow}
			if got := c.call(t, who, ctx, http.MethodGet); got.status != 200 || len(c.sent) != 1 {
				t.Errorf("the half-open breaker's one probe was hedged: %+v after %d attempts", got, len(c.sent))
			}
			if got := reasons(who.Events()[before:]); got != "h:breaker_open" {
				t.Errorf("decisions %q", got)
			}
		})
	})
	t.Run("availability_floor", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			who := newCaller(t, roomy, catalog(9, hedging(1), "availability_floor: 60%"))
			for range 20 {
				ctx, end := who.endlessChain(t.Context())
				(&course{tracks: []track{{status: 503, claim: "s"}}}).call(t, who, ctx, http.MethodGet)
				end()
			}
			ctx, end := who.endlessChain(t.Context())
			defer end()
			before := len(who.Events())
			c := &course{tracks: slow}
			c.call(t, who, ctx, http.MethodGet)
			if got := reasons(who.Events()[before:]); got != "h:availability_floor" || len(c.sent) != 1 {
				t.Errorf("decisions %q, %d attempts", got, len(c.sent))
			}
		})
	})
	t.Run("not_replayable", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			who := newCaller(t, roomy, catalog(9, hedging(1)))
			for name, with := range map[string]func(*http.Request){
				"a stream":                func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("x")) },
				"trailers":                func(r *http.Request) { r.Trailer = http.Header{"X-Sum": nil} },
				"a body that comes once":  func(r *http.Request) { (&replayed{content: "x", fails: errors.New("gone")}).attach(r) },
				"a body that comes again": func(r *http.Request) { (&replayed{content: "x"}).attach(r) },
			} {
				ctx, end := who.endlessChain(t.Context())
				defer end()
				c := &course{tracks: []track{{after: 100 * ms, status: 200}, silence}}
				req := request(t, ctx, http.MethodPut, "http://callee/", nil)
				with(req)
				want := 1
				if name == "a body that comes again" {
					want = 2
				}
				resp, err := who.transport(t, c).RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				read(t, resp)
				synctest.Wait()
				if spent := balance(t, ctx).Spent; len(c.sent) != want || spent != want-1 {
					t.Errorf("%s: %d attempts and %d tokens, want %d attempts", name, len(c.sent), spent, want)
				}
			}
		})
	})
}

// A call that cannot hedge lends as any other: a profile's hedges are for idempotent calls.
func TestHedge_calls_that_cannot_lend(t *testing.T) {
	c := &course{tracks: []track{{status: 200}}}
	c.race(t, http.MethodPost, catalog(3, hedging(1)))
	if c.grants[0] != "2" {
		t.Errorf("a POST carries %s tokens of a minted three, want 2", c.grants[0])
	}
}
