package budgethttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// waited is what one call in a bubble came to.
type waited struct {
	hits    int
	elapsed time.Duration // by the bubble's clock, to the nanosecond
	events  []chainbudget.Event
	status  int
	body    string
	denied  *chainbudget.DeniedError
	err     error
}

// waiting makes one GET, in a bubble in which backoffs last as long as they do in production, to a callee that answers
// with these in turn. base of the profile is 100 ms, throttled 1 s, the cap 5 s; settings are lines of YAML that change it.
// left is the time that the caller has; 0 is no limit.
func waiting(t *testing.T, left time.Duration, settings []string, answers ...http.HandlerFunc) (w waited) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if !strings.Contains(strings.Join(settings, " "), "backoff:") {
			settings = append(settings, "backoff: {base: 100ms, throttled_base: 1s, cap: 5s}")
		}
		c := newCaller(t, roomy, catalog(10, settings...), chainbudgettest.Sleep())
		ctx := context.Background()
		if left > 0 {
			limited, cancel := context.WithTimeout(ctx, left)
			defer cancel()
			ctx = limited
		}
		ctx, end := c.endlessChain(ctx)
		defer end()
		next := script(answers...)
		transport := c.transport(t, inProcess(hop(t, "callee", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.hits++
			next.ServeHTTP(rw, r)
		}))))
		start := time.Now()
		resp, err := transport.RoundTrip(request(t, ctx, http.MethodGet, "http://callee/", nil))
		w.elapsed, w.err, w.events = time.Since(start), err, c.Events()
		if err == nil {
			w.denied = budgethttp.Denied(resp)
			w.status, w.body = read(t, resp)
		}
	})
	return w
}

func (w waited) reason() ownership.Reason {
	if w.denied == nil {
		return ownership.ReasonAllowed
	}
	return w.denied.Reason
}

// onHint answers a 503 with these Retry-After lines and then 200.
func onHint(t *testing.T, left time.Duration, lines ...string) waited {
	t.Helper()
	header := make([]string, 0, 2*len(lines))
	for _, l := range lines {
		header = append(header, "Retry-After", l)
	}
	return waiting(t, left, nil, answer(503, "busy", header...), answer(200, "fine"))
}

// ownCeiling is the longest first wait without a hint.
const ownCeiling = 100 * time.Millisecond

// P021 and P022 are the same: no hint is uncapped, and none wraps.
func TestRegression_A036_seconds_that_overflow_end_the_call_and_never_fire_at_once(t *testing.T) {
	for _, seconds := range []string{
		"9223372036", "9223372037", "9223372036854775807", "9223372036854775808", "18446744074", "18446744073709551616",
		strings.Repeat("9", 400), "3600", "6",
	} {
		t.Run(seconds[:min(len(seconds), 20)], func(t *testing.T) {
			w := onHint(t, 0, seconds)
			if w.hits != 1 || w.elapsed != 0 || w.status != 503 || w.body != "busy" || w.reason() != ownership.ReasonPushback {
				t.Errorf("%d requests in %v, status %d, reason %v; want the first 503 at once, pushback", w.hits, w.elapsed, w.status, w.reason())
			}
			if w.denied.RetryAfter < 6*time.Second {
				t.Errorf("the error says to wait %v: the hint must not wrap", w.denied.RetryAfter)
			}
		})
	}
}

func TestRegression_A037_what_is_no_whole_number_is_no_hint(t *testing.T) {
	for _, v := range []string{"inf", "Infinity", "NaN", "1e400", "1e3", "1.5", "0x10", "٣", "3s", "soon", "Sat, 99 Foo 2026 00:00:00 GMT"} {
		if w := onHint(t, 0, v); w.hits != 2 || w.elapsed > ownCeiling || w.status != 200 {
			t.Errorf("Retry-After %q: %d requests in %v; want the own backoff of at most %v", v, w.hits, w.elapsed, ownCeiling)
		}
	}
}

func TestRegression_A037_a_hint_beyond_the_deadline_returns_at_once(t *testing.T) {
	w := onHint(t, 2*time.Second, "3")
	if w.hits != 1 || w.elapsed != 0 || w.err != nil || w.status != 503 || w.reason() != ownership.ReasonDeadline {
		t.Fatalf("%+v; want the readable 503 at once, reason deadline", w)
	}
	if w.denied.RetryAfter != 3*time.Second {
		t.Errorf("the hint in the error is %v, want 3s", w.denied.RetryAfter)
	}
	if e := w.events[0]; e.Before != 10 || e.After != 10 {
		t.Errorf("tokens %d before and %d after a refusal: nothing is spent", e.Before, e.After)
	}
}

func TestRegression_A038_signs_and_empty_lines_are_no_hint(t *testing.T) {
	for _, v := range []string{"-1", "-0", "", "   ", "+1", "--1"} {
		if w := onHint(t, 0, v); w.hits != 2 || w.elapsed > ownCeiling || w.status != 200 {
			t.Errorf("Retry-After %q: %d requests in %v; want the own backoff of at most %v", v, w.hits, w.elapsed, ownCeiling)
		}
	}
	// P023: a negative value must not switch the backoff off either. All of ten first waits being below 1 ms, of up to
	// 100 ms each, is no accident.
	var sum time.Duration
	for range 10 {
		sum += onHint(t, 0, "-5").elapsed
	}
	if sum < 10*time.Millisecond {
		t.Errorf("ten waits after a negative hint took %v altogether: the backoff was skipped", sum)
	}
}

// P020 is the date.
func TestRegression_A039_dates_and_several_lines_follow_one_rule(t *testing.T) {
	var bubbles time.Time // bubbles begin at the same moment
	synctest.Test(t, func(*testing.T) { bubbles = time.Now().UTC() })
	in := func(d time.Duration) string { return bubbles.Add(d).Format(http.TimeFormat) }
	for _, tt := range []struct {
		name  string
		lines []string
		hint  time.Duration
	}{
		{"date_in_two_seconds", []string{in(2 * time.Second)}, 2 * time.Second},
		{"old_date_format", []string{bubbles.Add(2 * time.Second).Format("Monday, 02-Jan-06 15:04:05 GMT")}, 2 * time.Second},
		{"c_date_format", []string{bubbles.Add(2 * time.Second).Format(time.ANSIC)}, 2 * time.Second},
		{"date_in_the_past", []string{in(-time.Hour)}, 0},
		{"garbage", []string{"tomorrow, perhaps"}, 0},
		{"seconds", []string{"2"}, 2 * time.Second},
		{"seconds_with_blanks", []string{" 2\t"}, 2 * time.Second},
		{"zero", []string{"0"}, 0},
		{"leading_zeros", []string{"002"}, 2 * time.Second},
		{"first_valid_of_two", []string{"garbage", "2", "4"}, 2 * time.Second},
		{"first_of_two_valid", []string{"2", "4"}, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := onHint(t, 0, tt.lines...)
			if w.hits != 2 || w.elapsed < tt.hint || w.elapsed > tt.hint+ownCeiling {
				t.Errorf("%d requests, waited %v; want %v and up to %v more", w.hits, w.elapsed, tt.hint, ownCeiling)
			}
		})
	}
}

// P024 is the same.
func TestRegression_A040_jitter_is_added_to_the_hint_and_never_taken_from_it(t *testing.T) {
	for _, tt := range []struct {
		name    string
		status  int
		ceiling time.Duration
	}{{"transient", 503, ownCeiling}, {"throttled", 429, time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			seen := map[time.Duration]bool{}
			for range 40 {
				w := waiting(t, 0, nil, answer(tt.status, "", "Retry-After", "1"), answer(200, ""))
				if w.elapsed < time.Second || w.elapsed > time.Second+tt.ceiling {
					t.Fatalf("waited %v; want 1s to %v", w.elapsed, time.Second+tt.ceiling)
				}
				seen[w.elapsed] = true
			}
			if len(seen) < 20 { // P024's other side: callers in lockstep
				t.Errorf("40 waits had only %d different lengths", len(seen))
			}
		})
	}
	t.Run("milliseconds_of_amazon", func(t *testing.T) {
		w := waiting(t, 0, nil, answer(503, "", "X-Amz-Retry-After", "1500", "Retry-After", "3"), answer(200, ""))
		if w.elapsed < 1500*time.Millisecond || w.elapsed > 1500*time.Millisecond+ownCeiling {
			t.Errorf("waited %v, want 1.5s and up to %v more", w.elapsed, ownCeiling)
		}
	})
}

func TestRegression_A042_a_504_may_have_run(t *testing.T) {
	for _, tt := range []struct {
		name, method, key string
		settings          []string
		hits              int64
		reason            ownership.Reason
	}{
		{"post", http.MethodPost, "", nil, 1, ownership.ReasonNotIdempotent},
		{"post_with_key", http.MethodPost, "k1", nil, 2, ownership.ReasonAllowed},
		{"get", http.MethodGet, "", nil, 2, ownership.ReasonAllowed},
		{"get_without_504_in_the_profile", http.MethodGet, "", []string{"retry: {statuses: [503]}"}, 1, ownership.ReasonNotRetryable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCaller(t, roomy, catalog(9, tt.settings...))
			s, arrived := callee(t, serve, answer(504, "late"), answer(200, "done"))
			req := request(t, c.chain(t), tt.method, s.URL, nil)
			if tt.key != "" {
				req.Header.Set("Idempotency-Key", tt.key)
			}
			send(t, c.client(t, nil), req)
			if n := int64(len(arrived.all())); n != tt.hits {
				t.Errorf("%d requests, want %d", n, tt.hits)
			}
			if reasons := c.Reasons(); !slices.Equal(reasons, []ownership.Reason{tt.reason}) {
				t.Errorf("decisions %v, want [%v]", reasons, tt.reason)
			}
		})
	}
}

func TestRegression_A043_exhausted_429_and_503_have_one_shape(t *testing.T) {
	shape := func(status int) string {
		w := waiting(t, 0, []string{"retry: {max_attempts: 3}"}, answer(status, "last words"))
		return fmt.Sprintf("%d requests, error %v, body %q, reason %v, attempts %d, hint %v, status right %v",
			w.hits, w.err, w.body, w.reason(), w.denied.Attempts, w.denied.RetryAfter > 0, w.status == status && w.denied.Status == status)
	}
	const want = `3 requests, error <nil>, body "last words", reason max_attempts, attempts 3, hint true, status right true`
	for _, status := range []int{429, 503} {
		if got := shape(status); got != want {
			t.Errorf("%d: %s; want %s", status, got, want)
		}
	}
}

func TestRegression_P025_a_wait_that_the_deadline_cuts_is_not_begun(t *testing.T) {
	// Every drawn wait above the millisecond that is left must be refused at once: none may be slept into the deadline.
	refused := 0
	for range 40 {
		w := waiting(t, 3*time.Millisecond, nil, answer(503, "busy"), answer(200, "fine"))
		switch {
		case w.err != nil:
			t.Fatalf("error %v: the response must stay readable", w.err)
		case w.status == 503 && (w.elapsed != 0 || w.hits != 1 || w.reason() != ownership.ReasonDeadline):
			t.Fatalf("refused after %v and %d requests, reason %v", w.elapsed, w.hits, w.reason())
		case w.status == 503:
			refused++
		}
	}
	if refused < 20 { // each draws from 100 ms
		t.Errorf("%d of 40 waits were refused; about 39 are longer than what is left", refused)
	}
}

func TestRegression_P029_waits_stay_within_their_ceilings_on_any_attempt(t *testing.T) {
	// P030: the cap holds for the jittered wait. P031: the first wait is drawn from the base, not from twice the base.
	base, limit := 10*time.Millisecond, 80*time.Millisecond
	longest := make([]time.Duration, 10)
	for range 20 {
		w := waiting(t, 0, []string{"backoff: {base: 10ms, throttled_base: 10ms, cap: 80ms}"}, answer(503, ""))
		for i, e := range w.events {
			if e.Reason != ownership.ReasonAllowed {
				continue
			}
			ceiling := min(limit, base<<min(i, 10))
			if e.Delay < 0 || e.Delay > ceiling {
				t.Fatalf("wait %d is %v, want at most %v", i+1, e.Delay, ceiling)
			}
			longest[i] = max(longest[i], e.Delay)
		}
		if w.hits != 10 {
			t.Fatalf("%d attempts, want the profile's 10", w.hits)
		}
	}
	// Of 20 draws one is above half of its ceiling, but for one run in a million.
	for i, ceiling := range []time.Duration{base, 2 * base, 4 * base, 8 * base} {
		if longest[i] < ceiling/2 {
			t.Errorf("the longest of 20 waits before retry %d is %v; its ceiling should be %v", i+1, longest[i], ceiling)
		}
	}
}

func TestRegression_P032_waits_are_jittered_without_being_asked(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 20 {
		w := waiting(t, 0, nil, answer(503, ""), answer(200, ""))
		seen[w.elapsed] = true
	}
	if len(seen) < 10 {
		t.Errorf("20 first waits had %d different lengths", len(seen))
	}
}

func TestRegression_P033_a_profile_holds_nothing_of_a_call(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, roomy, catalog(90, "retry: {max_attempts: 4}", "backoff: {base: 1ms, cap: 5s}"), chainbudgettest.Sleep())
		transport := c.transport(t, inProcess(hop(t, "callee", answer(503, ""))))
		var calls sync.WaitGroup
		for i := range 12 { // together, and after each other in each goroutine
			calls.Go(func() {
				for range 3 {
					ctx, end := c.endlessChain(context.Background())
					resp, err := get(ctx, transport, "http://callee/"+strconv.Itoa(i))
					end()
					if err != nil {
						t.Error(err)
					} else if d := budgethttp.Denied(resp); d.Attempts != 4 || d.Reason != ownership.ReasonMaxAttempts {
						t.Errorf("a call made %d attempts and ended by %v; want 4 and max_attempts", d.Attempts, d.Reason)
					}
				}
			})
		}
		calls.Wait()
		for _, e := range c.Events() {
			if ceiling := time.Millisecond << (e.Attempt - 1); e.Reason == ownership.ReasonAllowed && e.Delay > ceiling {
				t.Fatalf("wait %d of a call was %v, want at most %v: another call's state leaked in", e.Attempt, e.Delay, ceiling)
			}
		}
	})
}

func TestRegression_P034_a_call_keeps_its_last_error_only(t *testing.T) {
	c := newCaller(t, roomy, catalog(20, "retry: {max_attempts: 8}"))
	long := strings.Repeat("x", 100_000)
	turn := 0
	var failures []error
	base := roundTripperFunc(func(*http.Request) (*http.Response, error) {
		turn++
		failures = append(failures, fmt.Errorf("failure %d: %s", turn, long))
		return nil, failures[turn-1]
	})
	_, err := c.transport(t, base).RoundTrip(request(t, c.chain(t), http.MethodPut, "http://callee/", http.NoBody))
	if len(failures) < 2 {
		t.Fatalf("%d attempts", len(failures))
	}
	for i, f := range failures {
		if last := i == len(failures)-1; errors.Is(err, f) != last {
			t.Errorf("failure %d kept: %v, want %v", i+1, errors.Is(err, f), last)
		}
	}
	if text := err.Error(); len(text) > 1024 || !strings.Contains(text, fmt.Sprintf("failure %d:", len(failures))) {
		t.Errorf("a message of %d bytes: %.120q", len(text), text)
	}
}

func TestRegression_P035_an_open_breaker_is_not_retried_at_any_layer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCaller(t, roomy, catalog(9, "breaker: {min_requests: 2, failure_ratio: 50%, window: 10s, open_for: 5s, probes: 1}", "retry: {max_attempts: 1}"), chainbudgettest.Sleep())
		asked := 0
		transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			asked++
			return response(req, 503, io.NopCloser(strings.NewReader(""))), nil
		}))
		outer := c.Dependency("report", "base")
		ctx, end := c.endlessChain(context.Background())
		defer end()
		for range 20 {
			get(ctx, transport, "http://callee/")
		}
		open := asked
		start, runs := time.Now(), 0
		err := chainbudget.Do(ctx, outer, func(ctx context.Context) error {
			runs++
			_, err := get(ctx, transport, "http://callee/")
			return err
		}, chainbudget.Idempotent())
		var denied *chainbudget.DeniedError
		if !errors.As(err, &denied) || runs != 1 || asked != open || time.Since(start) != 0 {
			t.Fatalf("%d runs, %d requests through the open breaker, %v: %v", runs, asked-open, time.Since(start), err)
		}
		// P049: the error names the dependency and says when it is worth asking again.
		var refusal *chainbudget.DeniedError
		if !errors.As(denied.Err, &refusal) || refusal.Reason != ownership.ReasonBreakerOpen || refusal.Dependency != "callee" || refusal.RetryAfter <= 0 {
			t.Errorf("refusal %+v", refusal)
		}
	})
}

func TestRegression_P036_what_the_callee_asked_for_stays_visible(t *testing.T) {
	c := newCaller(t, roomy, catalog(9))
	s := serve(t, hop(t, "callee", answer(503, "", "Retry-After", "4", "X-Amz-Retry-After", "4000")))
	ctx, cancel := context.WithTimeout(c.chain(t), 2*time.Second)
	defer cancel()
	resp, err := get(ctx, c.transport(t, nil), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if d := budgethttp.Denied(resp); d.Reason != ownership.ReasonDeadline || d.RetryAfter != 4*time.Second {
		t.Errorf("denied %+v, want deadline and 4s", d)
	}
	if resp.Header.Get("Retry-After") != "4" || resp.Header.Get("X-Amz-Retry-After") != "4000" {
		t.Errorf("header %v", resp.Header)
	}
}
