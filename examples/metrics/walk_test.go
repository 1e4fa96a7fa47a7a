package metrics

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// catalog is one in which the dependency ledger has the profile p; more is put into its parts.
func catalog(chain, profile, dependency string) string {
	return `
chain: {` + chain + `}
profiles:
  p:
    extends: read-heavy
    breaker: disabled
    backoff: {base: 1ms, throttled_base: 1ms, cap: 2ms}
    ` + profile + `
dependencies:
  ledger: {profile: p, ` + dependency + `}
services:
  shop: {}
`
}

const twice = "retry: {max_attempts: 2}"

func failing(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
func fine(http.ResponseWriter, *http.Request)        {}

// walk is everything that an instrument counts, each thing alone: what a case wants is all that moves.
var walk = []struct {
	name    string
	catalog string
	answer  http.HandlerFunc
	do      func(s *stage)
	want    readings
}{
	{
		name: "a_success_without_the_sdk_below", catalog: catalog("", twice, ""), answer: fine,
		do: (*stage).get,
		want: readings{
			"tokens.minted{source=start}": 3, "calls@": 1, "attempts@": 1, "tokens.lent@": 2, "tokens.lost": 2,
			"attempt.within@le=+Inf": 1, "dependency_budget.tokens{dependency=ledger}": 10,
		},
	},
	{
		name: "a_success_with_the_sdk_below", catalog: catalog("", twice, ""),
		answer: func(w http.ResponseWriter, r *http.Request) { returns(w, r, ownership.ClaimNone, "") },
		do:     (*stage).get,
		want:   readings{"tokens.minted{source=start}": 3, "calls@": 1, "attempts@": 1, "tokens.lent@": 2, "tokens.home@": 2},
	},
	{
		name: "a_canceled_attempt", catalog: catalog("", twice, ""),
		answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		do: func(s *stage) {
			s.chain(func(ctx context.Context) {
				ctx, cancel := context.WithCancel(ctx)
				s.callee.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
				s.send(ctx, http.MethodGet)
			})
		},
		want: readings{
			"tokens.minted{source=start}": 3, "calls@": 1, "attempts@": 1, "tokens.lent@": 2, "tokens.lost": 2, "denials@reason=canceled,entry=checkout": 1,
			"attempt.within@le=+Inf": 0,
		},
	},
	{
		name: "a_retry", catalog: catalog("", twice, ""), answer: failing,
		do: (*stage).get,
		want: readings{
			"tokens.minted{source=start}": 3, "calls@": 1, "attempts@": 2, "tokens.lent@": 2, "tokens.lost": 2,
			"attempt.failures@": 2, "attempt.within@le=+Inf": 2, "claims.received@claim=missing,owner=ledger": 2,
			"retries@kind=retry,entry=checkout": 1, "retries.by_hop{hop=0}": 1, "denials@reason=max_attempts,entry=checkout": 1,
			"dependency_budget.tokens{dependency=ledger}": 9,
		},
	},
	{
		name: "a_retry_of_a_chain_that_began_elsewhere", catalog: catalog("", twice, ""),
		answer: func(w http.ResponseWriter, r *http.Request) {
			returns(w, r, ownership.ClaimClaimed, "warehouse")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		do: func(s *stage) {
			s.arrive(func(_ http.ResponseWriter, r *http.Request) { s.send(r.Context(), http.MethodGet) }, from("shop", "", 7))
		},
		want: readings{
			"requests{source=callee}": 1, "calls@": 1, "attempts@": 2, "tokens.lent@": 3, "tokens.home@": 3,
			"attempt.failures@": 2, "claims.received@claim=claimed,owner=other": 2, "retries@kind=retry,entry=shop": 1,
			"retries.by_hop{hop=4}": 1, "denials@reason=max_attempts,entry=shop": 1, "tokens.returned": 1, "claims.sent{claim=none,owner=}": 1,
		},
	},
	{
		name: "the_purse_is_empty", catalog: catalog("budget: 0", "retry: {max_attempts: 3}", ""), answer: failing,
		do: (*stage).get,
		want: readings{
			"calls@": 1, "attempts@": 1, "attempt.failures@": 1, "claims.received@claim=missing,owner=ledger": 1,
			"denials@reason=chain_exhausted,entry=checkout": 1, "retries.prevented@": 2,
		},
	},
	{
		name: "what_must_not_run_twice_prevents_nothing", catalog: catalog("budget: 0", "retry: {max_attempts: 3}", ""), answer: failing,
		do: func(s *stage) { s.chain(func(ctx context.Context) { s.send(ctx, http.MethodPost) }) },
		want: readings{
			"calls@": 1, "attempts@": 1, "attempt.failures@": 1, "claims.received@claim=missing,owner=ledger": 1,
			"denials@reason=not_idempotent,entry=checkout": 1,
		},
	},
	{
		name: "a_milder_mode", catalog: catalog("budget: 0", "retry: {max_attempts: 3}", "mode: observe"), answer: failing,
		do: (*stage).get,
		want: readings{
			"calls@": 1, "attempts@": 3, "attempt.failures@": 3, "claims.received@claim=missing,owner=ledger": 3,
			"would_deny@reason=chain_exhausted": 2, "denials@reason=max_attempts,entry=checkout": 1,
		},
	},
	{
		name: "a_hedge", catalog: catalog("", "retry: {max_attempts: 2}\n    hedge: {after: 1ms, max: 1}", ""), answer: fine,
		do: func(s *stage) {
			var before atomic.Bool
			s.callee.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if !before.Swap(true) {
					<-r.Context().Done() // until the other one has answered
				}
			})
			s.get()
		},
		want: readings{
			"tokens.minted{source=start}": 3, "calls@": 1, "attempts@": 2, "retries@kind=hedge,entry=checkout": 1, "retries.by_hop{hop=0}": 1,
			"attempt.within@le=+Inf": 1,
		},
	},
	{
		name: "a_loop_around_the_sdk", catalog: catalog("", "retry: {max_attempts: 1}", ""), answer: failing,
		do: func(s *stage) {
			s.chain(func(ctx context.Context) {
				for range 3 {
					s.send(ctx, http.MethodGet)
				}
			})
		},
		want: readings{
			"tokens.minted{source=start}": 3, "calls@": 3, "repeated_calls@": 2, "attempts@": 3, "tokens.lent@": 3, "tokens.lost": 3,
			"attempt.failures@": 3, "claims.received@claim=missing,owner=ledger": 3, "denials@reason=no_policy,entry=checkout": 3,
		},
	},
	{
		name: "ownership_refuses", catalog: catalog("", "retry: {max_attempts: 3}", ""),
		answer: func(w http.ResponseWriter, r *http.Request) {
			returns(w, r, ownership.ClaimUnclaimed, "shop")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		do: func(s *stage) {
			s.get()
			s.chain(func(ctx context.Context) { s.send(ctx, http.MethodPost) }) // no policy would have repeated it
		},
		want: readings{
			"tokens.minted{source=start}": 6, "calls@": 2, "attempts@": 2, "tokens.lent@": 4, "tokens.home@": 4, "attempt.failures@": 2,
			"claims.received@claim=unclaimed,owner=shop": 2, "denials@reason=unclaimed,entry=checkout": 2, "retries.prevented@": 2,
		},
	},
	{
		name: "holdout", catalog: catalog("holdout: 100%", "retry: {max_attempts: 3}", ""), answer: fine,
		do: func(s *stage) {
			var n atomic.Int32
			s.callee.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1) == 3 {
					return
				}
				returns(w, r, ownership.ClaimUnclaimed, "ledger")
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			s.get()
		},
		want: readings{
			"tokens.minted{source=start}": 3, "calls@": 1, "attempts@": 3, "tokens.lent@": 4, "tokens.home@": 3, "tokens.lost": 1, "attempt.failures@": 2,
			"claims.received@claim=unclaimed,owner=ledger": 2, "retries@kind=retry,entry=checkout": 2, "retries.by_hop{hop=0}": 2,
			"holdout@outcome=failure": 1, "holdout@outcome=success": 1,
		},
	},
	{
		name:    "the_breaker_opens",
		catalog: strings.Replace(catalog("", "retry: {max_attempts: 3}", ""), "breaker: disabled", "breaker: {window: 10s, failure_ratio: 50%, min_requests: 1, open_for: 30s, probes: 1}", 1),
		answer:  failing,
		do: func(s *stage) {
			s.get()
			s.chain(func(ctx context.Context) {
				s.send(ctx, http.MethodGet)
				s.send(ctx, http.MethodPost)
			})
		},
		want: readings{
			"tokens.minted{source=start}": 6, "calls@": 3, "attempts@": 1, "tokens.lent@": 2, "tokens.lost": 2, "attempt.failures@": 1,
			"claims.received@claim=missing,owner=ledger": 1, "denials@reason=breaker_open,entry=checkout": 3,
			"retries.prevented@":                                4, // two after an attempt, two of a call without one, none of what must not run twice
			"breaker.changes{dependency=ledger,state=open}":     1,
			"breaker.status{dependency=ledger,state=open}":      1,
			"breaker.status{dependency=ledger,state=closed}":    0,
			"breaker.status{dependency=ledger,state=half_open}": 0,
		},
	},
	{
		name: "another_catalog", catalog: catalog("", twice, ""), answer: failing,
		do: func(s *stage) {
			s.get()
			s.write(strings.ReplaceAll(strings.ReplaceAll(catalog("", twice, ""), "  p:\n", "  q:\n"), "profile: p", "profile: q") + "overrides: {retries: disabled}\n")
			s.inForce(2)
			s.get()
			s.write("profiles: {p: {extends: nothing}}")
			eventually(s.t, "the bad catalog is refused", func() bool { return s.sdk.Catalog().Rejected == 1 })
			s.get()
		},
		want: readings{
			"tokens.minted{source=start}": 9, "calls@": 1, "attempts@": 2, "tokens.lent@": 2, "tokens.lost": 6, "attempt.failures@": 2,
			"claims.received@claim=missing,owner=ledger": 2, "retries@kind=retry,entry=checkout": 1, "retries.by_hop{hop=0}": 1,
			"denials@reason=max_attempts,entry=checkout":                              1,
			"calls{dependency=ledger,profile=q}":                                      2,
			"attempts{dependency=ledger,profile=q}":                                   2,
			"tokens.lent{dependency=ledger,profile=q}":                                4,
			"attempt.failures{dependency=ledger,profile=q}":                           2,
			"claims.received{claim=missing,dependency=ledger,owner=ledger,profile=q}": 2,
			"denials{dependency=ledger,entry=checkout,profile=q,reason=disabled}":     2,
			"retries.prevented{dependency=ledger,profile=q}":                          2,
			"retries.disabled{dependency=ledger}":                                     1,
			"catalog.generation":                                                      2,
			"catalog.rejections":                                                      1,
		},
	},
	{
		name: "a_catalog_that_overtakes_a_call", catalog: catalog("", twice, ""), answer: fine,
		do: func(s *stage) {
			var before atomic.Bool
			s.callee.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if !before.Swap(true) {
					s.write(strings.ReplaceAll(strings.ReplaceAll(catalog("", twice, ""), "  p:\n", "  q:\n"), "profile: p", "profile: q"))
					s.inForce(2)
				}
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			s.get()
		},
		want: readings{ // all of it with the profile that it began with
			"tokens.minted{source=start}": 3, "calls@": 1, "attempts@": 2, "tokens.lent@": 2, "tokens.lost": 2, "attempt.failures@": 2,
			"claims.received@claim=missing,owner=ledger": 2, "retries@kind=retry,entry=checkout": 1, "retries.by_hop{hop=0}": 1,
			"denials@reason=max_attempts,entry=checkout": 1, "catalog.generation": 2,
		},
	},
	{
		name: "an_entry", catalog: catalog("budget: 2", twice, ""), answer: fine,
		do:   func(s *stage) { s.arrive(nil, from("shop", "", 1), budgethttp.Entry()) },
		want: readings{"requests{source=entry}": 1, "tokens.minted{source=entry}": 2},
	},
	{
		name: "an_orphan", catalog: catalog("", twice, ""), answer: fine,
		do:   func(s *stage) { s.arrive(nil, nil) },
		want: readings{"requests{source=orphan}": 1, "tokens.minted{source=orphan}": 1},
	},
	{
		name: "a_relayed_request", catalog: catalog("", twice, ""), answer: fine,
		do: func(s *stage) {
			headers := from("shop", "", 1)
			delete(headers, otelprop.RequestHeader)
			s.arrive(nil, headers)
		},
		want: readings{"requests{source=relayed}": 1},
	},
	{
		name: "an_unreadable_request", catalog: catalog("", twice, ""), answer: fine,
		do:   func(s *stage) { s.arrive(nil, map[string]string{otelprop.RequestHeader: "v1.what"}) },
		want: readings{"requests{source=unreadable}": 1, "wire.rejections{reason=malformed}": 1},
	},
	{
		name: "a_lost_context", catalog: catalog("orphan_budget: 1", twice, ""), answer: fine,
		do: func(s *stage) { s.send(context.Background(), http.MethodGet) },
		want: readings{
			"no_purse": 1, "tokens.minted{source=no_purse}": 1, "calls@": 1, "attempts@": 1, "tokens.lent@": 1, "tokens.lost": 1,
		},
	},
	{
		name: "an_own_failure", catalog: catalog("", twice, ""), answer: fine,
		do: func(s *stage) { s.arrive(failing, from("shop", "", 1)) },
		want: readings{
			"requests{source=callee}": 1, "tokens.returned": 2, "claims.sent{claim=claimed,owner=checkout}": 1,
		},
	},
	{
		name: "a_repetition_that_a_proxy_announces", catalog: catalog("", twice, ""), answer: fine,
		do: func(s *stage) {
			headers := from("shop", "", 1)
			headers["X-Envoy-Attempt-Count"] = "2"
			s.arrive(nil, headers)
		},
		want: readings{"requests{source=callee}": 1, "foreign_repeats": 1, "claims.sent{claim=none,owner=}": 1},
	},
	{
		name: "a_repetition_that_nobody_announces", catalog: catalog("", twice, ""), answer: fine,
		do: func(s *stage) {
			s.arrive(nil, from("shop", "", 1))
			s.arrive(nil, from("shop", "", 1))
		},
		want: readings{"requests{source=callee}": 2, "repeated_grants": 1, "tokens.returned": 2, "claims.sent{claim=none,owner=}": 2},
	},
	{
		name: "a_repetition_of_the_transport", catalog: catalog("", twice, ""), answer: fine,
		do: func(s *stage) {
			var second atomic.Bool
			s.callee.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/warm" || second.Swap(true) {
					return
				}
				conn, _, err := w.(http.Hijacker).Hijack() // as if it had died while it was idle
				if err != nil {
					s.t.Error(err)
					return
				}
				_ = conn.Close()
			})
			warm := &http.Client{Transport: s.pool}
			status(warm.Get(s.callee.URL + "/warm"))
			s.get()
		},
		want: readings{
			"tokens.minted{source=start}": 3, "calls@": 1, "attempts@": 2, "tokens.lent@": 2, "tokens.lost": 2, "hidden_repeats": 1,
			"attempt.failures@": 1, "claims.received@claim=missing,owner=ledger": 1, "retries@kind=retry,entry=checkout": 1,
			"retries.by_hop{hop=0}": 1,
		},
	},
	{
		name: "another_profile_than_pinned", catalog: catalog("", twice, "") + "  checkout: {serves: [ledger]}\n", answer: fine,
		do: func(s *stage) {
			pinned := s.ledger.Profile().Digest()
			s.arrive(nil, from("shop", pinned, 1))
			s.arrive(nil, from("shop", "00000000", 2))
			s.arrive(nil, from("nobody-knows-me", "00000000", 3))
			s.write(catalog("", "retry: {max_attempts: 3}", "") + "  checkout: {serves: [ledger]}\n")
			s.inForce(2)
			s.arrive(nil, from("shop", pinned, 4))
		},
		want: readings{
			"requests{source=callee}": 4, "tokens.returned": 8, "claims.sent{claim=none,owner=}": 4,
			"profile.mismatches{caller=shop,kind=divergent}": 1, "profile.mismatches{caller=other,kind=divergent}": 1,
			"profile.mismatches{caller=shop,kind=older}": 1, "catalog.generation": 2,
		},
	},
	{
		name: "no_room_for_baggage", catalog: catalog("budget: 0", twice, ""), answer: fine,
		do: func(s *stage) {
			s.chain(func(ctx context.Context) {
				s.send(ctx, http.MethodGet, func(r *http.Request) {
					r.Header.Set(otelprop.BaggageHeader, strings.Repeat("a=1,", 64)+"b=2")
				})
			})
		},
		want: readings{"calls@": 1, "attempts@": 1, "baggage.dropped": 2},
	},
	{
		name: "a_cause_that_was_learned", catalog: catalog("budget: 0, learn: observe", "retry: {max_attempts: 1}", ""),
		answer: func(w http.ResponseWriter, r *http.Request) {
			returns(w, r, ownership.ClaimUnclaimed, "ledger")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		do: func(s *stage) {
			var own atomic.Bool
			mux := http.NewServeMux()
			mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				s.send(r.Context(), http.MethodGet)
				if own.Load() {
					w.WriteHeader(http.StatusInternalServerError)
				}
			})
			for range 16 {
				s.arrive(mux.ServeHTTP, nil)
			}
			own.Store(true)
			s.arrive(mux.ServeHTTP, nil)
		},
		want: readings{
			"requests{source=orphan}": 17, "tokens.minted{source=orphan}": 17, "calls@": 17, "attempts@": 17, "attempt.failures@": 17,
			"tokens.lent@": 17, "tokens.home@": 17,
			"claims.received@claim=unclaimed,owner=ledger": 17, "denials@reason=unclaimed,entry=checkout": 17, "learned_otherwise": 1,
		},
	},
}

// inForce waits for a catalog.
func (s *stage) inForce(generation int) {
	s.t.Helper()
	eventually(s.t, "the new catalog is in force", func() bool { return s.sdk.Catalog().Generation == generation })
}

// Every instrument moves as docs/metrics.md says, and nothing else moves with it. An instrument that no case moves fails
// the test.
func TestWalk(t *testing.T) {
	patience := 10 * time.Second
	walked, exported := map[string]bool{}, map[string]bool{}
	for _, c := range walk {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, c.catalog, c.answer)
			c.do(s)
			got := collect(t, s.reader, "checkout")
			waited(patience, func() bool { // an answer can be here before its server's handler is done
				got = collect(t, s.reader, "checkout")
				return len(got.differences(c.want)) == 0
			})
			for _, line := range got.differences(c.want) {
				t.Error(line)
				patience = 100 * time.Millisecond // where one case is wrong many may be
			}
			sound(t, got)
			agrees(t, got, s.sdk.Totals())
			for key, v := range c.want {
				if v != 0 {
					walked[got.name(complete(key))] = true
				}
			}
			for key, v := range got {
				if v != 0 && standing.MatchString(key) {
					walked[got.name(key)] = true
				}
			}
			families, err := s.registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				exported[f.GetName()] = true
			}
		})
	}
	for name, inPrometheus := range documented(t) {
		if !walked[name] {
			t.Errorf("no case moves %s", name)
		}
		if !exported[inPrometheus] {
			t.Errorf("Prometheus never sees %s", inPrometheus)
		}
		delete(exported, inPrometheus)
	}
	for name := range exported {
		if strings.HasPrefix(name, "chainbudget") {
			t.Errorf("Prometheus sees %s, which the document does not have", name)
		}
	}
	for name := range walked {
		if documented(t)[name] == "" {
			t.Errorf("docs/metrics.md does not have %s", name)
		}
	}
}

// sound demands of a reading what holds for every one: buckets are cumulative, and what failed has ended.
func sound(t testing.TB, got readings) {
	t.Helper()
	for _, profile := range []string{"p", "q"} {
		series := "dependency=ledger,profile=" + profile + "}"
		if _, there := got["calls{"+series]; !there {
			continue
		}
		before := 0.0
		for _, le := range []string{"0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"} {
			n, there := got["attempt.within{dependency=ledger,le="+le+",profile="+profile+"}"]
			if !there || n < before {
				t.Errorf("%s: %v attempts within %s s, and %v before (%v)", profile, n, le, before, there)
			}
			before = n
		}
		failed, sent, took := got["attempt.failures{"+series], got["attempts{"+series], got["attempt.time{"+series]
		if failed > before || before > sent || (before > 0) != (took > 0) {
			t.Errorf("%s: %v of %v attempts have ended, %v failed, in %v s", profile, before, sent, failed, took)
		}
	}
}

// agrees demands that sums over series are what Totals says.
func agrees(t testing.TB, got readings, totals chainbudget.Totals) {
	t.Helper()
	sum := func(name string, words ...string) (n int64) {
	series:
		for key, v := range got {
			if got.name(key) != "chainbudget."+name {
				continue
			}
			for _, w := range words {
				if !strings.Contains(key, w) {
					continue series
				}
			}
			n += int64(v)
		}
		return n
	}
	total := func(counts map[string]int64) (n int64) {
		for _, c := range counts {
			n += c
		}
		return n
	}
	var d chainbudget.DependencyTotals
	for _, one := range totals.Dependencies {
		d.Calls += one.Calls
		d.Attempts += one.Attempts
		d.Retries += one.Retries
		d.Hedges += one.Hedges
		d.RepeatedCalls += one.RepeatedCalls
		d.Lent += one.Lent
		d.Home += one.Home
		d.HoldoutSucceeded += one.HoldoutSucceeded
	}
	var denied, would, claims, hops int64
	for _, one := range totals.Dependencies {
		denied += total(one.Denied)
		would += total(one.WouldDeny)
		claims += total(one.Claims)
	}
	for _, n := range totals.RetriesByHop {
		hops += n
	}
	for _, c := range []struct {
		what         string
		metric, want int64
	}{
		{"entries", sum("requests", "entry"), totals.Entries}, {"callees", sum("requests", "callee"), totals.Callees},
		{"relayed", sum("requests", "relayed"), totals.Relayed}, {"orphans", sum("requests", "orphan"), totals.Orphans},
		{"unreadable", sum("requests", "unreadable"), totals.Unreadable}, {"no purse", sum("no_purse"), totals.NoPurse},
		{"minted", sum("tokens.minted"), totals.Minted}, {"lost", sum("tokens.lost"), totals.Lost},
		{"foreign", sum("foreign_repeats"), totals.Foreign}, {"grants", sum("repeated_grants"), totals.RepeatedGrants},
		{"hidden", sum("hidden_repeats"), totals.HiddenRepeats}, {"baggage", sum("baggage.dropped"), totals.BaggageDropped},
		{"rejects", sum("wire.rejections"), total(totals.Rejects)}, {"claims sent", sum("claims.sent"), total(totals.ClaimsSent)},
		{"hops", sum("retries.by_hop"), hops}, {"learned", sum("learned_otherwise"), totals.LearnedOtherwise},
		{"divergent", sum("profile.mismatches", "divergent"), totals.Mismatched}, {"older", sum("profile.mismatches", "older"), totals.Older},
		{"calls", sum("calls"), d.Calls}, {"attempts", sum("attempts"), d.Attempts}, {"retries", sum("retries"), d.Retries},
		{"hedges", sum("retries", "kind=hedge"), d.Hedges}, {"repeated", sum("repeated_calls"), d.RepeatedCalls},
		{"lent", sum("tokens.lent"), d.Lent}, {"home", sum("tokens.home"), d.Home},
		{"holdout successes", sum("holdout", "success"), d.HoldoutSucceeded}, {"denied", sum("denials"), denied},
		{"would deny", sum("would_deny"), would}, {"claims", sum("claims.received"), claims}, {"failures", sum("attempt.failures"), claims},
	} {
		if c.metric != c.want {
			t.Errorf("%s: the instruments say %d, Totals %d", c.what, c.metric, c.want)
		}
	}
}
