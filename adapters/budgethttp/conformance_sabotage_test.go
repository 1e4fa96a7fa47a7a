package budgethttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/sabotage"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// broken breaks the package from outside, as a mistake in it would: around and inside the server side, above and below
// the client side, or where there is neither.
type broken struct {
	outside, inside       handlerLayer
	above, below, without transportLayer
	noEntry               bool // the option is forgotten
	careless              bool // the caller's own headers are written
}

type handlerLayer func(next http.Handler) http.Handler

func (l handlerLayer) around(next http.Handler) http.Handler {
	if l == nil {
		return next
	}
	return l(next)
}

// transportLayer sends a request, which is a copy of the caller's.
type transportLayer func(req *http.Request, next http.RoundTripper) (*http.Response, error)

func (l transportLayer) around(next http.RoundTripper) http.RoundTripper {
	if l == nil {
		return next
	}
	return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		copied := r.Clone(r.Context())
		if copied.Header == nil {
			copied.Header = make(http.Header)
		}
		return l(copied, next)
	})
}

// sends is a layer that changes requests.
func sends(change func(*http.Request)) transportLayer {
	return func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
		change(req)
		return next.RoundTrip(req)
	}
}

// receives is a layer that changes responses.
func receives(change func(*http.Response)) transportLayer {
	return func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if resp != nil {
			change(resp)
		}
		return resp, err
	}
}

// gets is a layer that changes what a handler gets.
func gets(change func(*http.Request) *http.Request) handlerLayer {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, change(r)) })
	}
}

// replies is a layer that changes an answer's headers as they go out.
func replies(change func(http.Header)) handlerLayer {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&changingWriter{ResponseWriter: w, change: change}, r)
		})
	}
}

type changingWriter struct {
	http.ResponseWriter
	change func(http.Header)
	sent   bool
}

func (w *changingWriter) out() {
	if !w.sent {
		w.sent = true
		w.change(w.Header())
	}
}

func (w *changingWriter) WriteHeader(status int) {
	w.out()
	w.ResponseWriter.WriteHeader(status)
}

func (w *changingWriter) Write(p []byte) (int, error) {
	w.out()
	return w.ResponseWriter.Write(p)
}

func (w *changingWriter) FlushError() error {
	w.out()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// valueless is a context that ends like another, and has nothing in it.
type valueless struct{ context.Context }

func (valueless) Value(any) any { return nil }

// field changes one field of a return.
func field(n int, old, value string) func(http.Header) {
	return func(h http.Header) {
		for i, line := range h[otelprop.HTTPReturnHeader] {
			fields := strings.Split(line, ".")
			if n < len(fields) {
				fields[n] = strings.ReplaceAll(fields[n], old, value)
			}
			h[otelprop.HTTPReturnHeader] = append(h[otelprop.HTTPReturnHeader][:i:i], strings.Join(fields, "."))
		}
	}
}

func without(name string) func(http.Header) { return func(h http.Header) { h.Del(name) } }

func ofRequest(change func(http.Header)) func(*http.Request) *http.Request {
	return func(r *http.Request) *http.Request { change(r.Header); return r }
}

func onRequest(change func(http.Header)) func(*http.Request) {
	return func(r *http.Request) { change(r.Header) }
}

func onResponse(change func(http.Header)) func(*http.Response) {
	return func(r *http.Response) { change(r.Header) }
}

const (
	otherWire   = "v1.3.3.1.0badcafe.elsewhere"
	otherReturn = "v1.9.0.s.0badcafe.-"
)

func setWire(h http.Header)   { h.Set(otelprop.HTTPRequestHeader, otherWire) }
func addWire(h http.Header)   { h.Add(otelprop.HTTPRequestHeader, otherWire) }
func addReturn(h http.Header) { h.Add(otelprop.HTTPReturnHeader, otherReturn) }

// again sends what failed a second time, as a caller's own loop would.
func again(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(req)
	if err == nil && resp.StatusCode < 500 {
		return resp, nil
	}
	if resp != nil {
		resp.Body.Close()
	}
	return next.RoundTrip(req)
}

// vague hides what an error is.
func vague(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(req)
	if err != nil {
		err = errors.New("something went wrong")
	}
	return resp, err
}

// withKey makes a write look as if it might run twice.
func withKey(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }

// tellsNoTimeout takes the timeout off the wire.
func tellsNoTimeout(h http.Header) {
	line, _, _ := strings.Cut(h.Get(otelprop.HTTPRequestHeader), ";timeout=")
	h.Set(otelprop.HTTPRequestHeader, line)
}

// elsewhere gives each call a path of its own.
func elsewhere() transportLayer {
	var n atomic.Int64
	return sends(func(r *http.Request) { r.URL.Path += strconv.FormatInt(n.Add(1), 10) })
}

// bodyFunc is a body with another Read.
type bodyFunc struct {
	io.ReadCloser
	read func(p []byte) (int, error)
}

func (b bodyFunc) Read(p []byte) (int, error) { return b.read(p) }

// slowBody is a body that is not done in time.
type slowBody struct{ io.ReadCloser }

func (b slowBody) Close() error {
	<-time.After(3 * time.Second)
	return b.ReadCloser.Close()
}

// slowly makes the body of a failure one that holds up the next attempt.
func slowly(r *http.Response) {
	if r.StatusCode >= 500 {
		r.Body = slowBody{r.Body}
	}
}

// resumes asks again for an answer that broke off.
func resumes(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body := resp.Body
	resp.Body = bodyFunc{ReadCloser: body, read: func(p []byte) (int, error) {
		n, err := body.Read(p)
		if err != nil && err != io.EOF {
			if more, again := next.RoundTrip(req); again == nil {
				body, err = more.Body, nil
			}
		}
		return n, err
	}}
	return resp, nil
}

// leavesGoroutines leaves one behind for each call, until release is closed.
func leavesGoroutines(release <-chan struct{}) transportLayer {
	return sends(func(*http.Request) { go func() { <-release }() })
}

// bufferedOnly is a writer without anything that it could offer besides.
func bufferedOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	})
}

// buffered holds the whole answer back.
func buffered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		whole := httptest.NewRecorder()
		next.ServeHTTP(whole, r)
		for k, v := range whole.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(whole.Code)
		w.Write(whole.Body.Bytes())
	})
}

// sabotages has a saboteur for each case of the suite.
func sabotages(release <-chan struct{}) map[string]broken {
	hide := gets(func(r *http.Request) *http.Request { return r.WithContext(valueless{r.Context()}) })
	return map[string]broken{
		"callers_headers_untouched": {careless: true},
		"headers_of_each_attempt":   {below: sends(func(r *http.Request) { r.Header.Add("X-Own", "2") })},
		"no_headers":                {below: sends(onRequest(without(otelprop.HTTPRequestHeader)))},
		"foreign_baggage_kept": {below: sends(func(r *http.Request) {
			r.Header.Set("Baggage", strings.ReplaceAll(r.Header.Get("Baggage"), "%20", "+"))
		})},
		"old_wire_replaced": {below: sends(onRequest(addWire))},

		"discarded_answers_leave_the_connection": {below: sends(func(r *http.Request) { r.Close = true })},
		"discarding_is_bounded":                  {below: receives(slowly)},
		"last_answer_stays":                      {above: receives(func(r *http.Response) { io.Copy(io.Discard, r.Body) })},

		"every_attempt_sends_the_body": {above: sends(func(r *http.Request) {
			r.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
			r.ContentLength = -1
		})},
		"sent_once": {above: sends(func(r *http.Request) {
			whole, _ := io.ReadAll(r.Body)
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(whole))), nil }
			r.Body, _ = r.GetBody()
		})},
		"bodies_closed_once": {above: func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			defer req.Body.Close()
			return next.RoundTrip(req)
		}},

		"writes_run_once": {above: sends(withKey)},
		"unsent_leases_come_home": {below: func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			return vague(req.WithContext(valueless{req.Context()}), next)
		}},
		"checked_before_sleeping": {above: sends(withKey)},
		"hints_are_lower_bounds":  {below: receives(onResponse(without("Retry-After")))},
		"dead_context_makes_no_attempt": {above: func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			return next.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
		}},
		"caller_gone": {above: vague},

		"attempt_timeout_ends_the_attempt": {above: func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			ctx, cancel := context.WithTimeout(req.Context(), 50*time.Millisecond)
			defer cancel()
			return next.RoundTrip(req.WithContext(ctx))
		}},
		"attempt_timeout_is_told": {below: sends(onRequest(tellsNoTimeout))},
		"attempt_timeout_yields":  {above: vague},
		"attempt_timeout_spares_the_answer": {below: func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			ctx, cancel := context.WithTimeout(req.Context(), 300*time.Millisecond)
			context.AfterFunc(ctx, cancel)
			return next.RoundTrip(req.WithContext(ctx))
		}},

		"nothing_repeated_after_the_first_message": {above: resumes},
		"messages_arrive_as_they_are_sent":         {outside: buffered},

		"writer_keeps_its_abilities":   {inside: bufferedOnly},
		"reader_from_sends_the_return": {outside: replies(without(otelprop.HTTPReturnHeader))},
		"upgrade": {above: receives(func(r *http.Response) {
			r.Body = struct{ io.ReadCloser }{r.Body}
		})},

		"either_an_answer_or_an_error": {above: func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if err != nil {
				resp = &http.Response{StatusCode: 502, Body: http.NoBody}
			}
			return resp, err
		}},
		"nothing_given_passes_everything": {without: sends(onRequest(setWire))},

		"no_lease_travels_twice": {below: func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			return again(req.WithContext(valueless{req.Context()}), next)
		}},
		"foreign_counters_take_the_grant": {outside: gets(ofRequest(without("X-Envoy-Attempt-Count")))},
		"repeated_grants_are_worth_nothing": {outside: func(next http.Handler) http.Handler {
			var n atomic.Int64
			return gets(ofRequest(func(h http.Header) {
				fresh := strings.NewReplacer("badcafe", strconv.FormatInt(n.Add(1), 10)+"adcafe")
				h.Set(otelprop.HTTPRequestHeader, fresh.Replace("v1.2.3.1.0badcafe.gateway"))
				h.Del("Baggage")
			}))(next)
		}},
		"mesh_is_told_not_to_retry": {below: sends(onRequest(without("X-Envoy-Max-Retries")))},

		"nested_clients_decide_once": {above: again},
		"nested_servers_act_once":    {outside: replies(addReturn)},

		"no_goroutine_outlives_the_call": {above: leavesGoroutines(release)},

		"lend_and_settle":     {below: receives(onResponse(field(1, "1", "2")))},
		"returns_are_clamped": {below: receives(onResponse(without(otelprop.HTTPReturnHeader)))},
		"no_return_loses_the_lease": {below: func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			wire, _ := otelprop.ReadRequest(nil, req.Header[otelprop.HTTPRequestHeader], 99)
			ret := otelprop.Return{Returned: wire.Grant, Nonce: wire.Nonce}
			return receives(func(r *http.Response) { r.Header.Set(otelprop.HTTPReturnHeader, string(ret.Append(nil))) })(req, next)
		}},
		"return_is_taken_out":        {above: receives(onResponse(addReturn))},
		"retries_cost_tokens":        {above: again},
		"no_purse_lends_one":         {below: sends(onRequest(without(otelprop.HTTPRequestHeader)))},
		"nothing_goes_outside":       {below: sends(onRequest(setWire))},
		"nothing_comes_from_outside": {above: receives(onResponse(addReturn))},

		"grants_arrive": {outside: gets(ofRequest(without(otelprop.HTTPRequestHeader)))},
		"relayed_members_are_worth_one": {outside: gets(ofRequest(func(h http.Header) {
			h.Set(otelprop.HTTPRequestHeader, strings.TrimPrefix(h.Get("Baggage"), "chainbudget="))
		}))},
		"unreadable_is_worth_nothing":  {outside: gets(ofRequest(without(otelprop.HTTPRequestHeader)))},
		"grants_are_clamped":           {outside: gets(ofRequest(func(h http.Header) { h.Set(otelprop.HTTPRequestHeader, "v1.1.1.1.0badcafe.gateway") }))},
		"orphans_mint_one":             {outside: gets(ofRequest(setWire))},
		"probes_carry_nothing":         {outside: gets(func(r *http.Request) *http.Request { r.URL.Path = "/orders"; return r })},
		"entries_ignore_what_comes_in": {noEntry: true},
		"entries_begin_the_chain":      {noEntry: true},

		"grants_are_stripped":          {inside: gets(ofRequest(setWire))},
		"copied_returns_do_not_go_out": {outside: replies(addReturn)},
		"inbound_returns_are_stripped": {inside: gets(ofRequest(addReturn))},

		"headers_close_the_purse":          {outside: replies(without(otelprop.HTTPReturnHeader))},
		"work_after_the_answer_is_settled": {inside: hide},
		"kept_tokens_stay":                 {inside: hide},
		"panics_settle": {inside: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { _ = recover() }()
				next.ServeHTTP(w, r)
			})
		}},
		"lost_requests_close_their_purse": {inside: hide},

		"claims_are_read":                {below: receives(onResponse(field(3, "u", "c")))},
		"own_failures_are_claimed":       {outside: replies(field(3, "c", "u"))},
		"retried_failures_are_unclaimed": {outside: replies(field(3, "u", "c"))},
		"claims_pass_up":                 {outside: replies(field(3, "c", "u"))},
		"unclaimed_stays_unclaimed":      {outside: replies(field(3, "s", "u"))},
		"overload_is_stop":               {outside: replies(field(3, "s", "c"))},
		"effects_are_told":               {outside: replies(field(5, "e", ""))},

		"bypass_of_a_client":                   {below: sends(onRequest(setWire))},
		"bypass_of_a_server":                   {inside: gets(ofRequest(setWire))},
		"observe_refuses_nothing_of_the_chain": {below: receives(onResponse(without(otelprop.HTTPReturnHeader)))},
		"budget_leaves_ownership_out":          {below: receives(func(r *http.Response) { r.StatusCode = max(r.StatusCode, 200) / 500 * 500 })},

		"callers_time_bounds_the_handler": {inside: gets(func(r *http.Request) *http.Request {
			return r.WithContext(context.WithoutCancel(r.Context()))
		})},
		"deadline_is_told":           {below: sends(onRequest(tellsNoTimeout))},
		"repeated_calls_are_counted": {above: elsewhere()},
		"repeated_calls_are_refused": {above: elsewhere()},
	}
}

// TestConformance_finds_every_sabotage holds the suite itself to its word: each case goes red when what it is about is
// broken.
func TestConformance_finds_every_sabotage(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	table := sabotages(release)
	for _, c := range chainbudgettest.Cases() {
		how, ok := table[c.Name]
		if slices.Contains(c.Needs, chainbudgettest.ReturnsInTrailer) {
			continue // HTTP has none to break
		}
		if !ok {
			t.Errorf("nobody sabotages %s", c.Name)
			continue
		}
		delete(table, c.Name)
		p := http1
		p.sabotage = how
		failure := sabotage.Attempted(t, c, p.adapter())
		if failure == "" {
			t.Errorf("%s does not notice its sabotage", c.Name)
		}
		t.Logf("%s: %.160s", c.Name, failure)
	}
	for name := range table {
		t.Errorf("%s is sabotaged, and is no case", name)
	}
}
