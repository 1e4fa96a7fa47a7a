package chainbudget_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/ownership"
)

const liveCatalog = "version: 1\nprofiles: {quick: {extends: read-heavy, retry: {max_attempts: 3}, backoff: {base: 1ms, throttled_base: 1ms, cap: 1ms}, breaker: disabled, " +
	"availability_floor: 0%}}\ndependencies: {payments: {profile: quick, owner: team-ledger}}\n"

// live is an SDK with a page.
type live struct {
	*chainbudget.SDK
	t    *testing.T
	page http.Handler
}

func newLive(t *testing.T, catalog string, options ...chainbudget.Option) *live {
	t.Helper()
	sdk, err := chainbudget.New("checkout", append(options, chainbudget.WithCatalogFS(mapFS(catalog), "c.yaml"))...)
	require.NoError(t, err)
	closing(t, sdk)
	return &live{sdk, t, sdk.DebugHandler()}
}

// do makes a call in a chain of its own, whose attempts fail as often as it says.
func (l *live) do(name string, failures int) error {
	l.t.Helper()
	dep, err := l.Dependency(name, "quick")
	require.NoError(l.t, err)
	ctx, end := chainbudget.Start(context.Background(), l.SDK)
	defer end()
	return chainbudget.Do(ctx, dep, func(context.Context) error {
		if failures--; failures >= 0 {
			return chainbudget.Retryable(io.ErrUnexpectedEOF)
		}
		return nil
	}, chainbudget.Idempotent())
}

func ask(h http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wellFormed demands that a page is one whose elements all close, so that no text became markup, and returns its text.
func wellFormed(t *testing.T, page string) string {
	t.Helper()
	_, body, ok := strings.Cut(page, "<body>")
	require.True(t, ok)
	body = regexp.MustCompile(`(?s)<script>.*?</script>`).ReplaceAllString(body, "")
	d := xml.NewDecoder(strings.NewReader("<body>" + strings.TrimSuffix(strings.TrimSpace(body), "</html>")))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var text strings.Builder
	for {
		token, err := d.Token()
		if err == io.EOF {
			return text.String()
		}
		require.NoError(t, err)
		switch one := token.(type) {
		case xml.CharData:
			text.Write(one)
		case xml.StartElement:
			assert.NotContains(t, []string{"script", "img", "iframe", "object"}, one.Name.Local)
			for _, a := range one.Attr {
				assert.NotRegexp(t, "^(on|style$)", a.Name.Local, "the policy forbids it")
			}
		}
	}
}

// TestDebugHandler_json_equals_totals: every number of Totals is in the JSON by its name, and the same.
func TestDebugHandler_json_equals_totals(t *testing.T) {
	l := newLive(t, liveCatalog)
	require.NoError(t, l.do("payments", 1))
	require.Error(t, l.do("payments", 3))
	require.NoError(t, l.do("stock", 0))
	answer := ask(l.page, http.MethodGet, "/debug?format=json")
	assert.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	var got struct {
		Service      string
		Totals       map[string]any
		Dependencies []struct {
			Name, Profile, Owner string
			Totals               map[string]any
			Owners               map[string]map[string]int64
			Entries              map[string]struct {
				Retries, Hedges int64
				Denied          map[string]int64
			}
			Explain []struct{ Key, Value, From string }
		}
	}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &got))
	assert.Equal(t, "checkout", got.Service)
	want := l.Totals()
	equalNumbers(t, want, got.Totals)
	require.Len(t, got.Dependencies, 2)
	for i, name := range []string{"payments", "stock"} {
		assert.Equal(t, name, got.Dependencies[i].Name)
		equalNumbers(t, want.Dependencies[name], got.Dependencies[i].Totals)
	}
	payments := want.Dependencies["payments"]
	assert.EqualValues(t, 3, payments.Retries)
	assert.Equal(t, map[string]map[string]int64{"payments": payments.Claims}, got.Dependencies[0].Owners)
	require.Len(t, got.Dependencies[0].Entries, 1)
	chains := got.Dependencies[0].Entries["checkout"]
	assert.Equal(t, payments.Retries, chains.Retries)
	assert.Equal(t, payments.Denied, chains.Denied)
	assert.Equal(t, "team-ledger", got.Dependencies[0].Owner)
	dep, err := l.Dependency("payments", "")
	require.NoError(t, err)
	explained := dep.Explain()
	require.Len(t, got.Dependencies[0].Explain, len(explained.Lines))
	for i, line := range explained.Lines {
		assert.Equal(t, line.Key, got.Dependencies[0].Explain[i].Key)
		assert.Equal(t, line.From, got.Dependencies[0].Explain[i].From)
	}
}

// equalNumbers compares what encoding/json makes of a struct with the page's names for its fields.
func equalNumbers(t *testing.T, want any, got map[string]any) {
	t.Helper()
	text, err := json.Marshal(want)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(text, &fields))
	delete(fields, "Dependencies")
	assert.Len(t, got, len(fields))
	for name, value := range fields {
		snake := strings.ToLower(regexp.MustCompile(`(.)([A-Z])`).ReplaceAllString(name, "${1}_$2"))
		assert.Equal(t, value, got[snake], snake)
	}
}

func TestDebugHandler_answers(t *testing.T) {
	l := newLive(t, liveCatalog)
	require.NoError(t, l.do("payments", 1))
	for name, c := range map[string]struct {
		method, target, accept, kind string
		status                       int
	}{
		"html_by_default":       {"GET", "/", "", "text/html; charset=utf-8", 200},
		"html_for_a_browser":    {"GET", "/", "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8", "text/html; charset=utf-8", 200},
		"json_by_accept":        {"GET", "/x", "application/json", "application/json", 200},
		"json_by_query":         {"GET", "/?format=json", "text/html", "application/json", 200},
		"html_by_query":         {"GET", "/?format=html", "application/json", "text/html; charset=utf-8", 200},
		"head":                  {"HEAD", "/", "", "text/html; charset=utf-8", 200},
		"no_post":               {"POST", "/", "", "text/plain; charset=utf-8", 405},
		"no_delete":             {"DELETE", "/", "", "text/plain; charset=utf-8", 405},
		"unknown_window":        {"GET", "/?window=1y", "", "text/html; charset=utf-8", 200},
		"unknown_dependency":    {"GET", "/?dependency=nobody", "", "text/html; charset=utf-8", 200},
		"a_query_that_is_wrong": {"GET", "/?%zz;=&dependency=%ff", "", "text/html; charset=utf-8", 200},
	} {
		t.Run(name, func(t *testing.T) {
			answer := ask(l.page, c.method, c.target, "Accept", c.accept)
			assert.Equal(t, c.status, answer.Code)
			assert.Equal(t, c.kind, answer.Header().Get("Content-Type"))
			assert.Equal(t, "no-store", answer.Header().Get("Cache-Control"))
			assert.Equal(t, "nosniff", answer.Header().Get("X-Content-Type-Options"))
			if strings.HasPrefix(c.kind, "text/html") {
				policy := answer.Header().Get("Content-Security-Policy")
				assert.Contains(t, policy, "default-src 'none'")
				assert.Contains(t, policy, "frame-ancestors 'none'")
				assert.NotContains(t, policy, "unsafe")
				wellFormed(t, answer.Body.String())
			}
			if c.status == 405 {
				assert.Equal(t, "GET, HEAD", answer.Header().Get("Allow"))
			}
		})
	}
	assert.NotContains(t, ask(l.page, "GET", "/").Body.String(), "<form", "it changes nothing")
}

// TestDebugHandler_without_an_sdk says so.
func TestDebugHandler_without_an_sdk(t *testing.T) {
	for _, sdk := range []*chainbudget.SDK{nil, new(chainbudget.SDK)} {
		for _, h := range []http.Handler{sdk.DebugHandler(), sdk.SwitchHandler()} {
			answer := ask(h, "GET", "/")
			assert.Equal(t, http.StatusOK, answer.Code)
			assert.Contains(t, wellFormed(t, answer.Body.String()), "made without an SDK")
			assert.NotContains(t, answer.Body.String(), "<form")
			assert.True(t, json.Valid(ask(h, "GET", "/?format=json").Body.Bytes()))
		}
		assert.Equal(t, http.StatusServiceUnavailable, turn(sdk.SwitchHandler(), "payments", "disabled").Code)
	}
}

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "\u202e\x00\xff"

// TestDebugHandler_hostile_names are text.
func TestDebugHandler_hostile_names(t *testing.T) {
	l := newLive(t, liveCatalog)
	require.Error(t, l.do(hostile, 3))
	text := wellFormed(t, ask(l.page, "GET", "/").Body.String())
	assert.Contains(t, text, "<script>alert(1)</script>")
	wellFormed(t, ask(l.page, "GET", "/?dependency=%22%3E%3Cscript%3Ealert(3)%3C/script%3E").Body.String())
	wellFormed(t, ask(l.SwitchHandler(), "GET", "/").Body.String())
	assert.True(t, json.Valid(ask(l.page, "GET", "/?format=json").Body.Bytes()))
}

// TestDebugHandler_is_bounded whatever there is to show, and says what it leaves out.
func TestDebugHandler_is_bounded(t *testing.T) {
	l := newLive(t, liveCatalog)
	for i := range 230 {
		require.NoError(t, l.do("d"+strings.Repeat("x", i), 0))
	}
	busy := "d" + strings.Repeat("x", 229)
	require.NoError(t, l.do(busy, 1))
	answer := ask(l.page, "GET", "/").Body.String()
	assert.Contains(t, wellFormed(t, answer), "And 30 more")
	assert.Equal(t, 200, strings.Count(answer, `scope="row"><a href="?dependency=`))
	assert.Contains(t, answer, busy, "the busiest are shown")
	assert.Less(t, len(answer), 1<<20)
	one := ask(l.page, "GET", "/?dependency=dx").Body.String()
	assert.Contains(t, one, "Effective settings of dx")
}

// TestDebugHandler_recent_decisions come with their chain, and a flood of refusals does not push the retries out.
func TestDebugHandler_recent_decisions(t *testing.T) {
	l := newLive(t, liveCatalog)
	require.NoError(t, l.do("payments", 1))
	for range 150 {
		_ = l.do("payments", 1<<30)
	}
	var got struct {
		Retries []map[string]any `json:"recent_retries"`
		Denials []map[string]any `json:"recent_denials"`
	}
	require.NoError(t, json.Unmarshal(ask(l.page, "GET", "/?format=json").Body.Bytes(), &got))
	assert.Len(t, got.Denials, 100)
	assert.NotEmpty(t, got.Retries)
	first := got.Retries[len(got.Retries)-1]
	assert.Equal(t, "payments", first["dependency"])
	assert.Equal(t, "allowed", first["reason"])
	assert.Equal(t, "checkout", first["entry"])
	assert.EqualValues(t, 1, first["attempt"])
	assert.EqualValues(t, 0, first["hop"])
	assert.Equal(t, "missing", first["claim"])
	assert.Equal(t, "payments", first["owner"])
	var at []string
	for _, d := range got.Denials {
		at = append(at, d["at"].(string))
		assert.Contains(t, []any{ownership.ReasonDependencyBudget.String(), ownership.ReasonMaxAttempts.String()}, d["reason"])
	}
	for i := 1; i < len(at); i++ {
		assert.GreaterOrEqual(t, at[i-1], at[i], "the latest first")
	}
}

// TestDebugHandler_history has the counts of each second.
func TestDebugHandler_history(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFS(mapFS(liveCatalog), "c.yaml"))
		require.NoError(t, err)
		l := &live{sdk, t, nil}
		require.NoError(t, l.do("payments", 1)) // before anybody watched
		l.page = sdk.DebugHandler()
		type series struct{ Attempts, Failures, Retries, Denials []int64 }
		read := func(window string) (h struct {
			All          series
			Dependencies map[string]series
		}) {
			var page struct{ History json.RawMessage }
			require.NoError(t, json.Unmarshal(ask(l.page, "GET", "/?format=json&window="+window).Body.Bytes(), &page))
			require.NoError(t, json.Unmarshal(page.History, &h))
			return h
		}
		assert.Empty(t, read("2m").All.Attempts)
		time.Sleep(500 * time.Millisecond)
		for second := range 7 {
			for range second {
				require.NoError(t, l.do("payments", 0))
			}
			if second == 3 {
				require.NoError(t, l.do("stock", 1))
				require.Error(t, l.do("stock", 3))
			}
			time.Sleep(time.Second)
		}
		h := read("2m")
		assert.Equal(t, series{[]int64{0, 1, 2, 8, 4, 5, 6}, []int64{0, 0, 0, 4, 0, 0, 0}, []int64{0, 0, 0, 3, 0, 0, 0}, []int64{0, 0, 0, 1, 0, 0, 0}}, h.All)
		assert.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6}, h.Dependencies["payments"].Attempts)
		assert.Equal(t, []int64{0, 0, 0, 5, 0, 0, 0}, h.Dependencies["stock"].Attempts)
		assert.Equal(t, []int64{15}, read("10m").All.Attempts, "only steps that are over")
		assert.Equal(t, 6, strings.Count(ask(l.page, "GET", "/").Body.String(), "<polyline class=\"attempts")+
			strings.Count(ask(l.page, "GET", "/").Body.String(), "<polyline class=\"retries"), "of all, and of each dependency")
		assert.Equal(t, 2, strings.Count(ask(l.page, "GET", "/?dependency=stock").Body.String(), "<figure"), "its plots, once")
		time.Sleep(20 * time.Minute)
		h = read("10m")
		assert.Len(t, h.All.Attempts, 120)
		assert.Len(t, read("2m").All.Attempts, 120)
		for _, n := range h.All.Attempts {
			assert.Zero(t, n)
		}
		require.NoError(t, sdk.Close())
		sdk.DebugHandler() // after the end it starts nothing
		require.NoError(t, sdk.Close())
	})
}

// TestDebugHandler_says_what_needs_attention first.
func TestDebugHandler_says_what_needs_attention(t *testing.T) {
	l := newLive(t, "version: 1\nchain: {process_budget: 1, mode: budget}\nprofiles: {quick: {extends: read-heavy, backoff: {base: 1ms, throttled_base: 1ms, cap: 1ms}, "+
		"breaker: {min_requests: 2}, availability_floor: 90%, budget: {burst: 1}}}\n"+
		"dependencies: {payments: {profile: quick, mode: enforce}, stock: {profile: quick}}\noverrides: {dependencies: {stock: {retries: disabled}}}\n")
	before := wellFormed(t, ask(l.page, "GET", "/").Body.String())
	assert.Contains(t, before, "Requests arrive in mode budget.")
	assert.NotContains(t, before, "payments")
	require.NoError(t, l.do("stock", 0))
	for range 25 {
		_ = l.do("payments", 1<<30)
	}
	text := wellFormed(t, ask(l.page, "GET", "/").Body.String())
	for _, line := range []string{
		"The retries of this minute are used up: 1 of 1 for the whole process.", "Calls to payments are made in mode enforce.",
		"The breaker of payments is open.", "The retry budget of payments is used up.", "Retries to stock are disabled by the catalog.",
		"Retries of the whole process in this minute: 1 of 1.",
	} {
		assert.Contains(t, text, line)
	}
}

// TestDebugHandler_after_the_end shows what there was, and begins nothing: TestMain finds the goroutines that are left.
func TestDebugHandler_after_the_end(t *testing.T) {
	sdk, err := chainbudget.New("checkout")
	require.NoError(t, err)
	require.NoError(t, sdk.Close())
	assert.Equal(t, http.StatusOK, ask(sdk.DebugHandler(), "GET", "/").Code)
}

// TestDebugHandler_under_traffic, with the race detector.
func TestDebugHandler_under_traffic(t *testing.T) {
	l := newLive(t, liveCatalog)
	var traffic, readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		traffic.Go(func() {
			for i := range 200 {
				_ = l.do("payments", i%4)
			}
		})
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				assert.True(t, json.Valid(ask(l.page, "GET", "/?format=json").Body.Bytes()))
				wellFormed(t, ask(l.page, "GET", "/").Body.String())
				turn(l.SwitchHandler(), "payments", "enabled")
			}
		})
	}
	traffic.Wait()
	close(done)
	readers.Wait()
	assert.EqualValues(t, 800, l.Totals().Dependencies["payments"].Calls)
}
