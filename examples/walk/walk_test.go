package walk

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// reasons says, for each outcome of a decision, how a handler comes to it.
var reasons = walks{
	"allowed": to("plain", 1, plain("/fails-once")),
	"disabled": func(f *fleet, ctx context.Context, _ http.ResponseWriter) error {
		return f.get(ctx, f.shop.Dependency("off", "plain"), f.plain+"/503")
	},
	"not_retryable":  to("plain", 1, plain("/500")),
	"stop":           to("plain", 1, ledger("/stop")),
	"unclaimed":      to("plain", 1, ledger("/unclaimed")),
	"settled":        to("plain", 1, ledger("/settled")),
	"pushback":       to("plain", 1, plain("/tomorrow")),
	"max_attempts":   to("plain", 1, plain("/503")),
	"no_policy":      to("no-retry", 1, plain("/503")),
	"process_budget": to("slow", 2, plain("/503")),
	// What pays for retries, and what protects the dependency, is used up first.
	"dependency_budget":  to("poor", 1, plain("/503")),
	"availability_floor": to("floored", 21, plain("/503")),
	"chain_exhausted":    to("plain", 1, plain("/503")),
	"canceled": func(f *fleet, ctx context.Context, _ http.ResponseWriter) error {
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			f.arrived("/hangs")
			cancel()
		}()
		return f.get(ctx, f.shop.Dependency("by-plain", "plain"), f.plain+"/hangs")
	},
	"not_idempotent": func(f *fleet, ctx context.Context, _ http.ResponseWriter) error {
		return f.call(ctx, f.shop.Dependency("by-plain", "plain"), http.MethodPost, f.plain+"/503", nil)
	},
	"not_replayable": func(f *fleet, ctx context.Context, _ http.ResponseWriter) error {
		return f.call(ctx, f.shop.Dependency("by-plain", "plain"), http.MethodPut, f.plain+"/503", body("once"))
	},
	"deadline": func(f *fleet, ctx context.Context, _ http.ResponseWriter) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return f.get(ctx, f.shop.Dependency("by-plain", "plain"), f.plain+"/later")
	},
	// The first failure opens it; it closes when it lets a call through that succeeds.
	"breaker_open": func(f *fleet, ctx context.Context, _ http.ResponseWriter) error {
		dep := f.shop.Dependency("by-brittle", "brittle")
		first := f.get(ctx, dep, f.plain+"/503")
		for f.get(ctx, dep, f.plain+"/fails-once") != nil {
			<-time.After(time.Millisecond)
		}
		return first
	},
}

// others are ways to what the reasons do not come by.
var others = walks{
	"hedge":   to("hedging", 1, plain("/hangs-once")),
	"works":   to("plain", 1, ledger("/works")),
	"claimed": to("plain", 1, ledger("/claimed")),
	"would_deny": func(f *fleet, ctx context.Context, _ http.ResponseWriter) error {
		return f.get(ctx, f.shop.Dependency("mild", "plain"), f.ledger+"/stop")
	},
}

// TestWalk goes every way, and looks for what came of it in spans and in metrics. What it expects comes from the enums: a new
// reason, claim or state without a way to it fails.
func TestWalk(t *testing.T) {
	places := maps.Clone(reasons)
	maps.Copy(places, others)
	f := newFleet(t, places)
	for _, name := range append([]string{"allowed"}, slices.Sorted(maps.Keys(places))...) {
		if name == "allowed" && len(f.done) > 0 {
			continue
		}
		resp, err := http.Get(f.front + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()

	events := f.events()
	for _, r := range ownership.Reasons() {
		event := otelprop.EventDenied
		if r == ownership.ReasonAllowed {
			event = otelprop.EventRetry
		}
		if !slices.ContainsFunc(events, func(e happened) bool {
			return e.name == event && strings.HasSuffix(e.at, " /"+r.String()) && e.is(otelprop.AttrReason, r.String())
		}) {
			t.Errorf("reason %v: no event %s on the span of its walk, which said %q", r, event, f.done[r.String()])
		}
		if r != ownership.ReasonAllowed && !strings.HasSuffix(f.done[r.String()], "/docs/denied/"+r.String()+".md") {
			t.Errorf("reason %v: the error does not end with its page: %q", r, f.done[r.String()])
		}
	}
	if len(reasons) != len(ownership.Reasons()) {
		t.Errorf("%d ways for %d reasons", len(reasons), len(ownership.Reasons()))
	}
	f.compare(events, ownership.Reasons())
	f.claims(events)
	f.breaker(events)
	documented(t, events)
}

// happened is an event on a span.
type happened struct {
	at   string // the span
	name string
	set  attribute.Set
}

func (e happened) is(key attribute.Key, value string) bool {
	v, ok := e.set.Value(key)
	return ok && v.String() == value
}

func (f *fleet) events() (list []happened) {
	for _, span := range f.spans.GetSpans() {
		for _, e := range span.Events {
			if strings.HasPrefix(e.Name, "chainbudget.") {
				list = append(list, happened{span.Name, e.Name, attribute.NewSet(e.Attributes...)})
			}
		}
	}
	return list
}

// count returns how many of the events have a name, and an attribute's value.
func count(events []happened, name string, key attribute.Key, value string) (n int64) {
	for _, e := range events {
		if e.name == name && e.is(key, value) {
			n++
		}
	}
	return n
}

// counted returns what an instrument counts, of both services, by the value of an attribute.
func (f *fleet) counted(instrument string, key attribute.Key) map[string]int64 {
	f.t.Helper()
	var all metricdata.ResourceMetrics
	if err := f.metrics.Collect(f.t.Context(), &all); err != nil {
		f.t.Fatal(err)
	}
	by := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if m.Name != instrument || !ok {
				continue
			}
			for _, p := range sum.DataPoints {
				v, ok := p.Attributes.Value(key)
				if !ok {
					f.t.Fatalf("%s has no attribute %s: %v", instrument, key, p.Attributes.Encoded(attribute.DefaultEncoder()))
				}
				by[v.String()] += p.Value
			}
		}
	}
	return by
}

// compare holds the counts of decisions against the events: each is both, once.
func (f *fleet) compare(events []happened, all []ownership.Reason) {
	denials, would := f.counted("chainbudget.denials", otelprop.AttrReason), f.counted("chainbudget.would_deny", otelprop.AttrReason)
	for _, r := range all {
		if n := count(events, otelprop.EventDenied, otelprop.AttrReason, r.String()); r != ownership.ReasonAllowed && (n == 0 || denials[r.String()] != n) {
			f.t.Errorf("reason %v: %d events, and the metric counts %d", r, n, denials[r.String()])
		}
		if n := count(events, otelprop.EventRetry, otelprop.AttrWouldDeny, r.String()); would[r.String()] != n {
			f.t.Errorf("reason %v: %d events of what would have been refused, and the metric counts %d", r, n, would[r.String()])
		}
	}
	if len(would) == 0 {
		f.t.Error("nothing would have been refused")
	}
	for kind, hedge := range map[string]string{"retry": "false", "hedge": "true"} {
		n, metric := count(events, otelprop.EventRetry, otelprop.AttrHedge, hedge), f.counted("chainbudget.retries", otelprop.AttrKind)
		if n == 0 || metric[kind] != n {
			f.t.Errorf("%s: %d events, and the metric counts %d", kind, n, metric[kind])
		}
	}
}

// claims looks for every claim: received with a decision or sent with an answer.
func (f *fleet) claims(events []happened) {
	received, sent := f.counted("chainbudget.claims.received", otelprop.AttrClaim), f.counted("chainbudget.claims.sent", otelprop.AttrClaim)
	below := slices.DeleteFunc(slices.Clone(events), func(e happened) bool { return !strings.HasPrefix(e.at, "ledger ") }) // an entry sends none
	for c := ownership.Claim(0); c.String() != "invalid"; c++ {
		word := c.String()
		decided := count(events, otelprop.EventRetry, otelprop.AttrClaim, word) + count(events, otelprop.EventDenied, otelprop.AttrClaim, word)
		if decided == 0 {
			f.t.Errorf("no decision came with the claim %v", c)
		}
		if received[word]+sent[word] == 0 {
			f.t.Errorf("no metric counts the claim %v", c)
		}
		if told := count(below, otelprop.EventClaim, otelprop.AttrClaim, word); c != ownership.ClaimNone && told != sent[word] {
			f.t.Errorf("claim %v: %d events of the handler, and the metric counts %d answers", c, told, sent[word])
		}
	}
	for _, c := range []ownership.Claim{ownership.ClaimClaimed, ownership.ClaimUnclaimed, ownership.ClaimStop} {
		if sent[c.String()] == 0 {
			f.t.Errorf("no handler has sent %v", c)
		}
	}
}

// breaker looks for every state that a breaker can change to.
func (f *fleet) breaker(events []happened) {
	changes := f.counted("chainbudget.breaker.changes", otelprop.AttrState)
	for s := breaker.State(0); !strings.HasPrefix(s.String(), "invalid"); s++ {
		if n := count(events, otelprop.EventBreaker, otelprop.AttrState, s.String()); n == 0 || n != changes[s.String()] {
			f.t.Errorf("state %v: %d events, and the metric counts %d", s, n, changes[s.String()])
		}
	}
}

// row is a line of the table of attributes in docs/traces.md.
var row = regexp.MustCompile("(?m)^\\| `(chainbudget\\.[a-z_]+)` \\| ((?:(?:retry|denied|claim|breaker)(?:, )?)+) \\|")

// documented holds the events against docs/traces.md: an attribute that is not there, or is there and on no event, fails.
func documented(t *testing.T, events []happened) {
	page, err := os.ReadFile("../../docs/traces.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		for event := range strings.SplitSeq(m[2], ", ") {
			want[fmt.Sprintf("chainbudget.%s has %s", event, m[1])] = true
		}
	}
	got := map[string]bool{}
	for _, e := range events {
		for _, a := range e.set.ToSlice() {
			got[fmt.Sprintf("%s has %s", e.name, a.Key)] = true
		}
	}
	for line := range want {
		if !got[line] {
			t.Errorf("docs/traces.md says that %s, and no event shows it", line)
		}
	}
	for line := range got {
		if !want[line] {
			t.Errorf("%s, and docs/traces.md does not say so", line)
		}
	}
}
