package tables

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/propagation"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// TestT20 fills the baggage of every request up to the limits that everybody must pass on, and one beyond, and lets
// OpenTelemetry's own propagator read and write it between the hops. Where that drops the SDK's member, the header beside it
// still holds the chain to its tokens.
func TestT20_limits_of_baggage(t *testing.T) {
	const requests = 40
	tab := newTable(t, "T20", "a chain of three hops whose last fails, 3 tokens, OpenTelemetry's propagator between the hops", "")
	defer tab.print()
	for _, row := range []struct {
		what    string
		fill    fill
		paper   string
		arrives bool // all of the SDK's members do
	}{
		{"64 members", fill{members: 64}, "pass", true},
		{"64 members, ours the last", fill{members: 64, oursLast: true}, "pass", true},
		{"65 members", fill{members: 65}, "may drop ours", false},
		{"65 members, ours the last", fill{members: 65, oursLast: true}, "may drop ours", false},
		{"8192 bytes", fill{bytes: 8192}, "pass", true},
		{"8193 bytes", fill{bytes: 8193}, "may drop ours", false},
		{"no baggage at all", fill{drop: true}, "-", false},
	} {
		c := newFilledChain(t, row.fill)
		fewest, most := c.attempts.run(requests, c.ask)
		if row.arrives {
			tab.count(row.what+", requests between hops with the member", row.paper, []int{int(c.came.Load())}, []int{int(c.member.Load())})
		} else {
			tab.report(row.what+", share of requests between hops with the member", row.paper, float64(c.member.Load())/float64(c.came.Load()))
		}
		tab.count(row.what+", fewest and most attempts at the last hop", "the SDK still caps", []int{4, 4}, []int{fewest, most})
		orphans := int(c.middle.sdk.Totals().Orphans + c.last.sdk.Totals().Orphans)
		tab.count(row.what+", hops that took their request for one without a budget", "-", []int{0}, []int{orphans})
	}
}

// fill is a way to fill up a request's baggage: to so many members or bytes in all, behind the SDK's member, which comes
// first, or with oursLast before it. With drop nothing of it gets through.
type fill struct {
	members, bytes int
	oursLast       bool
	drop           bool
}

// apply adds members that are not the SDK's, and reads and writes the baggage as an instrumented layer does.
func (f fill) apply(h http.Header) {
	list := h.Get(otelprop.HTTPBaggageHeader)
	if f.drop {
		h.Del(otelprop.HTTPBaggageHeader)
		return
	}
	for n := strings.Count(list, ",") + 1; n < f.members; n++ {
		if other := fmt.Sprintf("other%d=1", n); f.oursLast {
			list = other + "," + list
		} else {
			list += "," + other
		}
	}
	const member = ",other="
	if room := f.bytes - len(list) - len(member); room > 0 {
		list += member + strings.Repeat("x", room)
	}
	h.Set(otelprop.HTTPBaggageHeader, list)
	ctx := propagation.Baggage{}.Extract(context.Background(), propagation.HeaderCarrier(h))
	h.Del(otelprop.HTTPBaggageHeader)
	propagation.Baggage{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// A filledChain is an entry, a middle hop and a last one that fails, on real servers.
type filledChain struct {
	middle, last *service
	attempts     attempts     // at the last hop
	came, member atomic.Int64 // requests between hops, and those whose baggage had the SDK's member
	ask          func()
}

func newFilledChain(t *testing.T, f fill) *filledChain {
	c := new(filledChain)
	r := rules{budget: 3, orphanBudget: 3, maxAttempts: 4, mode: "budget"}
	l := newLoopback(t)
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		out := req.Clone(req.Context())
		f.apply(out.Header)
		return l.base.RoundTrip(out)
	})
	// look stands before a hop's handler.
	look := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			c.came.Add(1)
			if strings.Contains(req.Header.Get(otelprop.HTTPBaggageHeader), otelprop.MemberKey+"=") {
				c.member.Add(1)
			}
			h.ServeHTTP(w, req)
		})
	}
	c.last = r.service(t, "last", false, 20)
	l.serve(look(budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c.attempts.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}), c.last.sdk)))
	hop := func(s *service, to string, options ...budgethttp.HandlerOption) http.Handler {
		client, url := s.transport(to, base), l.url
		return budgethttp.NewHandler(wrapped(func(req *http.Request) error { return call(req.Context(), client, url) }), s.sdk, options...)
	}
	c.middle = r.service(t, "middle", false, 20)
	l.serve(look(hop(c.middle, "last")))
	l.serve(hop(r.service(t, "entry", false, 20), "middle", budgethttp.Entry()))
	c.ask = l.ask
	return c
}

// attempts counts those of one request after the other.
type attempts struct{ atomic.Int64 }

func (a *attempts) run(requests int, ask func()) (fewest, most int) {
	for i := range requests {
		a.Store(0)
		ask()
		n := int(a.Load())
		if i == 0 {
			fewest = n
		}
		fewest, most = min(fewest, n), max(most, n)
	}
	return fewest, most
}
