package budgethttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// link is one service of a chain.
type link struct {
	name     string
	settings []string
	bare     bool // it does not run the SDK
	relays   bool // and passes the request's baggage on, as an instrumented service does
	swallows bool // its handler tells nobody why it fails

	*owning
	served atomic.Int64
	err    error // what its latest call came to
}

// newChain serves links that call each other, each with one GET, the last of which does what last does. It returns the
// address of the first.
func newChain(t *testing.T, last http.Handler, links ...*link) string {
	t.Helper()
	next := ""
	for i, l := range slices.Backward(links) {
		handle := last
		if !l.bare {
			l.owning = new(owning)
			l.owning.caller = newCaller(t, roomy, chainbudgettest.Service(l.name), ownershipCatalog(l.settings...))
		}
		if i < len(links)-1 {
			base := http.RoundTripper(newPool(t))
			if !l.bare {
				base = l.transport(t, base)
			}
			to := &owning{client: &http.Client{Transport: redirected{base, next}}}
			forward := func(_ *owning, r *http.Request) error {
				if l.bare {
					req := request(t, r.Context(), http.MethodGet, "http://next/", nil)
					if l.relays {
						req.Header[otelprop.HTTPBaggageHeader] = r.Header[otelprop.HTTPBaggageHeader]
					}
					resp, err := to.client.Do(req)
					if err == nil {
						if status, _ := read(t, resp); status >= 500 {
							err = errors.New("it failed")
						}
					}
					l.err = err
					return err
				}
				l.err = to.fetch(r.Context(), http.MethodGet, "/")
				return l.err
			}
			if l.swallows || l.bare {
				handle = swallowing(forward)(l.owning)
			} else {
				handle = exactly(forward)(l.owning)
			}
		}
		if !l.bare {
			handle = budgethttp.NewHandler(handle, l.SDK)
		}
		next = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.served.Add(1)
			handle.ServeHTTP(w, r)
		})).URL
	}
	return next
}

// tally lists how many requests each link got.
func tally(links []*link) string {
	var b strings.Builder
	for i, l := range links {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s%d", l.name, l.served.Load())
	}
	return b.String()
}

// TestOwnership_chains has the rules over several hops: who retries, what goes up, and how deep the owner is.
func TestOwnership_chains(t *testing.T) {
	const keepsAll = "retry: {reserve: 99}"
	chain := func(names string, change func(*link)) (links []*link) {
		for _, name := range strings.Fields(names) {
			l := &link{name: name}
			change(l)
			links = append(links, l)
		}
		return links
	}
	plain := func(*link) {}
	only := func(name string, settings ...string) func(*link) {
		return func(l *link) {
			if l.name == name {
				l.settings = settings
			}
		}
	}
	// bare makes c a service without the SDK below a b that keeps tokens for itself.
	bare := func(relays bool, keeps string) func(*link) {
		return func(l *link) {
			switch l.name {
			case "b":
				l.settings = []string{keeps}
			case "c":
				l.bare, l.relays = true, relays
			}
		}
	}
	fails := answer(503, "")
	overloaded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ownership.Overloaded(r.Context())
		w.WriteHeader(503)
	})
	for _, tt := range []struct {
		name   string
		links  []*link
		last   http.Handler
		served string
		claim  ownership.Claim
		owner  string
		depth  uint8
	}{
		{"next_to_the_cause", chain("a b c d", plain), fails, "a1 b1 c1 d2", ownership.ClaimUnclaimed, "d", 3},
		{"closest_without_a_policy", chain("a b c d", only("c", onePolicy)), fails, "a1 b1 c2 d2", ownership.ClaimUnclaimed, "d", 3},
		{"closest_without_tokens", chain("a b c d", only("b", keepsAll)), fails, "a1 b1 c2 d2", ownership.ClaimUnclaimed, "d", 3},
		{"nobody_has_a_policy", chain("a b c d", func(l *link) { l.settings = []string{onePolicy} }), fails, "a1 b1 c1 d1", ownership.ClaimClaimed, "d", 3},
		{"the_error_is_swallowed", chain("a b c d", func(l *link) { l.swallows = true }), fails, "a1 b1 c1 d2", ownership.ClaimUnclaimed, "d", 3},
		{"overloaded_stops_every_layer", chain("a b c d", plain), overloaded, "a1 b1 c1 d1", ownership.ClaimStop, "d", 3},
		// c does not run the SDK: to b, whose dependency "callee" it is, it owns the failure; below it nobody retries.
		{"a_hop_without_the_sdk", chain("a b c d", bare(false, keepsAll)), fails, "a1 b1 c2 d2", ownership.ClaimUnclaimed, "callee", 2},
		// It relays the baggage: its callee takes one token at most and owes nothing.
		{"a_hop_that_relays", chain("a b c d e", bare(true, "retry: {reserve: 2}")), fails, "a1 b1 c2 d2 e3", ownership.ClaimUnclaimed, "callee", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := newChain(t, tt.last, tt.links...)
			r := lend(t, http.DefaultClient, http.MethodGet, url, 3)
			if !r.hasReturn {
				t.Fatalf("status %d came back without a return", r.status)
			}
			told(t, r.ret, tt.claim, tt.owner)
			if r.ret.Depth != tt.depth {
				t.Errorf("the owner is %d hops down, want %d", r.ret.Depth, tt.depth)
			}
			if got := tally(tt.links); got != tt.served {
				t.Errorf("served %s, want %s", got, tt.served)
			}
			var denied *chainbudget.DeniedError
			if !errors.As(tt.links[0].err, &denied) || denied.OwnerDepth != int(tt.depth) || denied.Owner != tt.owner || denied.Claim != tt.claim {
				t.Errorf("the first service's error is %+v, want owner %s, %d hops down", denied, tt.owner, tt.depth)
			}
		})
	}
}

// TestOwnership_radius: where in its chain a service retried is a value, and so are the claims that it sent and got.
func TestOwnership_radius(t *testing.T) {
	links := []*link{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}
	url := newChain(t, answer(503, ""), links...)
	for range 3 {
		lend(t, http.DefaultClient, http.MethodGet, url, 3) // the test is the entry: a's hop is 1
	}
	for hop, l := range links {
		got := l.SDK.Totals()
		want := map[int]int64{}
		if l.name == "c" {
			want[hop+1] = 3
		}
		if fmt.Sprint(got.RetriesByHop) != fmt.Sprint(want) {
			t.Errorf("%s counts retries by hop %v, want %v", l.name, got.RetriesByHop, want)
		}
		sent := map[string]int64{"unclaimed": 3}
		if l.name == "d" {
			sent = map[string]int64{"claimed": 6}
		}
		if fmt.Sprint(got.ClaimsSent) != fmt.Sprint(sent) {
			t.Errorf("%s counts claims sent %v, want %v", l.name, got.ClaimsSent, sent)
		}
	}
	if got := links[2].SDK.Totals().Dependencies["callee"].Claims; got["claimed"] != 6 {
		t.Errorf("c counts claims %v, want 6 claimed", got)
	}
}

// TestOwnership_effects_below: a write two hops down is told to everybody above, and nobody claims.
func TestOwnership_effects_below(t *testing.T) {
	for _, fails := range []bool{false, true} {
		bottom := serve(t, hop(t, "bottom", answer(200, "")))
		writer := newCaller(t, roomy, chainbudgettest.Service("writer"), ownershipCatalog())
		last := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if status, _ := send(t, writer.client(t, nil), request(t, r.Context(), http.MethodPost, bottom.URL, nil)); status != 200 {
				t.Errorf("the write is answered %d", status)
			}
			if fails {
				w.WriteHeader(503)
			}
		})
		links := []*link{{name: "a"}, {name: "b"}, {name: "c"}}
		url := newChain(t, last, links...)
		r := lend(t, http.DefaultClient, http.MethodGet, url, 3)
		claim, owner := ownership.ClaimNone, ""
		if fails {
			claim, owner = ownership.ClaimUnclaimed, "c"
		}
		told(t, r.ret, claim, owner)
		if !r.ret.Effects {
			t.Error("nobody is told of the write")
		}
		if got := tally(links); got != "a1 b1 c1" {
			t.Errorf("served %s: what has written is not asked again", got)
		}
	}
}

// TestOwnership_histogram: a server that rejects and sees more retries than the profile pinned for it allows says stop.
func TestOwnership_histogram(t *testing.T) {
	const pinned = "dependencies: {caller: {profile: roomy}}"
	for _, tt := range []struct {
		name           string
		settings       []string
		first, retries int // requests by their attempt
		rejected       int // of them
		status         int
		stop           bool
	}{
		{"retries_above_the_share", []string{pinned, "budget: {ratio: 10%, burst: 10}"}, 20, 3, 23, 503, true},
		{"throttled", []string{pinned, "budget: {ratio: 10%, burst: 10}"}, 20, 3, 23, 429, true},
		{"retries_at_the_share", []string{pinned, "budget: {ratio: 10%, burst: 10}"}, 27, 3, 30, 503, false},
		{"few_rejected", []string{pinned, "budget: {ratio: 10%, burst: 10}"}, 20, 20, 10, 503, false},
		{"few_arrived", []string{pinned, "budget: {ratio: 10%, burst: 10}"}, 5, 5, 10, 503, false},
		{"failures_that_are_no_rejections", []string{pinned, "budget: {ratio: 10%, burst: 10}"}, 20, 20, 40, 500, false},
		{"no_profile_is_pinned", []string{"budget: {ratio: 10%, burst: 10}"}, 20, 20, 40, 503, false},
		{"the_profile_has_no_budget", []string{pinned}, 20, 20, 40, 503, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rejects atomic.Int64
			rejects.Store(int64(tt.rejected))
			status := tt.status
			o := newOwning(t, http.NotFoundHandler(), func(*owning) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if rejects.Add(-1) >= 0 {
						w.WriteHeader(status)
					}
				})
			}, tt.settings...)
			send := func(attempt uint8) otelprop.Return {
				wire := otelprop.Request{Grant: 3, Limit: 3, Hop: 1, Nonce: nextNonce(), Entry: "shop", Caller: "shop", Attempt: attempt}
				req := request(t, t.Context(), http.MethodGet, o.url, nil)
				req.Header.Set(otelprop.HTTPRequestHeader, wire.Header())
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				return readReply(t, resp, wire.Nonce, 3).ret
			}
			for range tt.first {
				send(1)
			}
			for i := range tt.retries {
				send(uint8(2 + i%3))
			}
			rejects.Store(1)
			want := ownership.ClaimClaimed
			if tt.stop {
				want = ownership.ClaimStop
			}
			told(t, send(1), want, "caller")
		})
	}
}

// TestOwnership_learned: what is learned is counted until the catalog says that it decides.
func TestOwnership_learned(t *testing.T) {
	for _, learn := range []string{"observe", "enforce"} {
		t.Run(learn, func(t *testing.T) {
			var own atomic.Bool
			o := newOwning(t, claiming(503, ownership.ClaimUnclaimed, "ads"), func(o *owning) http.Handler {
				mux := http.NewServeMux()
				mux.HandleFunc("GET /page", func(w http.ResponseWriter, r *http.Request) {
					if oneGet(o, r) == nil {
						t.Error("ads did not fail")
					}
					if own.Load() {
						w.WriteHeader(500)
					}
				})
				return mux
			}, "chain: {learn: "+learn+"}")
			for range 16 {
				told(t, o.asked(t, 3), ownership.ClaimNone, "")
			}
			own.Store(true)
			got := o.asked(t, 3)
			if learn == "observe" {
				told(t, got, ownership.ClaimUnclaimed, "ads")
			} else {
				told(t, got, ownership.ClaimClaimed, "caller")
			}
			want := map[string]int64{"observe": 1, "enforce": 0}[learn]
			if n := o.SDK.Totals().LearnedOtherwise; n != want {
				t.Errorf("%d failures that learned edges see otherwise, want %d", n, want)
			}
		})
	}
}

// TestOwnership_exact_causes_teach: a failure that the error does not name failed beside the request's own, and not it.
func TestOwnership_exact_causes_teach(t *testing.T) {
	for _, wrapped := range []bool{true, false} {
		rec := chainbudgettest.New(t, chainbudgettest.Service("caller"), ownershipCatalog(onePolicy))
		fetch := func(ctx context.Context, name string) error {
			resp, err := get(ctx, budgethttp.NewTransport(inProcess(claiming(503, ownership.ClaimClaimed, name)), rec.Dependency(name, roomy)), "http://"+name+"/")
			if err != nil {
				return err
			}
			return budgethttp.Denied(resp)
		}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /page", func(w http.ResponseWriter, r *http.Request) {
			fetch(r.Context(), "ads")
			if err := fetch(r.Context(), "users"); wrapped {
				ownership.Blame(r.Context(), fmt.Errorf("no page without a user: %w", err))
			}
			w.WriteHeader(http.StatusBadGateway)
		})
		s := serve(t, budgethttp.NewHandler(mux, rec.SDK))
		for range 16 {
			lend(t, http.DefaultClient, http.MethodGet, s.URL+"/page", 3)
		}
		classes := map[string]string{}
		for _, e := range rec.SDK.Edges() {
			classes[e.Operation+" "+e.Dependency] = e.Class
		}
		want := map[string]string{"GET /page ads": "fail_close", "GET /page users": "fail_close"}
		if wrapped {
			want["GET /page ads"] = "fail_open"
		}
		if !maps.Equal(classes, want) {
			t.Errorf("errors wrapped %t: learned %v, want %v", wrapped, classes, want)
		}
	}
}

// TestOwnership_many_at_once: every request of many at once teaches exactly once.
func TestOwnership_many_at_once(t *testing.T) {
	const goroutines, each = 32, 40
	rec := chainbudgettest.New(t, chainbudgettest.Service("caller"), ownershipCatalog(onePolicy))
	calls := map[string]http.RoundTripper{}
	for name, status := range map[string]int{"works": 200, "fails": 503, "swings": 0} {
		calls[name] = budgethttp.NewTransport(roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			status := status
			if status == 0 { // as its caller is about to answer
				status, _ = req.Context().Value(writerKey{}).(int)
			}
			return response(req, status, http.NoBody), nil
		}), rec.Dependency(name, roomy))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{status}", func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.PathValue("status"))
		ctx := context.WithValue(r.Context(), writerKey{}, status)
		var all sync.WaitGroup
		for name, transport := range calls {
			all.Go(func() {
				if _, err := get(ctx, transport, "http://"+name+"/"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w.WriteHeader(status)
	})
	h := budgethttp.NewHandler(mux, rec.SDK, budgethttp.Entry())
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := range each {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, []string{"/200", "/500"}[i%2], nil))
			}
		})
	}
	all.Wait()
	type counts struct {
		requests, alone int64
		class           string
	}
	got := map[string]counts{}
	for _, e := range rec.SDK.Edges() {
		got[e.Dependency] = counts{e.Requests, e.Alone, e.Class}
	}
	const n = goroutines * each
	want := map[string]counts{
		"works": {n, n / 2, "unknown"}, "fails": {n, 0, "unknown"}, "swings": {n, 0, "fail_close"},
	}
	if !maps.Equal(got, want) {
		t.Errorf("learned %+v, want %+v", got, want)
	}
}

// What requests choose themselves is no operation: neither their path nor a method that they made up.
func TestOwnership_operations_are_bounded(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Service("caller"), ownershipCatalog())
	dep := rec.Dependency("callee", roomy)
	h := budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // no mux, no pattern
		if err := chainbudget.Do(r.Context(), dep, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	}), rec.SDK)
	for i := range 100 {
		for _, method := range []string{"GET", fmt.Sprint("METHOD", i)} {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, fmt.Sprint("/", i), nil))
		}
	}
	var operations []string
	for _, e := range rec.SDK.Edges() {
		operations = append(operations, e.Operation)
	}
	if want := []string{"GET", "another method"}; !slices.Equal(operations, want) {
		t.Errorf("edges of operations %q, want %q", operations, want)
	}
}

// spanRecorder is a span that keeps its events.
type spanRecorder struct {
	noop.Span
	mu     sync.Mutex
	events []string
}

func (*spanRecorder) IsRecording() bool { return true }

func (s *spanRecorder) AddEvent(name string, options ...trace.EventOption) {
	config := trace.NewEventConfig(options...)
	set := attribute.NewSet(config.Attributes()...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, name+" "+set.Encoded(attribute.DefaultEncoder()))
}

// TestOwnership_explains: why a failure was claimed is one line, in the code's hands, on the span and in the debug log; the
// same at an entry, where nobody above hears it.
func TestOwnership_explains(t *testing.T) {
	var b bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { slog.SetDefault(before) })
	for hop, options := range [][]budgethttp.HandlerOption{{budgethttp.Entry()}, nil} {
		b.Reset()
		sdk, err := chainbudget.New("shop")
		if err != nil {
			t.Fatal(err)
		}
		dep, err := sdk.Dependency("payments", "no-retry")
		if err != nil {
			t.Fatal(err)
		}
		transport := budgethttp.NewTransport(inProcess(claiming(503, ownership.ClaimClaimed, "ledger")), dep)
		var explained []string
		mux := http.NewServeMux()
		mux.HandleFunc("GET /pay/{id}", func(w http.ResponseWriter, r *http.Request) {
			explained = append(explained, ownership.Explain(r.Context()))
			resp, err := get(r.Context(), transport, "http://payments/")
			if err != nil {
				t.Error(err)
				return
			}
			explained = append(explained, ownership.Explain(r.Context()))
			ownership.Blame(r.Context(), budgethttp.Denied(resp))
			explained = append(explained, ownership.Explain(r.Context()))
			w.WriteHeader(http.StatusBadGateway)
		})
		span := new(spanRecorder)
		h := budgethttp.NewHandler(mux, sdk, options...)
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r.WithContext(trace.ContextWithSpan(r.Context(), span)))
		}))
		lend(t, http.DefaultClient, http.MethodGet, s.URL+"/pay/7", 3)
		want := []string{
			"claimed, owner shop: own: no call failed",
			"claimed, owner ledger: unknown: payments failed, and ties blame downstream",
			"claimed, owner ledger: exact: the error wraps the failed call to payments",
		}
		if !slices.Equal(explained, want) {
			t.Errorf("explained %q, want %q", explained, want)
		}
		event := fmt.Sprintf("chainbudget.claim chainbudget.claim=claimed,chainbudget.entry=shop,chainbudget.hop=%d,chainbudget.owner=ledger,"+
			"chainbudget.owner_depth=1,chainbudget.tokens=3,chainbudget.why=exact: the error wraps the failed call to payments", hop)
		if n := len(span.events); n == 0 || span.events[n-1] != event {
			t.Errorf("the span's events are %q, want %q last", span.events, event)
		}
		line := b.String()
		for _, part := range []string{"level=DEBUG", `operation="GET /pay/{id}"`, "claim=claimed", "owner=ledger", `why="exact: the error wraps the failed call to payments"`} {
			if strings.Count(line, part) != 1 {
				t.Errorf("the log has %q, want %s once", line, part)
			}
		}
		if err := sdk.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := ownership.Explain(context.Background()); got != "" {
		t.Errorf("without a request %q is explained", got)
	}
}
