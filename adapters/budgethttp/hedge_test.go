package budgethttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// hedging is a setting for a caller that hedges after 50 ms.
func hedging(max int) string { return fmt.Sprintf("hedge: {after: 50ms, max: %d}", max) }

// track is what a base made of a script does with the nth attempt of a call.
type track struct {
	after   time.Duration
	status  int // 0 = an error
	claim   string
	header  []string
	deaf    bool // does not notice that it was canceled
	instead func()
}

// track of an attempt that nobody answers.
var silence = track{after: time.Hour}

// course is such a base. Attempts beyond the script answer as the last.
type course struct {
	tracks []track

	mu     sync.Mutex
	sent   []time.Duration // since the first
	nonces map[string]bool
	grants []string
	causes []error // of attempts that were canceled
	bodies []*text // of the answers
	begun  time.Time
}

func (c *course) RoundTrip(r *http.Request) (*http.Response, error) {
	attempt, _ := chainbudget.AttemptFromContext(r.Context())
	t := c.tracks[min(attempt.Number, len(c.tracks))-1]
	wire := arrival{header: r.Header}
	c.mu.Lock()
	if c.begun.IsZero() {
		c.begun, c.nonces = time.Now(), make(map[string]bool)
	}
	c.sent = append(c.sent, time.Since(c.begun))
	c.nonces[wire.nonce()] = true
	c.grants = append(c.grants, wire.grant())
	c.mu.Unlock()
	if got := wire.parameter("attempt"); got != fmt.Sprint(attempt.Number) {
		return nil, fmt.Errorf("the wire says attempt=%s, the context %d", got, attempt.Number)
	}
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	canceled := r.Context().Done()
	if t.deaf {
		canceled = nil
	}
	select {
	case <-time.After(t.after):
	case <-canceled:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.causes = append(c.causes, context.Cause(r.Context()))
		return nil, context.Cause(r.Context())
	}
	if t.instead != nil {
		t.instead()
	}
	if t.status == 0 {
		return nil, errors.New("connection reset")
	}
	header := t.header
	if t.claim != "" {
		header = append([]string{"Chainbudget-Return", "v1.0.0." + t.claim + "." + wire.nonce() + ".-.store"}, header...)
	}
	body := newText("body of " + fmt.Sprint(attempt.Number))
	c.mu.Lock()
	c.bodies = append(c.bodies, body)
	c.mu.Unlock()
	return response(r, t.status, body, header...), nil
}

// raced is what came of a call over a course.
type raced struct {
	status  int
	body    string
	err     error
	denied  *chainbudget.DeniedError
	took    time.Duration
	spent   int
	numbers chainbudget.DependencyTotals
	reasons string
}

// race makes one call over the course in a bubble, and waits until every attempt is over.
func (c *course) race(t *testing.T, method string, options ...chainbudgettest.Option) (got raced) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		who := newCaller(t, roomy, options...)
		ctx, end := who.endlessChain(t.Context())
		defer end()
		got = c.call(t, who, ctx, method)
	})
	return got
}

func (c *course) call(t *testing.T, who *caller, ctx context.Context, method string) (got raced) {
	t.Helper()
	begun := time.Now()
	resp, err := who.transport(t, c).RoundTrip(request(t, ctx, method, "http://callee/", nil))
	got.took, got.err = time.Since(begun), err
	if (resp == nil) == (err == nil) {
		t.Fatalf("got %v and %v, want exactly one", resp, err)
	}
	errors.As(err, &got.denied)
	if resp != nil {
		got.denied = budgethttp.Denied(resp)
		got.status, got.body = read(t, resp)
	}
	synctest.Wait()
	got.spent = balance(t, ctx).Spent
	got.numbers = who.SDK.Totals().Dependencies["callee"]
	got.reasons = reasons(who.Events())
	if lent := balance(t, ctx).Lent; lent != 0 {
		t.Errorf("%d tokens are lent after the call", lent)
	}
	return got
}

// reasons writes decisions down, those about hedges with an h.
func reasons(events []chainbudget.Event) string {
	var words []string
	for _, e := range events {
		word := e.Reason.String()
		if e.Hedge {
			word = "h:" + word
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestHedge_who_wins_and_what_it_costs(t *testing.T) {
	const ms = time.Millisecond
	ok := func(after time.Duration) track { return track{after: after, status: 200} }
	fail := func(after time.Duration, claim string, header ...string) track {
		return track{after: after, status: 503, claim: claim, header: header}
	}
	type want struct {
		status   int
		body     string
		took     time.Duration
		sent     int
		spent    int
		hedges   int64
		canceled int
		failed   int64 // claims counted
		reasons  string
	}
	for _, tt := range []struct {
		name   string
		tokens int
		max    int
		tracks []track
		want   want
	}{
		{"answered_in_time", 3, 2, []track{ok(49 * ms)}, want{status: 200, body: "body of 1", took: 49 * ms, sent: 1}},
		{"failed_in_time", 3, 2, []track{fail(10*ms, "c"), ok(20 * ms)},
			want{status: 200, body: "body of 2", took: 30 * ms, sent: 2, spent: 1, failed: 1, reasons: "allowed"}},
		{"hedge_wins", 3, 1, []track{silence, ok(10 * ms)},
			want{status: 200, body: "body of 2", took: 60 * ms, sent: 2, spent: 1, hedges: 1, canceled: 1, reasons: "h:allowed"}},
		{"hedge_loses", 3, 1, []track{ok(70 * ms), silence},
			want{status: 200, body: "body of 1", took: 70 * ms, sent: 2, spent: 1, hedges: 1, canceled: 1, reasons: "h:allowed"}},
		{"second_hedge_wins", 3, 2, []track{silence, silence, ok(10 * ms)},
			want{status: 200, body: "body of 3", took: 110 * ms, sent: 3, spent: 2, hedges: 2, canceled: 2, reasons: "h:allowed h:allowed"}},
		{"no_more_than_max", 9, 2, []track{ok(time.Second), silence},
			want{status: 200, body: "body of 1", took: time.Second, sent: 3, spent: 2, hedges: 2, canceled: 2, reasons: "h:allowed h:allowed"}},
		{"one_token_pays_for_one_hedge", 1, 2, []track{ok(time.Second), silence},
			want{status: 200, body: "body of 1", took: time.Second, sent: 2, spent: 1, hedges: 1, canceled: 1, reasons: "h:allowed h:chain_exhausted"}},
		{"without_tokens_it_waits", 0, 2, []track{ok(time.Second)},
			want{status: 200, body: "body of 1", took: time.Second, sent: 1, reasons: "h:chain_exhausted"}},
		{"a_4xx_is_an_answer", 3, 1, []track{silence, {after: 10 * ms, status: 404}},
			want{status: 404, body: "body of 2", took: 60 * ms, sent: 2, spent: 1, hedges: 1, canceled: 1, reasons: "h:allowed"}},
		{"first_fails_while_the_hedge_runs", 3, 1, []track{fail(60*ms, "c"), ok(30 * ms)},
			want{status: 200, body: "body of 2", took: 80 * ms, sent: 2, spent: 1, hedges: 1, failed: 1, reasons: "h:allowed"}},
		{"hedge_fails_while_the_first_runs", 3, 1, []track{ok(90 * ms), fail(10*ms, "c")},
			want{status: 200, body: "body of 1", took: 90 * ms, sent: 2, spent: 1, hedges: 1, failed: 1, reasons: "h:allowed"}},
		{"both_fail_and_a_retry_follows", 3, 1, []track{fail(60*ms, "c"), fail(30*ms, "c"), ok(5 * ms)},
			want{status: 200, body: "body of 3", took: 85 * ms, sent: 3, spent: 2, hedges: 1, failed: 2, reasons: "h:allowed allowed"}},
		{"both_fail_and_nothing_is_left", 1, 1, []track{fail(60*ms, "c"), fail(30*ms, "c")},
			want{status: 503, body: "body of 2", took: 80 * ms, sent: 2, spent: 1, hedges: 1, failed: 2, reasons: "h:allowed chain_exhausted"}},
		{"a_retry_may_be_hedged", 3, 1, []track{fail(10*ms, "c"), silence, ok(10 * ms)},
			want{status: 200, body: "body of 3", took: 70 * ms, sent: 3, spent: 2, hedges: 1, canceled: 1, failed: 1, reasons: "allowed h:allowed"}},
		{"stop_ends_hedging", 9, 3, []track{fail(60*ms, "s"), fail(90*ms, "c"), ok(ms)},
			want{status: 503, body: "body of 2", took: 140 * ms, sent: 2, spent: 1, hedges: 1, failed: 2, reasons: "h:allowed stop"}},
		{"unclaimed_ends_hedging", 9, 3, []track{fail(60*ms, "u"), fail(90*ms, "c"), ok(ms)},
			want{status: 503, body: "body of 2", took: 140 * ms, sent: 2, spent: 1, hedges: 1, failed: 2, reasons: "h:allowed unclaimed"}},
		{"pushback_ends_hedging", 9, 3, []track{fail(60*ms, "c", "X-Envoy-Overloaded", "true"), fail(90*ms, "c"), ok(ms)},
			want{status: 503, body: "body of 2", took: 140 * ms, sent: 2, spent: 1, hedges: 1, failed: 2, reasons: "h:allowed pushback"}},
		{"a_hint_ends_hedging", 9, 3, []track{fail(60*ms, "c", "Retry-After", "3600"), fail(90*ms, "c"), ok(ms)},
			want{status: 503, body: "body of 2", took: 140 * ms, sent: 2, spent: 1, hedges: 1, failed: 2, reasons: "h:allowed pushback"}},
		{"what_stays_ends_hedging", 9, 3, []track{{after: 60 * ms, status: 501}, fail(90*ms, "c"), ok(ms)},
			want{status: 503, body: "body of 2", took: 140 * ms, sent: 2, spent: 1, hedges: 1, failed: 2, reasons: "h:allowed not_retryable"}},
		{"an_ordinary_failure_does_not", 9, 3, []track{fail(60*ms, "c"), silence, ok(ms)},
			want{status: 200, body: "body of 3", took: 101 * ms, sent: 3, spent: 2, hedges: 2, canceled: 1, failed: 1, reasons: "h:allowed h:allowed"}},
		{"stop_of_the_last_counts", 9, 1, []track{fail(60*ms, "c"), fail(90*ms, "s")},
			want{status: 503, body: "body of 2", took: 140 * ms, sent: 2, spent: 1, hedges: 1, failed: 2, reasons: "h:allowed stop"}},
		{"a_success_beats_a_stop", 9, 1, []track{fail(60*ms, "s"), ok(90 * ms)},
			want{status: 200, body: "body of 2", took: 140 * ms, sent: 2, spent: 1, hedges: 1, failed: 1, reasons: "h:allowed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &course{tracks: tt.tracks}
			got := c.race(t, http.MethodGet, catalog(tt.tokens, hedging(tt.max)))
			failed := int64(0)
			for _, n := range got.numbers.Claims {
				failed += n
			}
			have := want{got.status, got.body, got.took, len(c.sent), got.spent, got.numbers.Hedges, len(c.causes), failed, got.reasons}
			if have != tt.want {
				t.Errorf("got  %+v\nwant %+v", have, tt.want)
			}
			if got.numbers.Retries != int64(got.spent) || got.numbers.Attempts != int64(len(c.sent)) || len(c.nonces) != len(c.sent) {
				t.Errorf("%d retries of %d tokens, %d attempts and %d nonces of %d sent", got.numbers.Retries, got.spent, got.numbers.Attempts,
					len(c.nonces), len(c.sent))
			}
			for _, cause := range c.causes {
				if !errors.Is(cause, engine.ErrLost) {
					t.Errorf("a loser's cause is %v", cause)
				}
			}
			for _, grant := range c.grants {
				if grant != "0" {
					t.Errorf("an attempt of a call that may hedge carries %s tokens", grant)
				}
			}
			for i, b := range c.bodies {
				if n := b.closes.Load(); n != 1 {
					t.Errorf("response body %d was closed %d times, want once", i+1, n)
				}
			}
		})
	}
}

// A hop that hedged has retried: what it says about its failure is what a hop says that retried one after the other.
func TestHedge_whose_failure_it_is(t *testing.T) {
	const ms = time.Millisecond
	failure := func(after time.Duration, claim string) track { return track{after: after, status: 503, claim: claim} }
	for _, tt := range []struct {
		name   string
		tracks []track
		claim  ownership.Claim
		owner  string
	}{
		{"the_same_owner_twice", []track{failure(60*ms, "c"), failure(30*ms, "c")}, ownership.ClaimUnclaimed, "store"},
		{"the_hedge_fails_first", []track{failure(90*ms, "c"), failure(10*ms, "c")}, ownership.ClaimUnclaimed, "store"},
		{"another_owner_than_the_hedges", []track{failure(60*ms, "c"), {after: 30 * ms}}, ownership.ClaimClaimed, "callee"},
		{"the_first_ones_owner_was_tried_again", []track{failure(90*ms, "c"), {after: 10 * ms}}, ownership.ClaimUnclaimed, "store"},
		{"stop_of_any", []track{failure(60*ms, "s"), {after: 30 * ms}}, ownership.ClaimStop, "store"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &course{tracks: tt.tracks}
			got := c.race(t, http.MethodGet, catalog(1, hedging(1)))
			if d := got.denied; d == nil || d.Claim != tt.claim || d.Owner != tt.owner || d.Attempts != 2 {
				t.Errorf("denied %+v, want %v of %s after 2 attempts", d, tt.claim, tt.owner)
			}
		})
	}
}

// Hedges are there for the slowest calls: one in a hundred is stuck, and nobody waits for it.
func TestHedge_cuts_the_tail(t *testing.T) {
	const ms, calls, stuck = time.Millisecond, 1000, 100
	slowest := func(settings ...string) (slowest time.Duration, sent int64) {
		synctest.Test(t, func(t *testing.T) {
			who := newCaller(t, roomy, catalog(1, settings...))
			var n atomic.Int64
			transport := who.transport(t, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				wait := 10 * ms
				if n.Add(1)%stuck == 0 {
					wait = 2 * time.Second
				}
				select {
				case <-time.After(wait):
					return response(r, 200, http.NoBody), nil
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
			}))
			for range calls {
				ctx, end := who.endlessChain(t.Context())
				begun := time.Now()
				resp, err := transport.RoundTrip(request(t, ctx, http.MethodGet, "http://callee/", nil))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				slowest = max(slowest, time.Since(begun))
				end()
			}
			sent = who.SDK.Totals().Dependencies["callee"].Attempts
		})
		return slowest, sent
	}
	if got, _ := slowest(); got != 2*time.Second {
		t.Fatalf("without hedges the slowest call takes %v: nothing is stuck", got)
	}
	got, sent := slowest(hedging(1))
	if got != 60*ms || sent > calls+calls/stuck+1 {
		t.Errorf("the slowest call takes %v and %d attempts were sent for %d calls, want 60ms and one in %d more", got, sent, calls, stuck)
	}
}

// The caller's going away ends every attempt, and nothing is counted against the dependency.
func TestHedge_the_caller_goes(t *testing.T) {
	const ms = time.Millisecond
	for name, at := range map[string]time.Duration{"before_the_hedge": 30 * ms, "beside_the_hedge": 70 * ms} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				who := newCaller(t, roomy, catalog(3, hedging(1)))
				chain, end := who.endlessChain(t.Context())
				defer end()
				gone := errors.New("the caller has gone")
				ctx, cancel := context.WithCancelCause(chain)
				time.AfterFunc(at, func() { cancel(gone) })
				c := &course{tracks: []track{silence}}
				got := c.call(t, who, ctx, http.MethodGet)
				if !errors.Is(got.err, gone) || !errors.Is(got.err, context.Canceled) || got.took != at {
					t.Errorf("error %v after %v, want the caller's own after %v", got.err, got.took, at)
				}
				if len(got.numbers.Claims) != 0 || got.denied.Reason != ownership.ReasonCanceled || !strings.HasSuffix(got.reasons, "canceled") {
					t.Errorf("decisions %q, claims %v", got.reasons, got.numbers.Claims)
				}
			})
		})
	}
	t.Run("out_of_time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			who := newCaller(t, roomy, catalog(3, hedging(1)))
			chain, end := who.endlessChain(t.Context())
			defer end()
			ctx, cancel := context.WithTimeout(chain, 80*ms)
			defer cancel()
			c := &course{tracks: []track{silence}}
			got := c.call(t, who, ctx, http.MethodGet)
			if !errors.Is(got.err, context.DeadlineExceeded) || got.took != 80*ms || got.numbers.Claims["missing"] != 2 {
				t.Errorf("got %+v", got)
			}
		})
	})
}

// Each attempt has its own time limit.
func TestHedge_each_attempt_has_its_own_limit(t *testing.T) {
	const ms = time.Millisecond
	c := &course{tracks: []track{silence, silence, {after: ms, status: 200}}}
	got := c.race(t, http.MethodGet, catalog(9, hedging(1), "retry: {attempt_timeout: 80ms}"))
	// The first ends at 80 ms, the hedge at 130 ms, and the retry after both answers.
	if got.status != 200 || got.took != 131*ms || got.numbers.Claims["missing"] != 2 || got.reasons != "h:allowed allowed" {
		t.Errorf("got %+v", got)
	}
}

// What an attempt that has lost comes to later changes nothing, even if it does not notice that it has lost.
func TestHedge_late_results_are_dropped(t *testing.T) {
	const ms = time.Millisecond
	for name, late := range map[string]track{
		"success": {after: time.Second, status: 200, deaf: true}, "failure": {after: time.Second, status: 503, claim: "s", deaf: true},
		"error": {after: time.Second, deaf: true},
		"panic": {after: time.Second, deaf: true, instead: func() { panic("too late") }},
		"exit":  {after: time.Second, deaf: true, instead: runtime.Goexit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				who := newCaller(t, roomy, catalog(3, hedging(1), "breaker: {min_requests: 1, failure_ratio: 1%}"))
				ctx, end := who.endlessChain(t.Context())
				defer end()
				c := &course{tracks: []track{late, {after: 10 * ms, status: 200}}}
				got := c.call(t, who, ctx, http.MethodGet)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				after := who.SDK.Totals().Dependencies["callee"]
				if got.status != 200 || got.took != 60*ms || len(after.Claims) != 0 || after.Retries != 1 {
					t.Errorf("got %+v, then %+v", got, after)
				}
				if typical := (*engine.Dependency)(who.dep).Policy().Dependency().Typical(); typical != 0 {
					t.Errorf("the typical time is %v after one answer", typical)
				}
				for i, b := range c.bodies {
					if n := b.closes.Load(); n != 1 {
						t.Errorf("response body %d was closed %d times, want once", i+1, n)
					}
				}
				next := &course{tracks: []track{{status: 200}}}
				if got := next.call(t, who, ctx, http.MethodGet); got.status != 200 {
					t.Errorf("the breaker counts what has lost: %+v", got)
				}
			})
		})
	}
}

// A base that panics, or ends its goroutine, does so to the caller, whichever attempt it was; the others are canceled.
func TestHedge_a_panic_reaches_the_caller(t *testing.T) {
	const ms = time.Millisecond
	boom := errors.New("boom")
	for name, tracks := range map[string][]track{
		"first":            {{after: 20 * ms, instead: func() { panic(boom) }}},
		"first_beside_one": {{after: 70 * ms, instead: func() { panic(boom) }}, silence},
		"hedge":            {silence, {after: 20 * ms, instead: func() { panic(boom) }}},
		"exit_of_a_hedge":  {silence, {after: 20 * ms, instead: runtime.Goexit}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				who := newCaller(t, roomy, catalog(3, hedging(1), "breaker: {min_requests: 1, failure_ratio: 1%}"))
				ctx, end := who.endlessChain(t.Context())
				defer end()
				c := &course{tracks: tracks}
				var value any
				over, returned := make(chan struct{}), false
				go func() {
					defer close(over)
					defer func() { value = recover() }()
					resp, err := who.transport(t, c).RoundTrip(request(t, ctx, http.MethodGet, "http://callee/", nil))
					if err == nil {
						resp.Body.Close()
					}
					returned = true
				}()
				<-over
				synctest.Wait() // every attempt has ended, or the bubble complains
				exits := strings.HasPrefix(name, "exit")
				if returned || exits != (value == nil) || !exits && value != boom {
					t.Errorf("returned %v, recovered %v", returned, value)
				}
				if b := balance(t, ctx); b.Lent != 0 {
					t.Errorf("the purse is %+v", b)
				}
				if claims := who.SDK.Totals().Dependencies["callee"].Claims; claims["missing"] != 1 {
					t.Errorf("claims %v, want the one failure", claims)
				}
				_, err := get(ctx, who.transport(t, c), "http://callee/")
				if denied, ok := errors.AsType[*chainbudget.DeniedError](err); !ok || denied.Reason != ownership.ReasonBreakerOpen {
					t.Errorf("the panic did not count against the dependency: %v", err)
				}
			})
		})
	}
}

// What stands below one attempt sees that attempt, not the others.
func TestHedge_an_attempt_knows_itself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := newCaller(t, roomy, catalog(9, hedging(2)))
		ctx, end := who.endlessChain(t.Context())
		defer end()
		var mu sync.Mutex
		var seen []string
		note := func(ctx context.Context) {
			a, ok := chainbudget.AttemptFromContext(ctx)
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprint(ok, a.Dependency, a.Number, a.Status, a.Err))
		}
		base := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			note(r.Context())
			<-r.Context().Done()
			note(r.Context())
			return nil, r.Context().Err()
		})
		limited, cancel := context.WithTimeout(ctx, 120*time.Millisecond)
		defer cancel()
		if _, err := who.transport(t, base).RoundTrip(request(t, limited, http.MethodGet, "http://callee/", nil)); err == nil {
			t.Fatal("it succeeds")
		}
		synctest.Wait()
		count := map[string]int{}
		for _, s := range seen {
			count[s]++
		}
		for n := 1; n <= 3; n++ {
			if want := fmt.Sprint(true, "callee", n, 0, error(nil)); count[want] != 2 {
				t.Errorf("attempt %d saw itself %d times, want 2: %v", n, count[want], seen)
			}
		}
	})
}

// I7: an inner layer for the same dependency passes each attempt of the outer one on, and decides nothing.
func TestHedge_an_inner_layer_hedges_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := newCaller(t, roomy, catalog(9, hedging(1)))
		ctx, end := who.endlessChain(t.Context())
		defer end()
		c := &course{tracks: []track{silence, {after: 10 * time.Millisecond, status: 200}}}
		inner := budgethttp.NewTransport(c, who.dep)
		resp, err := who.transport(t, inner).RoundTrip(request(t, ctx, http.MethodGet, "http://callee/", nil))
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		synctest.Wait()
		d := who.SDK.Totals().Dependencies["callee"]
		if len(c.sent) != 2 || d.Hedges != 1 || d.Calls != 1 || len(c.nonces) != 2 || balance(t, ctx).Spent != 1 {
			t.Errorf("%d attempts with %d nonces, %+v", len(c.sent), len(c.nonces), d)
		}
	})
	// Inside a Do of the same dependency the function is what is hedged.
	synctest.Test(t, func(t *testing.T) {
		who := newCaller(t, roomy, catalog(9, hedging(1)))
		ctx, end := who.endlessChain(t.Context())
		defer end()
		c := &course{tracks: []track{silence, {after: 10 * time.Millisecond, status: 200}}}
		transport := who.transport(t, c)
		body, err := chainbudget.Call(ctx, who.dep, func(ctx context.Context) (string, error) {
			resp, err := transport.RoundTrip(request(t, ctx, http.MethodGet, "http://callee/", nil))
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			return string(text), err
		}, chainbudget.Idempotent())
		synctest.Wait()
		d := who.SDK.Totals().Dependencies["callee"]
		if err != nil || body != "body of 2" || len(c.sent) != 2 || d.Hedges != 1 || d.Calls != 1 {
			t.Errorf("%q, %v, %d attempts, %+v", body, err, len(c.sent), d)
		}
	})
}

// I1 and I3 under the race detector with more threads than cores: many calls of one request hedge at once, over real
// connections, and no token is spent twice.
func TestI1_HedgesNeverExceedTheTokens(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	const calls, rounds, tokens = 24, 12, 10
	var n int64
	var mu sync.Mutex
	server, seen := callee(t, serve, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		slow := n%3 == 0
		mu.Unlock()
		if slow {
			select {
			case <-r.Context().Done():
			case <-time.After(40 * time.Millisecond):
			}
		}
		w.Write([]byte("ok"))
	})
	who := newCaller(t, roomy, catalog(tokens, "hedge: {after: 1ms, max: 3}"))
	client := who.client(t, nil)
	spent := 0
	for range rounds {
		ctx := who.chain(t)
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				balance(t, ctx)
				resp, err := client.Do(request(t, ctx, http.MethodPut, server.URL, bytes.NewReader([]byte("body"))))
				balance(t, ctx)
				if err != nil {
					t.Error(err)
					return
				}
				read(t, resp)
			})
		}
		all.Wait()
		b := balance(t, ctx)
		if b.Lent != 0 || b.Lost != 0 || b.Spent > tokens {
			t.Errorf("the purse is %+v", b)
		}
		spent += b.Spent
	}
	d := who.SDK.Totals().Dependencies["callee"]
	if d.Retries != int64(spent) || d.Hedges != d.Retries || spent == 0 || d.Attempts != calls*rounds+d.Hedges {
		t.Errorf("%d tokens spent, %+v", spent, d)
	}
	if len(seen.all()) > calls*rounds+spent {
		t.Errorf("I2: %d requests arrived of %d calls and %d tokens", len(seen.all()), calls*rounds, spent)
	}
	for _, a := range seen.all() {
		if grant := a.header.Get(otelprop.HTTPRequestHeader); !strings.HasPrefix(grant, "v1.0.") {
			t.Fatalf("an attempt carries %q", grant)
		}
	}
}
