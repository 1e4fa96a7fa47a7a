package live_test

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/chainbudget/chainbudget-go/examples/storm/chain"
	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
	"github.com/chainbudget/chainbudget-go/examples/storm/report"
)

// TestReport_in_a_browser: the demo's report draws its charts without an error, asks nobody for anything, and fits a phone.
func TestReport_in_a_browser(t *testing.T) {
	t.Parallel()
	side := func(name string) incident.Side {
		s := incident.Side{Name: name, Services: []incident.ServiceCounts{{Name: "grab", Received: 700, OK: 600}, {Name: "go", Received: 500, OK: 400}}}
		for i := range 24 {
			s.Ticks = append(s.Ticks, incident.Tick{
				At: float64(i) / 4, Offered: 50, Load: 50 + 40*(i%7), Retries: 40 * (i % 7), Served: 50 - 5*(i%7), P95: 20 + 300*float64(i%7), P95OK: 20,
				Breakers: map[string]string{"grab": "none", "go": "closed"},
			})
		}
		return s
	}
	page, err := report.Render(report.Data{
		Complete: true, Warnings: []string{"chainbudget: a warning with-a-word-that-is-much-too-long-for-the-small-window-of-a-telephone-in-the-dark"},
		Chains: []chain.Result{{
			Title: "Three services", Nodes: []string{"A", "B", "C"}, Failing: "C",
			Counts: []chain.Count{
				{Policy: "naive", Note: "every hop retries up to 2 times", Roots: 2, Requests: []int64{2, 6, 18}, Total: 26},
				{Policy: "this SDK", Note: "one chain budget of 3", Roots: 2, Requests: []int64{2, 2, 4}, Total: 8},
			},
		}},
		Incident: &incident.Result{
			Rate: 200, Workers: 5, Seconds: 6, FaultFrom: 2, FaultTo: 4, Complete: true, Before: side("before"), After: side("after"),
			Targets: []incident.Target{{What: "before: load on the ledger, busiest second", Want: "about 4 x the baseline", Got: "4.04 x", Met: true}},
		},
	})
	must(t, err)
	address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }))
	b := open(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			b.look(width, scheme)
			b.do(chromedp.Navigate(address))
			b.until(`[...document.querySelectorAll(".chart")].every((c) => c.querySelector("svg path"))`, "charts")
			equal(t, "", b.sideways(), "wider than %d px", width)
			b.shoot("report-"+scheme, width)
		}
	}
	b.quiet(address)
}
