package budgethttp_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/baggage"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// holder serves a handler of ours that answers with the number of tokens that the request brought.
func holder(rec *chainbudgettest.Recorder) http.Handler {
	return budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, chainbudget.Keep(r.Context(), 99))
	}), rec.SDK)
}

// member is a baggage member of ours, and line the header, with a nonce that no other has.
func member(tokens int) string { return "chainbudget=" + line(tokens) }

func line(tokens int) string {
	return fmt.Sprintf("v1.%d.99.1.%s.shop", tokens, otelprop.Nonce(rand.Uint32()))
}

func TestRegression_A076_every_way_to_write_the_member_is_read(t *testing.T) {
	// orphans would hold 7, so that a member that is not found shows
	rec := chainbudgettest.New(t, chainbudgettest.Catalog("version: 1\nchain: {orphan_budget: 7, max_budget: 99}\n"))
	s := serve(t, holder(rec))
	pad := strings.Repeat("p", 3000)
	for _, tt := range []struct {
		name    string
		baggage []string
		header  []string
		want    int
	}{
		{"second_line", []string{"tenant=a", member(5)}, nil, 1},
		{"second_line_with_header", []string{"tenant=a", member(5)}, []string{line(5)}, 5},
		{"A079_after_a_bad_escape", []string{"x=va%lue," + member(5)}, nil, 1},
		{"A080_after_an_escaped_blank", []string{"city=DF%2028,sum=1+1," + member(5)}, nil, 1},
		{"with_properties", []string{"a=1;p=2, " + member(5) + " ;ttl=3;x"}, nil, 1},
		{"spaces_around", []string{"a=1 ,\t chainbudget = " + line(5) + " "}, nil, 1},
		{"after_garbage", []string{"=,;;,%%%,\"," + member(5)}, nil, 1},
		{"key_in_other_case_is_foreign", []string{"ChainBudget=" + line(0) + "," + member(5)}, nil, 1},
		{"key_as_a_part_is_foreign", []string{"xchainbudget=" + line(0) + ",chainbudgetx=1," + member(5)}, nil, 1},
		{"key_in_a_value_is_foreign", []string{"x=chainbudget=" + line(0) + "," + member(5)}, nil, 1},
		{"within_8_KiB", []string{pad, pad, member(5)}, nil, 1},
		{"beyond_8_KiB_is_not_looked_for", []string{pad, pad, pad, member(5)}, nil, 7},
		{"none", []string{"tenant=a"}, nil, 7},
		{"A082_header_alone", nil, []string{line(5)}, 5},
		{"A082_neither", nil, nil, 7},
		{"A086_smallest_first", []string{member(0) + "," + member(5)}, []string{line(5)}, 0},
		{"A086_smallest_last", []string{member(5) + "," + member(0)}, []string{line(5)}, 0},
		{"A086_two_lines", []string{member(5), member(0)}, []string{line(5)}, 0},
		{"A086_header_smaller", []string{member(5)}, []string{line(2)}, 2},
		{"A086_two_headers", nil, []string{line(5), line(3)}, 3},
		{"A086_a_valid_one_beats_garbage", []string{"chainbudget=garbage," + member(5)}, []string{line(5)}, 5},
		{"A086_joined_headers_are_unreadable", nil, []string{line(5) + ", " + line(3)}, 0},
		{"unreadable_is_no_reason_to_mint", []string{"chainbudget=v9.5.5"}, nil, 0},
		{"unreadable_header_alone", nil, []string{""}, 0},
		{"unreadable_header_does_not_prove_directness", []string{member(5)}, []string{"?"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := request(t, t.Context(), http.MethodGet, s.URL, nil)
			if tt.baggage != nil {
				req.Header["Baggage"] = tt.baggage
			}
			if tt.header != nil {
				req.Header["Chainbudget"] = tt.header
			}
			if status, body := send(t, s.Client(), req); status != 200 || body != strconv.Itoa(tt.want) {
				t.Errorf("status %d, %s tokens; want %d", status, body, tt.want)
			}
		})
	}
}

func TestRegression_A077_hostile_headers_are_served_and_bring_nothing(t *testing.T) {
	rec := chainbudgettest.New(t) // an orphan holds 1
	s := httptest.NewUnstartedServer(holder(rec))
	s.Config.MaxHeaderBytes = 16 << 20
	s.Start()
	defer s.Close()
	var logged bytes.Buffer
	restore := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	defer slog.SetDefault(restore)

	lines := make([]string, 1000)
	for i := range lines {
		lines[i] = fmt.Sprintf("k%d=%s", i, strings.Repeat("v", 8<<10-8))
	}
	for name, baggage := range map[string][]string{
		"a_thousand_lines_of_8_KiB":       lines,
		"A078_a_malformed_value_of_5_MiB": {"chainbudget=" + strings.Repeat("%", 5<<20)},
		"A078_members_of_5_MiB":           {strings.Repeat("chainbudget=%zz,", 5<<20/16)},
	} {
		req := request(t, t.Context(), http.MethodGet, s.URL, nil)
		req.Header["Baggage"] = baggage
		if status, body := send(t, s.Client(), req); status != 200 || body != "1" && body != "0" {
			t.Errorf("%s: status %d, %s tokens; want it served with no more than an orphan has", name, status, body)
		}
	}
	if n := bytes.Count(logged.Bytes(), []byte("\n")); n > 1 {
		t.Errorf("%d log lines:\n%.500s", n, logged.String())
	}
}

// hostile returns 8 KiB of baggage that means harm, other for each n.
func hostile(n int) string {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	pieces := []string{
		",", ";", "=", " ", "\t", "%", "%00", "%zz", "chainbudget", "chainbudget=", "chainbudget=v1.", "chainbudget=v1.99.99.1.",
		"chainbudget=v1.99.99.1.00000000.x,", "chainbudget=v2.99.99.1.0badcafe.x,", "CHAINBUDGET=v1.99.99.1.0badcafe.x,",
		"chainbudget = v1.99.99.99.ffffffff.shop ; p=1 ,", "chainbudget=v1.999999999999.1.1.0badcafe.x,", "\x80\xff", "v1.", "....",
		"k=" + strings.Repeat("v", 500), strings.Repeat(",", 300), strings.Repeat("chainbudget", 30), strings.Repeat(" ", 200),
	}
	if n%4 == 0 { // one piece over and over is worst for some parsers
		piece := pieces[n/4%len(pieces)]
		return strings.Repeat(piece, 8<<10/len(piece))
	}
	var b strings.Builder
	for b.Len() < 8<<10-512 {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

func TestRegression_A077_a_thousand_hostile_requests_are_served_and_gain_no_token(t *testing.T) {
	rec := chainbudgettest.New(t)
	s := serve(t, holder(rec))
	for n := range 1000 {
		req := request(t, t.Context(), http.MethodGet, s.URL, nil)
		req.Header["Baggage"] = []string{hostile(n)}
		if n%3 == 0 {
			req.Header["Chainbudget"] = []string{hostile(n + 1)[:300]}
		}
		status, body := send(t, s.Client(), req)
		if status != 200 || body != "0" && body != "1" {
			t.Fatalf("request %d: status %d, %s tokens; without the header it would have 1", n, status, body)
		}
	}
	if n := rec.SDK.Totals(); n.Rejects["malformed"] == 0 || n.Unreadable == 0 {
		t.Errorf("nothing of it was counted: %+v", n)
	}
}

// awkward are members of others that a codec of baggage would refuse, change or lose.
func awkward() []string {
	members := []string{
		"city=DF%2028", "sum=1+1", "bad=va%lue", "q=\"quoted\"", "k;p=1;p2", "%41=key", "empty=", "=nokey", "justkey", "dup=1", "dup=2",
		"a b=c d", "x=chainbudget=v1", "slash=a\\b", "eq=a=b=c", "pct=%", "low=%c3%a4", "up=%C3%A4",
	}
	for b := 0x21; b <= 0xff; b++ {
		if b != ',' && b != 0x7f {
			members = append(members, fmt.Sprintf("b%02x=", b)+string([]byte{byte(b)}))
		}
	}
	return members
}

func TestRegression_A080_foreign_members_go_on_byte_for_byte(t *testing.T) {
	arrived := new(tap)
	back := serve(t, arrived.watch(hop(t, "callee", answer(200, ""))))
	target, err := url.Parse(back.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := newCaller(t, roomy, catalog(3))
	front := serve(t, budgethttp.NewHandler(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }, Transport: c.transport(t, nil),
	}, c.SDK))
	all := awkward()
	for len(all) > 0 {
		some := all[:min(60, len(all))] // with ours they are at most 64
		all = all[len(some):]
		for _, ours := range []int{0, len(some) / 2, len(some)} {
			req := request(t, t.Context(), http.MethodGet, front.URL, nil)
			lendTo(req, 2)
			req.Header.Set("Baggage", strings.Join(slices.Insert(slices.Clone(some), ours, req.Header.Get("Baggage")), ","))
			send(t, front.Client(), req)
			got := arrived.all()
			out := got[len(got)-1].header["Baggage"]
			if len(out) != 1 {
				t.Fatalf("%d baggage lines went on", len(out))
			}
			first, foreign, _ := strings.Cut(out[0], ",")
			if !strings.HasPrefix(first, "chainbudget=v1.2.") || foreign != strings.Join(some, ",") {
				t.Errorf("baggage went on as\n%q\nwant a member of ours and then\n%q", out[0], strings.Join(some, ","))
			}
			if !strings.Contains(first, got[len(got)-1].nonce()) {
				t.Errorf("member %q and header %q are of different attempts", first, got[len(got)-1].header["Chainbudget"])
			}
		}
	}
}

func TestRegression_A082_a_hop_that_strips_everything_leaves_the_default_and_is_counted(t *testing.T) {
	for _, orphan := range []int{0, 1} {
		rec := chainbudgettest.New(t, chainbudgettest.Catalog(fmt.Sprintf("version: 1\nchain: {orphan_budget: %d}\n", orphan)))
		s := serve(t, holder(rec))
		middle := &http.Client{Transport: roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			req.Header.Del("Baggage")
			req.Header.Del("Chainbudget")
			return s.Client().Transport.RoundTrip(req)
		})}
		c := newCaller(t, roomy, catalog(3))
		status, body := send(t, c.client(t, middle.Transport), request(t, c.chain(t), http.MethodGet, s.URL, nil))
		if status != 200 || body != strconv.Itoa(orphan) {
			t.Errorf("status %d, %s tokens, want the orphan's %d", status, body, orphan)
		}
		if n := rec.SDK.Totals(); n.Orphans != 1 || n.Minted != int64(orphan) {
			t.Errorf("orphans %d, minted %d", n.Orphans, n.Minted)
		}
		// The caller lent two and hears nothing of them: they are lost, not spent twice.
		if n := c.SDK.Totals(); n.Lost != 2 || n.Dependencies["callee"].Home != 0 {
			t.Errorf("lost %d, home %d; want 2 and 0", n.Lost, n.Dependencies["callee"].Home)
		}
	}
}

func TestRegression_A083_ours_survives_a_full_baggage_the_same_way_each_time(t *testing.T) {
	for _, tt := range []struct {
		name    string
		foreign func(i int) string
		count   int
		kept    int
	}{
		{"members", func(i int) string { return fmt.Sprintf("k%d=v", i) }, 64, 63},
		{"many_members", func(i int) string { return fmt.Sprintf("k%d=v", i) }, 200, 63},
		{"one_key_64_times", func(int) string { return "k=v" }, 64, 63}, // list members count, not keys
		{"bytes", func(i int) string { return fmt.Sprintf("k%d=%s", i, strings.Repeat("v", 2000)) }, 5, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCaller(t, roomy, catalog(3))
			s, arrived := callee(t, serve, answer(200, ""))
			var foreign []string
			for i := range tt.count {
				foreign = append(foreign, tt.foreign(i))
			}
			client, ctx := c.client(t, nil), c.chain(t)
			for range 20 {
				req := request(t, ctx, http.MethodGet, s.URL, nil)
				req.Header.Set("Baggage", strings.Join(foreign, ","))
				send(t, client, req)
			}
			for i, a := range arrived.all() {
				members := strings.Split(a.header.Get("Baggage"), ",")
				if !strings.HasPrefix(members[0], "chainbudget=v1.") || !slices.Equal(members[1:], foreign[:tt.kept]) {
					t.Fatalf("trip %d: %d members, first %q; want ours and the first %d of the others", i, len(members), members[0], tt.kept)
				}
			}
			if n := c.SDK.Totals().BaggageDropped; n != int64(20*(tt.count-tt.kept)) {
				t.Errorf("%d dropped members were counted, want %d", n, 20*(tt.count-tt.kept))
			}
		})
	}
}

func TestRegression_A084_a_request_sent_again_and_again_does_not_grow(t *testing.T) {
	const hops, sendings = 5, 10
	arrived := new(tap)
	next := serve(t, arrived.watch(hop(t, "leaf", answer(503, ""))))
	pool := newPool(t)
	for range hops { // each a gateway that sends the inbound request on, header and all
		c := newCaller(t, roomy, catalog(3))
		target, err := url.Parse(next.URL)
		if err != nil {
			t.Fatal(err)
		}
		next = serve(t, arrived.watch(budgethttp.NewHandler(&httputil.ReverseProxy{
			Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }, Transport: c.transport(t, pool),
		}, c.SDK)))
	}
	c := newCaller(t, roomy, catalog(9))
	client := c.client(t, pool)
	req := request(t, c.chain(t), http.MethodGet, next.URL, nil)
	req.Header.Set("Baggage", "tenant=a")
	before := req.Header.Clone()
	for range sendings {
		send(t, client, req)
	}
	if fmt.Sprint(req.Header) != fmt.Sprint(before) {
		t.Errorf("the caller's header was %v and is %v", before, req.Header)
	}
	all := arrived.all()
	if len(all) < (hops+1)*sendings {
		t.Fatalf("%d requests", len(all))
	}
	for _, a := range all {
		if n := strings.Count(a.header.Get("Baggage"), "chainbudget="); n != 1 || len(a.header["Baggage"]) != 1 || len(a.header["Chainbudget"]) != 1 {
			t.Fatalf("baggage %q, header %q: want one member and one line", a.header["Baggage"], a.header["Chainbudget"])
		}
		if size := len(a.header.Get("Baggage")); size > len(",tenant=a")+otelprop.MaxMember {
			t.Fatalf("the baggage has grown to %d bytes", size)
		}
	}
}

// insideAndOutside is a server behind the names of a host of the fleet and of a stranger.
func insideAndOutside(t *testing.T) (pool *http.Transport, arrived *tap) {
	t.Helper()
	arrived = new(tap)
	s := serve(t, arrived.watch(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Chainbudget-Return", "v1.9.0.s.00000000.-.victim")
		switch r.URL.Path {
		case "/out":
			http.Redirect(w, r, "http://api.vendor.test/back", http.StatusTemporaryRedirect)
		case "/back":
			http.Redirect(w, r, "http://stock.corp.test/end", http.StatusTemporaryRedirect)
		case "/fail":
			w.WriteHeader(503)
		}
	})))
	pool = newPool(t)
	pool.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, s.Listener.Addr().String())
	}
	return pool, arrived
}

const fleet = `
version: 1
internal_hosts: ["*.corp.test"]
profiles:
  base: {extends: read-heavy, backoff: {base: 1ms, throttled_base: 1ms, cap: 5s}, breaker: disabled, availability_floor: 0%}
dependencies:
  vendor: {profile: third-party}
  declared: {profile: base, external: true}
`

func TestRegression_A087_nothing_of_ours_leaves_the_fleet(t *testing.T) {
	carries := func(a arrival) bool {
		return a.header.Get("Chainbudget") != "" || strings.Contains(a.header.Get("Baggage"), "chainbudget")
	}
	t.Run("redirect_out_and_back", func(t *testing.T) {
		pool, arrived := insideAndOutside(t)
		c := newCaller(t, "base", chainbudgettest.Catalog(fleet))
		req := request(t, c.chain(t), http.MethodGet, "http://stock.corp.test/out", nil)
		req.Header.Set("Baggage", "tenant=a")
		send(t, c.client(t, pool), req)
		var got []string
		for _, a := range arrived.all() {
			got = append(got, fmt.Sprintf("%s %v %v", a.path, carries(a), strings.HasSuffix(a.header.Get("Baggage"), "tenant=a")))
		}
		// Foreign baggage is the application's own business.
		if want := []string{"/out true true", "/back false true", "/end true true"}; !slices.Equal(got, want) {
			t.Errorf("path, carries ours, carries theirs: %v; want %v", got, want)
		}
	})
	for name, dependency := range map[string]struct {
		profile profiles.Name
		address string
	}{
		"by_host":    {"base", "http://api.vendor.test/fail"},
		"vendor":     {profiles.ThirdParty, "http://stock.corp.test/fail"},
		"declared":   {"base", "http://stock.corp.test/fail"},
		"no_scheme":  {"base", "http://8.8.8.8/fail"},
		"look_alike": {"base", "http://corp.test/fail"},
	} {
		t.Run(name, func(t *testing.T) {
			pool, arrived := insideAndOutside(t)
			c := newCaller(t, "base", chainbudgettest.Catalog(fleet))
			transport := budgethttp.NewTransport(injecting{pool}, c.Dependency(name, dependency.profile))
			// The context has a member as a process that runs the propagator but not our handler would have it.
			stale, err := baggage.Parse(member(5) + ",tenant=a")
			if err != nil {
				t.Fatal(err)
			}
			ctx := baggage.ContextWithBaggage(c.chain(t), stale)
			req := request(t, ctx, http.MethodGet, dependency.address, nil)
			lendTo(req, 5) // and so has the header, as a gateway that copies would
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			denied := budgethttp.Denied(resp)
			if status, _ := read(t, resp); status != 503 || resp.Header.Get("Chainbudget-Return") != "" {
				t.Errorf("status %d, header %v", status, resp.Header)
			}
			for _, a := range arrived.all() {
				if carries(a) {
					t.Errorf("%s carries %q and %q", a.path, a.header["Chainbudget"], a.header["Baggage"])
				}
				if !strings.Contains(a.header.Get("Baggage"), "tenant=a") {
					t.Errorf("the application's own baggage is gone: %q", a.header["Baggage"])
				}
			}
			// Local counting goes on, and what an outsider says about claims is not believed.
			d := c.SDK.Totals().Dependencies[name]
			if d.Retries == 0 || d.Lent != 0 || denied == nil || denied.Owner != name {
				t.Errorf("retries %d lent %d, denied %+v", d.Retries, d.Lent, denied)
			}
		})
	}
}

// injecting writes the context's baggage into the header, as an instrumented transport does.
type injecting struct{ base http.RoundTripper }

func (i injecting) RoundTrip(req *http.Request) (*http.Response, error) {
	if bag := baggage.FromContext(req.Context()); bag.Len() > 0 {
		req = req.Clone(req.Context())
		req.Header.Set("Baggage", bag.String())
	}
	return i.base.RoundTrip(req)
}

func TestRegression_A089_a_grant_is_clamped_to_what_this_service_believes(t *testing.T) {
	for catalog, want := range map[string]string{
		"version: 1\n": "10", "version: 1\nchain: {max_budget: 3}\n": "3", "version: 1\nchain: {budget: 0, orphan_budget: 0, max_budget: 0}\n": "0",
	} {
		s := serve(t, holder(chainbudgettest.New(t, chainbudgettest.Catalog(catalog))))
		req := request(t, t.Context(), http.MethodGet, s.URL, nil)
		lendTo(req, 99)
		if status, body := send(t, s.Client(), req); status != 200 || body != want {
			t.Errorf("catalog %q: a grant of 99 brought %s tokens, want %s", catalog, body, want)
		}
	}
}
