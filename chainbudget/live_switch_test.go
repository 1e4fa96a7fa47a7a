package chainbudget_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

func mapFS(catalog string) fstest.MapFS { return fstest.MapFS{"c.yaml": {Data: []byte(catalog)}} }

func post(h http.Handler, kind, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://admin.internal/switch", strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func turn(h http.Handler, dependency, retries string) *httptest.ResponseRecorder {
	return post(h, "application/x-www-form-urlencoded", url.Values{"dependency": {dependency}, "retries": {retries}}.Encode())
}

func retriesLine(t *testing.T, sdk *chainbudget.SDK, name string) (value, from string) {
	t.Helper()
	dep, _ := sdk.Dependency(name, "") // the error is that nobody names a profile here
	require.NotNil(t, dep)
	for _, l := range dep.Explain().Lines {
		if l.Key == "retries" {
			return l.Value, l.From
		}
	}
	t.Fatal("retries are not explained")
	return "", ""
}

// TestSwitchHandler_stops_calls_that_wait, one dependency's and then all, until it is turned back.
func TestSwitchHandler_stops_calls_that_wait(t *testing.T) {
	s := newSwitched(t)
	h := s.SwitchHandler()
	best := map[string]time.Duration{"payments": time.Hour, "stock": time.Hour}
	for round := 0; round < 5 && (best["payments"] >= time.Second || best["stock"] >= time.Second); round++ { // the machine may have other work
		payments, stock := make(chan answer, switchedCalls), make(chan answer, switchedCalls)
		s.wait("payments", payments)
		s.wait("stock", stock)
		begin := time.Now()
		assert.Equal(t, http.StatusSeeOther, turn(h, "payments", "disabled").Code)
		best["payments"] = min(best["payments"], s.ended("payments", payments, begin))
		assert.Empty(t, stock, "the others wait")
		begin = time.Now()
		assert.Equal(t, http.StatusSeeOther, turn(h, "all", "disabled").Code)
		best["stock"] = min(best["stock"], s.ended("stock", stock, begin))
		turn(h, "all", "catalog")
	}
	t.Logf("in force after %v", best)
	assert.Less(t, best["payments"], time.Second, "one dependency")
	assert.Less(t, best["stock"], time.Second, "all")
	s.pause.Store("")
	s.call("payments")
	assert.EqualValues(t, 2, s.Totals().Dependencies["payments"].Retries, "it retries again")
}

// retries makes a call that fails, and reports whether it was retried.
func (s *switched) retries(name string) bool {
	s.t.Helper()
	before := s.Totals().Dependencies[name]
	s.call(name)
	after := s.Totals().Dependencies[name]
	disabled := after.Denied["disabled"] > before.Denied["disabled"]
	assert.NotEqual(s.t, disabled, after.Retries > before.Retries, name)
	return !disabled
}

// TestSwitchHandler_and_the_catalog: a reload does not undo a turn, and each side is named.
func TestSwitchHandler_and_the_catalog(t *testing.T) {
	s := newSwitched(t)
	s.pause.Store("")
	h := s.SwitchHandler()
	reload := func(overrides string) {
		before := s.Catalog().Generation
		put(t, s.path, switchedCatalog(overrides))
		s.generation(before + 1)
	}
	assert.Equal(t, http.StatusSeeOther, turn(h, "payments", "disabled").Code)
	reload("chain: {budget: 4}\n")
	value, from := retriesLine(t, s.SDK, "payments")
	assert.Equal(t, "disabled", value, "a reload does not undo it")
	assert.False(t, s.retries("payments"))
	assert.True(t, s.retries("stock"))
	assert.Contains(t, from, "switched in this process at ")
	assert.Contains(t, from, "the catalog says enabled")
	_, from = retriesLine(t, s.SDK, "stock")
	assert.NotContains(t, from, "process")

	reload("overrides: {dependencies: {stock: {retries: disabled}}}\n")
	assert.Equal(t, http.StatusSeeOther, turn(h, "stock", "enabled").Code)
	value, from = retriesLine(t, s.SDK, "stock")
	assert.Equal(t, "enabled", value)
	assert.Contains(t, from, "the catalog says disabled")
	assert.True(t, s.retries("stock"))
	page := ask(s.DebugHandler(), "GET", "/").Body.String()
	assert.Contains(t, wellFormed(t, page), "The catalog disables retries to stock, and this process has them enabled.")

	assert.Equal(t, http.StatusSeeOther, turn(h, "all", "catalog").Code, "ends the turns for one")
	value, from = retriesLine(t, s.SDK, "stock")
	assert.Equal(t, "disabled", value)
	assert.NotContains(t, from, "process")
	value, _ = retriesLine(t, s.SDK, "payments")
	assert.Equal(t, "enabled", value)

	assert.Equal(t, http.StatusSeeOther, turn(h, "all", "disabled").Code)
	later, err := s.Dependency("later", "patient")
	require.NoError(t, err)
	s.client["later"] = &http.Client{Transport: budgethttp.NewTransport(nil, later)}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	assert.False(t, s.retries("later"))
	value, _ = retriesLine(t, s.SDK, "later")
	assert.Equal(t, "disabled", value, "all are those to come, too")
}

func TestSwitchHandler_refuses(t *testing.T) {
	l := newLive(t, liveCatalog)
	h := l.SwitchHandler()
	const form, object = "application/x-www-form-urlencoded", "application/json"
	good := `{"dependency":"payments","retries":"disabled"}`
	for name, c := range map[string]struct {
		kind, body string
		headers    []string
		status     int
	}{
		"another_origin":       {form, "dependency=payments&retries=disabled", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"a_sibling_origin":     {form, "dependency=payments&retries=disabled", []string{"Sec-Fetch-Site", "same-site"}, 403},
		"another_host":         {object, good, []string{"Origin", "https://evil.example"}, 403},
		"an_unknown_name":      {form, "dependency=nobody&retries=disabled", nil, 404},
		"no_name":              {form, "retries=disabled", nil, 404},
		"an_unknown_word":      {form, "dependency=payments&retries=off", nil, 400},
		"no_word":              {form, "dependency=payments", nil, 400},
		"plain_text":           {"text/plain", good, nil, 415},
		"nothing_said":         {"", good, nil, 415},
		"broken_json":          {object, good[:20], nil, 400},
		"two_objects":          {object, good + good, nil, 400},
		"unknown_keys":         {object, `{"dependency":"payments","retries":"disabled","until":"noon"}`, nil, 400},
		"too_much":             {form, "dependency=payments&retries=disabled&x=" + strings.Repeat("x", 5000), nil, 400},
		"a_broken_form":        {form, "dependency=%zz&retries=disabled", nil, 400},
		"a_form_of_many_parts": {"multipart/form-data; boundary=x", good, nil, 415},
	} {
		t.Run(name, func(t *testing.T) {
			answer := post(h, c.kind, c.body, c.headers...)
			assert.Equal(t, c.status, answer.Code, answer.Body.String())
			value, _ := retriesLine(t, l.SDK, "payments")
			assert.Equal(t, "enabled", value)
		})
	}
	query := httptest.NewRequest(http.MethodPost, "/?dependency=payments&retries=disabled", nil)
	query.Header.Set("Content-Type", form)
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, query)
	assert.Equal(t, http.StatusBadRequest, answer.Code, "a link has no say")
	assert.Equal(t, http.StatusMethodNotAllowed, ask(h, "PUT", "/").Code)
	assert.Equal(t, http.StatusMethodNotAllowed, post(l.page, object, good).Code, "the page itself has no switch")
}

func TestSwitchHandler_answers(t *testing.T) {
	journal := journaled(t)
	l := newLive(t, liveCatalog)
	h := l.SwitchHandler()
	answer := post(h, "application/json; charset=utf-8", `{"dependency":"payments","retries":"disabled"}`)
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.JSONEq(t, `{"dependency":"payments","retries":"disabled"}`, answer.Body.String())
	require.NoError(t, l.do("payments", 0))
	require.Error(t, l.do("payments", 1))
	assert.EqualValues(t, 1, l.Totals().Dependencies["payments"].Denied["disabled"])
	assert.Contains(t, journal.String(), "retries were switched at run time")

	answer = post(h, "application/x-www-form-urlencoded", "dependency=payments&retries=disabled", "Sec-Fetch-Site", "same-origin")
	assert.Equal(t, http.StatusSeeOther, answer.Code)
	assert.Equal(t, "?", answer.Header().Get("Location"), "the page itself, wherever it is mounted")
	page := ask(h, "GET", "/").Body.String()
	assert.Contains(t, page, `<form method="post" action="?"`)
	text := wellFormed(t, page)
	assert.Contains(t, text, "Retries to payments are disabled by a turn of the switch in this process.")
	var shown struct {
		Dependencies []struct {
			Retries struct {
				State, By, Catalog string
				Since              time.Time
			}
		}
	}
	require.NoError(t, json.Unmarshal(ask(l.page, "GET", "/?format=json").Body.Bytes(), &shown))
	assert.Equal(t, "disabled", shown.Dependencies[0].Retries.State)
	assert.Equal(t, "runtime", shown.Dependencies[0].Retries.By)
	assert.Equal(t, "enabled", shown.Dependencies[0].Retries.Catalog)
	assert.WithinDuration(t, time.Now(), shown.Dependencies[0].Retries.Since, patient)
}

// What the page offers can be turned and followed, whatever the name. Once a name that the page had to cut or to replace
// could not be turned by its own buttons.
func TestRegression_SwitchHandler_turns_what_its_page_offers(t *testing.T) {
	long := strings.Repeat("x", 400)
	offers := regexp.MustCompile(`name="dependency" value="([^"]*)"`)
	links := regexp.MustCompile(`href="(\?dependency=[^"]*)"`)
	for _, name := range []string{"payments", long, "a\xffb", "a\x00b", "a\nb", "a\rb", " a ", "a&b=c;d+e#\"'<é>"} {
		l := newLive(t, liveCatalog)
		require.NoError(t, l.do(name, 0))
		page := ask(l.SwitchHandler(), "GET", "/").Body.String()
		offered := offers.FindAllStringSubmatch(page, -1)
		require.Len(t, offered, 2, "all, and the dependency")
		asBrowsersDo := strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n").Replace(html.UnescapeString(offered[1][1]))
		require.Equal(t, http.StatusSeeOther, turn(l.SwitchHandler(), asBrowsersDo, "disabled").Code, "%q", name)
		value, _ := retriesLine(t, l.SDK, name)
		assert.Equal(t, "disabled", value, "%q", name)
		link := links.FindStringSubmatch(page)
		require.NotEmpty(t, link, "%q", name)
		assert.Contains(t, ask(l.page, "GET", "/"+html.UnescapeString(link[1])).Body.String(), "Effective settings of", "%q", name)
	}
	l := newLive(t, liveCatalog)
	require.NoError(t, l.do(long+"1", 0))
	require.NoError(t, l.do(long+"2", 0))
	assert.Equal(t, http.StatusNotFound, turn(l.SwitchHandler(), long[:300]+"…", "disabled").Code, "it could be either")
}
