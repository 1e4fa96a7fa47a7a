package trees

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/testnet"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// wireCatalog takes at most 5 tokens from a caller and gives an orphan 1.
const wireCatalog = "version: 1\nchain: {budget: 3, max_budget: 5, orphan_budget: 1}\n"

const (
	wireMaxBudget    = 5
	wireOrphanBudget = 1
)

// member is the core of a wire.
func member(grant, limit int, nonce uint32) string {
	return fmt.Sprintf("v1.%d.%d.1.%08x.entry", grant, limit, nonce)
}

// granted sends headers to a fresh callee and returns what its purse was opened with, and its answer.
func granted(t *testing.T, rec *chainbudgettest.Recorder, header http.Header) (int, *httptest.ResponseRecorder) {
	t.Helper()
	got := -1
	h := budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = engine.FromContext(r.Context()).Balance().Granted
	}), rec.SDK)
	req := httptest.NewRequest(http.MethodGet, "/orders", nil)
	req.Header = header
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	if got < 0 {
		t.Errorf("the handler did not run for %v", header)
	}
	return got, w
}

// TestI4_AGrantIsClampedAndOnlyLowered gives a callee every kind of grant, and hundreds of random mixtures.
func TestI4_AGrantIsClampedAndOnlyLowered(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(wireCatalog))
	const twice = 0x0abc
	for _, tc := range []struct {
		name   string
		header http.Header
		want   int
	}{
		{"plain", http.Header{"Chainbudget": {member(4, 4, 1)}}, 4},
		{"above_max_budget", http.Header{"Chainbudget": {member(99, 99, 2)}}, wireMaxBudget},
		{"above_its_own_limit", http.Header{"Chainbudget": {member(4, 2, 3)}}, 2},
		{"member_agrees", http.Header{"Chainbudget": {member(4, 4, 4)}, "Baggage": {"chainbudget=" + member(4, 4, 4)}}, 4},
		{"member_is_smaller", http.Header{"Chainbudget": {member(4, 4, 5)}, "Baggage": {"chainbudget=" + member(2, 4, 6)}}, 2},
		{"member_is_larger", http.Header{"Chainbudget": {member(2, 4, 7)}, "Baggage": {"chainbudget=" + member(4, 4, 8)}}, 2},
		{"duplicate_lines", http.Header{"Chainbudget": {member(4, 4, 9), member(1, 4, 10)}}, 1},
		{"duplicate_lines_reversed", http.Header{"Chainbudget": {member(1, 4, 11), member(4, 4, 12)}}, 1},
		{"duplicate_members", http.Header{"Baggage": {"chainbudget=" + member(0, 4, 13) + ",chainbudget=" + member(4, 4, 14)}}, 0},
		{"relayed", http.Header{"Baggage": {"chainbudget=" + member(4, 4, 15)}}, 1},
		{"relayed_nothing", http.Header{"Baggage": {"chainbudget=" + member(0, 4, 16)}}, 0},
		{"mesh_repeats", http.Header{"Chainbudget": {member(4, 4, 17)}, "X-Envoy-Attempt-Count": {"2"}}, 0},
		{"grpc_repeats", http.Header{"Chainbudget": {member(4, 4, 18)}, "Grpc-Previous-Rpc-Attempts": {"1"}}, 0},
		{"mesh_does_not_repeat", http.Header{"Chainbudget": {member(4, 4, 19)}, "X-Envoy-Attempt-Count": {"1"}}, 4},
		{"first_arrival", http.Header{"Chainbudget": {member(4, 4, twice)}}, 4},
		{"second_arrival", http.Header{"Chainbudget": {member(4, 4, twice)}}, 0},
	} {
		if got, _ := granted(t, rec, tc.header.Clone()); got != tc.want {
			t.Errorf("%s: granted %d, want %d", tc.name, got, tc.want)
		}
	}

	r := rand.New(rand.NewPCG(4, 4))
	for n := range 2000 {
		header := http.Header{}
		bound := wireMaxBudget
		lines, members := r.IntN(3), r.IntN(3)
		if lines+members == 0 {
			continue
		}
		for i := range lines + members {
			grant, limit := r.IntN(12), r.IntN(12)
			// A direct caller's member may repeat its header or differ from it: each is a bound of its own.
			core := member(grant, limit, uint32(1000+n*8+i))
			bound = min(bound, grant)
			if i < lines {
				header.Add("Chainbudget", core)
				if i == 0 {
					bound = min(bound, limit)
				}
			} else {
				header.Add("Baggage", "k=v,chainbudget="+core)
			}
		}
		if lines == 0 {
			bound = min(bound, 1)
		}
		text := fmt.Sprint(header)
		if got, _ := granted(t, rec, header); got > bound {
			t.Errorf("%s: granted %d, want at most %d", text, got, bound)
		}
	}
}

// TestI5_NoInputFailsARequestOrIsWorthMoreThanNone sends what no SDK would write, to a callee and back to a caller.
func TestI5_NoInputFailsARequestOrIsWorthMoreThanNone(t *testing.T) {
	t.Run("to_a_callee", func(t *testing.T) {
		rec := chainbudgettest.New(t, chainbudgettest.Catalog(wireCatalog))
		r := rand.New(rand.NewPCG(5, 5))
		good := member(4, 4, 0xfeed)
		hostile := []string{
			"", " ", "v1", "v1.", "v1.....", "v2." + good[3:], "v0.1.1.1.00000000.x", "v1.-1.4.1.0000000a.entry", "v1.+1.4.1.0000000a.entry",
			"v1.01.4.1.0000000a.entry", "v1.100.100.1.0000000a.entry", "v1.4.4.0.0000000a.entry", "v1.4.4.1.0000000A.entry",
			"v1.4.4.1.000000.entry", "v1.4.4.1.0000000a." + strings.Repeat("e", 25), strings.Repeat("v", 1<<16), good + "," + good,
			"v1.\x00.4.1.0000000a.entry", "v1.\xff.4.1.0000000a.entry", "%76%31.4.4.1.0000000a.entry", "v1.4e0.4.1.0000000a.entry", "१.४",
		}
		for range 3000 { // broken copies of a good one
			b := []byte(good)
			for range 1 + r.IntN(3) {
				b[r.IntN(len(b))] = byte(r.IntN(256))
			}
			hostile = append(hostile, string(b))
		}
		for _, line := range hostile {
			for _, header := range []http.Header{
				{"Chainbudget": {line}},
				{"Baggage": {"chainbudget=" + line}},
				{"Chainbudget": {line, line}, "Baggage": {"a=b," + line, "chainbudget=" + line + ",,;=,"}},
				{"Chainbudget": slices.Repeat([]string{line}, 40)},
			} {
				text := fmt.Sprintf("%.200q", header)
				wire, _ := otelprop.ReadRequest(header["Baggage"], header["Chainbudget"], wireMaxBudget)
				limit := wireMaxBudget
				if wire.State != otelprop.Valid {
					limit = wireOrphanBudget // what its absence would have been worth
				}
				got, w := granted(t, rec, header)
				if w.Code != http.StatusOK {
					t.Errorf("%s: status %d", text, w.Code)
				}
				if got > limit {
					t.Errorf("%s: granted %d, want at most %d", text, got, limit)
				}
			}
		}
		for _, timeout := range []string{"0", "-1", "1e9", "99999999999999999999", "600001", "", "x", "0x10", " "} {
			core := member(4, 4, 0xbeef) + ";timeout=" + timeout
			h := budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if deadline, ok := r.Context().Deadline(); ok {
					t.Errorf("timeout=%s bounds the request, to %v", timeout, time.Until(deadline))
				}
			}), rec.SDK)
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			req.Header["Chainbudget"] = []string{core}
			h.ServeHTTP(httptest.NewRecorder(), req)
		}
	})
	t.Run("back_to_a_caller", func(t *testing.T) {
		// Whatever comes back, the purse holds what an answer without a return leaves it: the one token that who minted
		// keeps. Only the nonce of the attempt itself brings a lease home.
		for name, tc := range map[string]struct {
			lines func(nonce string) []string
			held  int
		}{
			"none":           {func(string) []string { return nil }, 1},
			"honest":         {func(n string) []string { return []string{"v1.2.0.n." + n + ".-"} }, 3},
			"more_than_lent": {func(n string) []string { return []string{"v1.99.0.n." + n + ".-"} }, 3},
			"other_nonce":    {func(string) []string { return []string{"v1.2.0.n.deadbeef.-"} }, 1},
			"twice":          {func(n string) []string { return slices.Repeat([]string{"v1.2.0.n." + n + ".-"}, 2) }, 1},
			"joined":         {func(n string) []string { return []string{"v1.2.0.n." + n + ".-, v1.2.0.n." + n + ".-"} }, 1},
			"version":        {func(n string) []string { return []string{"v9.2.0.n." + n + ".-"} }, 1},
			"negative":       {func(n string) []string { return []string{"v1.-2.0.n." + n + ".-"} }, 1},
			"huge":           {func(n string) []string { return []string{"v1.2.0.n." + n + ".-." + strings.Repeat("x", 1<<16)} }, 1},
			"no_claim":       {func(n string) []string { return []string{"v1.2.0.z." + n + ".-"} }, 1},
			"empty":          {func(string) []string { return []string{""} }, 1},
			"retries_galore": {func(n string) []string { return []string{"v1.0.99.n." + n + ".-"} }, 1},
		} {
			t.Run(name, func(t *testing.T) {
				rec := chainbudgettest.New(t)
				network := testnet.New(nil)
				defer network.Close()
				network.Handle("callee", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					nonce := strings.Split(r.Header.Get("Chainbudget"), ".")[4]
					w.Header()[otelprop.HTTPReturnHeader] = tc.lines(nonce)
				}))
				transport := budgethttp.NewTransport(network, rec.Dependency("callee", "read-heavy"))
				h := budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://callee/", nil)
					if err != nil {
						t.Error(err)
						return
					}
					resp, err := transport.RoundTrip(req)
					if err != nil || resp.StatusCode != http.StatusOK {
						t.Errorf("the call fails: %v, %v", resp, err)
					}
					if b := engine.FromContext(r.Context()).Balance(); b.Held != tc.held || b.Held+b.Spent+b.Lost != b.Granted {
						t.Errorf("%+v after the call, want %d held", b, tc.held)
					}
				}), rec.SDK, budgethttp.Entry())
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			})
		}
	})
}

// TestI6_AGrantLeavesOnlyThroughAnAdapter has a handler forward what it got in the ways in which handlers do.
func TestI6_AGrantLeavesOnlyThroughAnAdapter(t *testing.T) {
	const nonce = "00c0ffee"
	core := "v1.3.3.1." + nonce + ".entry"
	forward := func(r *http.Request, change func(*http.Request)) *http.Request {
		req, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://callee/", nil)
		change(req)
		return req
	}
	backend := &url.URL{Scheme: "http", Host: "callee"}
	for name, handler := range map[string]func(plain, ours http.RoundTripper) http.Handler{
		"reverse_proxy": func(plain, _ http.RoundTripper) http.Handler {
			return &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(backend) }, Transport: plain}
		},
		"reverse_proxy_over_the_sdk": func(_, ours http.RoundTripper) http.Handler {
			return &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(backend) }, Transport: ours}
		},
		"copied_headers": func(plain, _ http.RoundTripper) http.Handler {
			return relay(plain, forward, func(in, out *http.Request) { out.Header = in.Header.Clone() })
		},
		"copied_headers_over_the_sdk": func(_, ours http.RoundTripper) http.Handler {
			return relay(ours, forward, func(in, out *http.Request) { out.Header = in.Header.Clone() })
		},
		"baggage_of_the_context": func(plain, _ http.RoundTripper) http.Handler {
			return relay(plain, forward, func(in, out *http.Request) {
				propagation.Baggage{}.Inject(in.Context(), propagation.HeaderCarrier(out.Header))
			})
		},
		"baggage_over_the_sdk": func(_, ours http.RoundTripper) http.Handler {
			return relay(ours, forward, func(in, out *http.Request) {
				propagation.Baggage{}.Inject(in.Context(), propagation.HeaderCarrier(out.Header))
			})
		},
	} {
		for _, entry := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/entry_%t", name, entry), func(t *testing.T) {
				rec := chainbudgettest.New(t)
				network := testnet.New(nil)
				defer network.Close()
				var arrived http.Header
				network.Handle("callee", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					arrived = r.Header.Clone()
					w.Header().Set(otelprop.HTTPReturnHeader, "v1.3.0.n."+nonce+".-")
				}))
				var options []budgethttp.HandlerOption
				if entry {
					options = append(options, budgethttp.Entry())
				}
				ours := budgethttp.NewTransport(network, rec.Dependency("callee", "read-heavy"))
				inner := budgethttp.NewHandler(handler(network, ours), rec.SDK, options...)
				// A tracing middleware stands outside, and has put the baggage into the context already.
				outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ctx := propagation.Baggage{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
					inner.ServeHTTP(w, r.WithContext(ctx))
				})
				req := httptest.NewRequest(http.MethodGet, "/", nil)
				req.Header.Set("Chainbudget", core)
				req.Header.Set("Baggage", "tenant=7,chainbudget="+core)
				w := httptest.NewRecorder()
				outer.ServeHTTP(w, req)

				if arrived == nil {
					t.Fatal("nothing was forwarded")
				}
				sdk := strings.HasSuffix(name, "over_the_sdk")
				wire, _ := otelprop.ReadRequest(arrived["Baggage"], arrived["Chainbudget"], otelprop.MaxTokens)
				switch text := fmt.Sprint(arrived); {
				case strings.Contains(text, nonce):
					t.Errorf("the grant was forwarded a second time: %s", text)
				case !sdk && strings.Contains(strings.ToLower(text), "chainbudget"):
					t.Errorf("something of ours left without an adapter: %s", text)
				case sdk && (wire.State != otelprop.Valid || len(arrived["Chainbudget"]) != 1 || strings.Count(text, "chainbudget=") != 1):
					t.Errorf("the SDK's own wire is not there once: %s", text)
				}
				if !strings.Contains(strings.Join(arrived["Baggage"], ","), "tenant=7") {
					t.Errorf("somebody else's member is gone: %v", arrived["Baggage"])
				}
				returns := w.Result().Header[otelprop.HTTPReturnHeader]
				switch {
				case entry && len(returns) != 0:
					t.Errorf("an entry sends a return: %q", returns)
				case !entry && (len(returns) != 1 || !strings.Contains(returns[0], nonce)):
					t.Errorf("returns %q, want our own", returns)
				case !entry && !sdk && strings.HasSuffix(returns[0], ".-"):
					// Ours says that this hop made no call by the SDK; the callee's would have said that it did.
					t.Errorf("the callee's return %q went out as ours", returns[0])
				}
			})
		}
	}
}

// relay is a handler that makes one request of its own, and copies the answer's header.
func relay(transport http.RoundTripper, forward func(*http.Request, func(*http.Request)) *http.Request, change func(in, out *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := transport.RoundTrip(forward(r, func(out *http.Request) { change(r, out) }))
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
	})
}
