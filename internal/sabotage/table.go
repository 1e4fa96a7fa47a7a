package sabotage

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

const (
	otherWire   = "v1.3.3.1.0badcafe.elsewhere"
	otherReturn = "v1.9.0.s.0badcafe.-"
)

// valueless is a context that ends like another, and has nothing in it.
type valueless struct{ context.Context }

func (valueless) Value(any) any { return nil }

// asks is a client that asks for something else, or with another context.
func asks(change func(ctx context.Context, r *chainbudgettest.Request) context.Context) Sabotage {
	return Sabotage{Client: func(next chainbudgettest.Client) chainbudgettest.Client {
		return func(ctx context.Context, r chainbudgettest.Request) chainbudgettest.Answer {
			return next(change(ctx, &r), r)
		}
	}}
}

// hears is a client that changes what came of a call.
func hears(change func(*chainbudgettest.Answer)) Sabotage {
	return Sabotage{Client: func(next chainbudgettest.Client) chainbudgettest.Client {
		return func(ctx context.Context, r chainbudgettest.Request) chainbudgettest.Answer {
			a := next(ctx, r)
			change(&a)
			return a
		}
	}}
}

// again is a client that sends what failed a second time, as a caller's own loop would.
var again = Sabotage{Client: func(next chainbudgettest.Client) chainbudgettest.Client {
	return func(ctx context.Context, r chainbudgettest.Request) chainbudgettest.Answer {
		if a := next(ctx, r); a.Err == nil {
			return a
		}
		return next(ctx, r)
	}
}}

// vague hides what an error is.
var vague = hears(func(a *chainbudgettest.Answer) {
	if a.Err != nil {
		*a = chainbudgettest.Answer{Err: errors.New("something went wrong")}
	}
})

// handles is a server side that gives its handler something else.
func handles(change func(ctx context.Context, r *chainbudgettest.Received, w *chainbudgettest.Reply) context.Context) Sabotage {
	return Sabotage{Handle: func(next chainbudgettest.Handler) chainbudgettest.Handler {
		return func(ctx context.Context, r chainbudgettest.Received, w chainbudgettest.Reply) error {
			return next(change(ctx, &r, &w), r, w)
		}
	}}
}

// brings is a server side that leaves something in the headers that a handler gets.
func brings(name, value string) Sabotage {
	return handles(func(ctx context.Context, r *chainbudgettest.Received, _ *chainbudgettest.Reply) context.Context {
		h := r.Header.Clone()
		h[name] = append(h[name], value)
		h[strings.ToLower(name)] = append(h[strings.ToLower(name)], value)
		r.Header = h
		return ctx
	})
}

// buffered holds messages back until the handler is done.
var buffered = Sabotage{Handle: func(next chainbudgettest.Handler) chainbudgettest.Handler {
	return func(ctx context.Context, r chainbudgettest.Received, w chainbudgettest.Reply) error {
		send := w.Send
		var held []string
		w.Send = func(message string) error {
			held = append(held, message)
			return nil
		}
		err := next(ctx, r, w)
		for _, message := range held {
			err = errors.Join(err, send(message))
		}
		return err
	}
}}

func without(name string) func(member.Headers) { return func(h member.Headers) { h.Delete(name) } }

func setWire(h member.Headers) { h.SetValues(otelprop.HTTPRequestHeader, []string{otherWire}) }

func addWire(h member.Headers) {
	h.SetValues(otelprop.HTTPRequestHeader, append([]string{otherWire}, h.Values(otelprop.HTTPRequestHeader)...))
}

func addReturn(h member.Headers) {
	if old := h.Values(otelprop.HTTPReturnHeader); len(old) > 0 {
		h.SetValues(otelprop.HTTPReturnHeader, append([]string{otherReturn}, old...))
	}
}

// field changes one field of a return.
func field(n int, old, value string) func(member.Headers) {
	return func(h member.Headers) {
		for _, line := range h.Values(otelprop.HTTPReturnHeader) {
			fields := strings.Split(line, ".")
			if n < len(fields) {
				fields[n] = strings.ReplaceAll(fields[n], old, value)
			}
			h.SetValues(otelprop.HTTPReturnHeader, []string{strings.Join(fields, ".")})
		}
	}
}

// tellsNoTimeout takes the timeout off the wire.
func tellsNoTimeout(h member.Headers) {
	for _, line := range h.Values(otelprop.HTTPRequestHeader) {
		line, _, _ = strings.Cut(line, ";timeout=")
		h.SetValues(otelprop.HTTPRequestHeader, []string{line})
	}
}

// twice is an attempt that is sent a second time, unseen.
func twice(ctx context.Context, send func(context.Context) error) error {
	if err := send(ctx); err == nil {
		return nil
	}
	return send(ctx)
}

func repeatable(ctx context.Context, r *chainbudgettest.Request) context.Context {
	r.Write = false
	return ctx
}

// returnsEverything makes up a return for every attempt.
func returnsEverything() Sabotage {
	var line atomic.Value
	return Sabotage{Sent: func(h member.Headers) {
		wire, _ := otelprop.ReadRequest(nil, h.Values(otelprop.HTTPRequestHeader), otelprop.MaxTokens)
		ret := otelprop.Return{Returned: wire.Grant, Nonce: wire.Nonce}
		line.Store(string(ret.Append(nil)))
	}, Got: func(h member.Headers) {
		h.SetValues(otelprop.HTTPReturnHeader, []string{line.Load().(string)})
	}}
}

// sabotages has a saboteur for each case of the suite that is about no adapter of net/http only.
func sabotages(release <-chan struct{}) map[string]Sabotage {
	hide := handles(func(ctx context.Context, _ *chainbudgettest.Received, _ *chainbudgettest.Reply) context.Context {
		return valueless{ctx}
	})
	endless := handles(func(ctx context.Context, _ *chainbudgettest.Received, _ *chainbudgettest.Reply) context.Context {
		return context.WithoutCancel(ctx)
	})
	var n atomic.Int64
	elsewhere := asks(func(ctx context.Context, r *chainbudgettest.Request) context.Context {
		r.Operation += strconv.FormatInt(n.Add(1), 10)
		r.Body += strconv.FormatInt(n.Load(), 10)
		return ctx
	})
	hasty := func(limit time.Duration) Sabotage {
		return asks(func(ctx context.Context, _ *chainbudgettest.Request) context.Context {
			ctx, cancel := context.WithTimeout(ctx, limit)
			context.AfterFunc(ctx, cancel)
			return ctx
		})
	}
	noEntry := Sabotage{Server: func(s *chainbudgettest.Server) { s.Entry = false }}
	noProbe := asks(func(ctx context.Context, r *chainbudgettest.Request) context.Context {
		r.Probe = false
		return ctx
	})
	noProbe.Outsiders = true
	shout := hears(func(a *chainbudgettest.Answer) {
		if a.Header == nil {
			a.Header = http.Header{}
		}
		a.Header[otelprop.HTTPReturnHeader] = []string{otherReturn}
		a.Header[otelprop.ReturnHeader] = []string{otherReturn}
	})
	return map[string]Sabotage{
		"callers_headers_untouched": asks(func(ctx context.Context, r *chainbudgettest.Request) context.Context {
			r.Header["x-careless"] = []string{"1"}
			return ctx
		}),
		"headers_of_each_attempt": {Sent: func(h member.Headers) { h.SetValues("X-Own", []string{"2"}) }},
		"no_headers":              {Sent: without(otelprop.HTTPRequestHeader)},
		"foreign_baggage_kept": {Sent: func(h member.Headers) {
			for _, line := range h.Values(otelprop.HTTPBaggageHeader) {
				h.SetValues(otelprop.HTTPBaggageHeader, []string{strings.ReplaceAll(line, "%20", "+")})
			}
		}},
		"old_wire_replaced": {Sent: addWire},

		"discarded_answers_leave_the_connection": {Sent: func(h member.Headers) { h.SetValues("Connection", []string{"close"}) }},
		"last_answer_stays":                      hears(func(a *chainbudgettest.Answer) { a.Body = "" }),

		"every_attempt_sends_the_body": asks(func(ctx context.Context, r *chainbudgettest.Request) context.Context {
			r.Body = ""
			return ctx
		}),
		"sent_once": asks(func(ctx context.Context, r *chainbudgettest.Request) context.Context {
			r.Once = false
			return ctx
		}),

		"writes_run_once": asks(repeatable),
		"unsent_leases_come_home": {Attempt: func(ctx context.Context, send func(context.Context) error) error {
			if err := send(valueless{ctx}); err != nil {
				return errors.New("something went wrong")
			}
			return nil
		}},
		"checked_before_sleeping": asks(repeatable),
		"hints_are_lower_bounds":  hasty(time.Millisecond),
		"dead_context_makes_no_attempt": asks(func(ctx context.Context, _ *chainbudgettest.Request) context.Context {
			return context.WithoutCancel(ctx)
		}),
		"caller_gone": vague,

		"attempt_timeout_ends_the_attempt":  hasty(50 * time.Millisecond),
		"attempt_timeout_is_told":           {Sent: tellsNoTimeout},
		"attempt_timeout_yields":            vague,
		"attempt_timeout_spares_the_answer": hasty(300 * time.Millisecond),

		"nothing_repeated_after_the_first_message": again,
		"messages_arrive_as_they_are_sent":         buffered,

		"nothing_given_passes_everything": {Sent: setWire},

		"no_lease_travels_twice": {Attempt: func(ctx context.Context, send func(context.Context) error) error {
			return twice(valueless{ctx}, send)
		}},
		"foreign_counters_take_the_grant": {Came: func(h member.Headers) {
			h.Delete("X-Envoy-Attempt-Count")
			h.Delete("Grpc-Previous-Rpc-Attempts")
		}},
		"repeated_grants_are_worth_nothing": {Came: func(h member.Headers) {
			fresh := strconv.FormatInt(0x10000000+n.Add(1), 16)
			h.SetValues(otelprop.HTTPRequestHeader, []string{"v1.2.3.1." + fresh + ".gateway"})
			h.Delete(otelprop.HTTPBaggageHeader)
		}},
		"mesh_is_told_not_to_retry": {Sent: without("X-Envoy-Max-Retries")},

		"nested_clients_decide_once": again,
		"nested_servers_act_once":    {Told: addReturn},

		"no_goroutine_outlives_the_call": asks(func(ctx context.Context, _ *chainbudgettest.Request) context.Context {
			go func() { <-release }()
			return ctx
		}),

		"lend_and_settle":            {Got: field(1, "1", "2")},
		"returns_are_clamped":        {Got: without(otelprop.HTTPReturnHeader)},
		"no_return_loses_the_lease":  returnsEverything(),
		"return_is_taken_out":        shout,
		"retries_cost_tokens":        again,
		"no_purse_lends_one":         {Sent: without(otelprop.HTTPRequestHeader)},
		"nothing_goes_outside":       {Sent: setWire},
		"nothing_comes_from_outside": shout,

		"grants_arrive": {Came: without(otelprop.HTTPRequestHeader)},
		"relayed_members_are_worth_one": {Came: func(h member.Headers) {
			for _, line := range h.Values(otelprop.HTTPBaggageHeader) {
				h.SetValues(otelprop.HTTPRequestHeader, []string{strings.TrimPrefix(line, "chainbudget=")})
			}
		}},
		"unreadable_is_worth_nothing":  {Came: without(otelprop.HTTPRequestHeader)},
		"grants_are_clamped":           {Came: func(h member.Headers) { h.SetValues(otelprop.HTTPRequestHeader, []string{"v1.1.1.1.0badcafe.gateway"}) }},
		"orphans_mint_one":             {Came: setWire},
		"probes_carry_nothing":         noProbe,
		"entries_ignore_what_comes_in": noEntry,
		"entries_begin_the_chain":      noEntry,

		"grants_are_stripped":          brings(otelprop.HTTPRequestHeader, otherWire),
		"copied_returns_do_not_go_out": {Told: addReturn},
		"inbound_returns_are_stripped": brings(otelprop.HTTPReturnHeader, otherReturn),

		"trailers_close_the_purse":         hide,
		"headers_close_the_purse":          hide,
		"work_after_the_answer_is_settled": hide,
		"kept_tokens_stay":                 hide,
		"panics_settle": {Handle: func(next chainbudgettest.Handler) chainbudgettest.Handler {
			return func(ctx context.Context, r chainbudgettest.Received, w chainbudgettest.Reply) error {
				defer func() { _ = recover() }()
				return next(ctx, r, w)
			}
		}},
		"lost_requests_close_their_purse": hide,

		"claims_are_read":                {Got: field(3, "u", "c")},
		"own_failures_are_claimed":       {Told: field(3, "c", "u")},
		"retried_failures_are_unclaimed": {Told: field(3, "u", "c")},
		"claims_pass_up":                 {Told: field(3, "c", "u")},
		"unclaimed_stays_unclaimed":      {Told: field(3, "s", "u")},
		"overload_is_stop":               {Told: field(3, "s", "c")},
		"effects_are_told":               {Told: field(5, "e", "")},

		"bypass_of_a_client":                   {Sent: setWire},
		"bypass_of_a_server":                   brings(otelprop.HTTPRequestHeader, otherWire),
		"observe_refuses_nothing_of_the_chain": {Got: without(otelprop.HTTPReturnHeader)},
		"budget_leaves_ownership_out":          asks(func(ctx context.Context, r *chainbudgettest.Request) context.Context { r.Write = true; return ctx }),

		"callers_time_bounds_the_handler": endless,
		"deadline_is_told":                {Sent: tellsNoTimeout},
		"repeated_calls_are_counted":      elsewhere,
		"repeated_calls_are_refused":      elsewhere,

		"discarding_is_bounded":        {},
		"bodies_closed_once":           {},
		"writer_keeps_its_abilities":   {},
		"reader_from_sends_the_return": {},
		"upgrade":                      {},
		"either_an_answer_or_an_error": {},
	}
}
