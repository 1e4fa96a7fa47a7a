package live_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/examples/live"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dependencies = "dependencies-t"

// columns are the numbers of the page that Totals has, too.
func columns(d chainbudget.DependencyTotals) map[string]int64 {
	return map[string]int64{
		"calls": d.Calls, "attempts": d.Attempts, "failed": sum(d.Claims), "retried": d.Retries, "hedged": d.Hedges, "denied": sum(d.Denied),
	}
}

func sum(m map[string]int64) (n int64) {
	for _, one := range m {
		n += one
	}
	return n
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	must(t, err)
	return n
}

// The rows and cells of the page that tests wait for.
const (
	answered = `document.querySelector("#inbound-t tbody tr:nth-child(2) data").value`
	readAt   = `document.querySelector("#facts time:last-of-type").textContent`
	attempts = `document.querySelector("#rates-plots polyline.attempts")`
)

// TestPage_in_a_browser_during_a_storm: the numbers are those of the SDK and of the servers, the plots move by themselves,
// the page asks nobody else for anything, and it can be read on a phone and in the dark.
func TestPage_in_a_browser_during_a_storm(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	b := open(t)
	address := s.admin + "/debug/chainbudget"
	b.look(1280, "light")
	b.do(chromedp.Navigate(address))
	s.begin()
	defer s.end()

	// It fetches by itself: what was put on the page stays.
	b.js(`document.title = "mine"`)
	b.until(`(`+attempts+`?.points.length ?? 0) >= 5`, "a plot with points")
	b.until(`[...document.querySelectorAll("#rates-plots polyline")].every((l) => new Set([...l.points].map((p) => p.y)).size > 2)`, "plots that move")
	equal(t, "mine", ask[string](b, "document.title"), "it was not loaded again")

	// In the storm: what is shown was counted between before and after.
	before := s.cart.Totals()
	b.do(chromedp.Navigate(address))
	shown := b.table(dependencies)
	after := s.cart.Totals()
	equal(t, 3, len(shown), "dependencies")
	for name, row := range shown {
		low, high := columns(before.Dependencies[name]), columns(after.Dependencies[name])
		for column := range low {
			n := number(t, row[column])
			holds(t, low[column] <= n && n <= high[column], "%s %s: %d is between %d and %d", name, column, n, low[column], high[column])
		}
	}
	equal(t, "open", strings.Fields(shown["search"]["breaker"])[0], "the breaker of what is down")
	equal(t, "payments search stock", ask[string](b, `[...document.querySelectorAll("#each h3")].map((h) => h.firstChild.textContent.trim()).join(" ")`), "each dependency")
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			b.look(width, scheme)
			b.do(chromedp.Navigate(address))
			equal(t, "", b.sideways(), "wider than %d px", width)
			b.shoot("page-"+scheme, width)
		}
	}

	// After the storm: exactly, and without a reload.
	b.js(`document.title = "mine"`)
	s.end()
	totals := s.cart.Totals()
	b.until(answered+` === "`+strconv.FormatInt(totals.Callees, 10)+`"`, "the last request")
	shown = b.table(dependencies)
	for name, row := range shown {
		for column, want := range columns(totals.Dependencies[name]) {
			equal(t, want, number(t, row[column]), "%s %s", name, column)
		}
		equal(t, s.received[name].Load(), number(t, row["attempts"]), "what the server of %s has counted", name)
	}
	for id, of := range map[string]func(chainbudget.DependencyTotals) map[string]int64{
		"denied-t": func(d chainbudget.DependencyTotals) map[string]int64 { return d.Denied },
		"claims-t": func(d chainbudget.DependencyTotals) map[string]int64 { return d.Claims },
	} {
		rows := b.table(id)
		for name, d := range totals.Dependencies {
			for word, want := range of(d) {
				equal(t, want, number(t, rows[name][word]), "%s %s %s", id, name, word)
			}
		}
	}
	owners := b.table("owners-t")
	equal(t, totals.Dependencies["search"].Claims["claimed"], number(t, owners["search"]["claimed"]), "failures that search owns")
	entries := ask[[]string](b, `[...document.querySelectorAll("#entries-t tbody th")].map((h) => h.textContent)`)
	holds(t, slices.Contains(entries, "other"), "chains of checkout, which the catalog does not name: %q", entries)
	_, found := b.table("callers-t")["checkout"]
	holds(t, found, "checkout, which has edited the catalog, is among the callers")
	holds(t, strings.Contains(ask[string](b, `document.querySelector("#edges-t tbody").textContent`), "GET /cart/{id}"), "the edges name the route")
	equal(t, 100, ask[int](b, `document.querySelectorAll("#recent-retries-t tbody tr").length`), "recent retries")
	equal(t, "mine", ask[string](b, "document.title"), "it was not loaded again")
	b.quiet(s.admin)
}

// TestPage_without_javascript has the same tables and plots.
func TestPage_without_javascript(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	b := open(t)
	address := s.admin + "/debug/chainbudget"
	b.do(chromedp.Navigate(address))
	for range 40 {
		s.send()
	}
	b.until(`(`+attempts+`?.points.length ?? 0) >= 2`, "seconds that were sampled")
	send(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(chromedp.Navigate(address))
	holds(t, ask[bool](b, `document.getElementById("pause").hidden`), "there is no button that would do nothing")
	for name, d := range s.cart.Totals().Dependencies {
		equal(t, d.Attempts, number(t, b.table(dependencies)[name]["attempts"]), "attempts of %s", name)
		equal(t, s.received[name].Load(), d.Attempts, "what the server of %s has counted", name)
	}
	holds(t, ask[int](b, attempts+`.points.length`) >= 2, "the plot has points")
	b.quiet(s.admin)
}

// TestPage_controls: pausing stops the fetching, a service that has gone is told of in words, and what was opened, scrolled
// and focused stays.
func TestPage_controls(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	b := open(t)
	b.look(390, "light")
	b.do(chromedp.Navigate(s.admin + "/debug/chainbudget"))
	s.send()
	b.until(`document.getElementById("each-0-d") !== null`, "dependencies")
	b.js(`document.getElementById("each-0-d").open = true; document.getElementById("dependencies-w").scrollLeft = 60;
		document.querySelector("#dependencies-t a").focus()`)
	fresh := func() { // waits for the numbers of a new request
		t.Helper()
		s.send()
		b.until(answered+` === "`+strconv.FormatInt(s.cart.Totals().Callees, 10)+`"`, "the new request")
	}
	fresh()
	holds(t, ask[bool](b, `document.getElementById("each-0-d").open`), "what was opened is open")
	equal(t, 60, ask[int](b, `document.getElementById("dependencies-w").scrollLeft`), "the table's place")
	equal(t, "payments", ask[string](b, `document.activeElement.textContent`), "the focus")
	b.shoot("page-open", 390)

	b.do(chromedp.Click(chromedp.CSS("#pause")))
	equal(t, "true", ask[string](b, `document.getElementById("pause").getAttribute("aria-pressed")`), "the button")
	b.js(`new Promise((done) => setTimeout(done, 500))`) // an answer that was on its way
	at := ask[string](b, readAt)
	s.send()
	b.js(`new Promise((done) => setTimeout(done, 2600))`)
	equal(t, at, ask[string](b, readAt), "paused")
	b.do(chromedp.Click(chromedp.CSS("#pause")))
	fresh()

	b.js(`window.fetch = () => Promise.reject(new TypeError("gone"))`)
	b.until(`document.getElementById("state").textContent.includes("no connection. Trying again.")`, "words about it")
	b.quiet(s.admin)
}

// TestSwitch_in_a_browser: without the password there is no switch, with it a button turns one dependency's retries off.
func TestSwitch_in_a_browser(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	for path, status := range map[string]int{"/debug/chainbudget/switch": http.StatusUnauthorized, "/debug/chainbudget": http.StatusMethodNotAllowed} {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("dependency=payments&retries=disabled"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		live.Admin(s.cart, password).ServeHTTP(w, r)
		equal(t, status, w.Code, "POST %s", path)
	}
	b := open(t)
	b.login()
	s.send()
	b.look(390, "light")
	address := s.admin + "/debug/chainbudget/switch"
	b.do(chromedp.Navigate(address))
	state := `document.querySelector("#dependencies-t tbody tr .badge").textContent`
	equal(t, "enabled", ask[string](b, state), "before")
	b.do(chromedp.Click(chromedp.CSS(`#switch form:nth-of-type(2) button[value=disabled]`)))
	b.until(state+` === "disabled"`, "the turn")
	equal(t, address+"?", ask[string](b, "location.href"), "it leads back to the page")
	holds(t, strings.Contains(ask[string](b, `document.getElementById("attention").textContent`),
		"Retries to payments are disabled by a turn of the switch in this process."), "the page says who did it")
	equal(t, "", b.sideways(), "wider than the window")
	for _, scheme := range []string{"light", "dark"} {
		b.look(390, scheme)
		b.shoot("switch-"+scheme, 390)
	}
	retries := s.cart.Totals().Dependencies["payments"].Retries
	for range 10 {
		s.send()
	}
	equal(t, retries, s.cart.Totals().Dependencies["payments"].Retries, "retries since")
	holds(t, s.cart.Totals().Dependencies["payments"].Denied["disabled"] > 0, "it is counted")
	b.quiet(s.admin)
}
