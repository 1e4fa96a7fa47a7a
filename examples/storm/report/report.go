package report

import (
	"bytes"
	_ "embed" // the page and the chart library
	"encoding/json"
	"fmt"
	"html/template"
	"os"

	"github.com/chainbudget/chainbudget-go/examples/storm/chain"
	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

// Data is what a report shows. Incident may be nil.
type Data struct {
	Chains   []chain.Result
	Incident *incident.Result
	Warnings []string
	Complete bool
}

//go:embed page.html
var pageText string

//go:embed page.css
var style string

//go:embed page.js
var script string

// library is Apache ECharts 6.1.0, its common build; see the licences beside it.
//
//go:embed asset/echarts.common.min.js
var library string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"perRoot": func(c chain.Count, node int) string { return chain.Short(c.PerRoot(node)) },
	"ms":      milliseconds,
}).Parse(pageText))

// milliseconds writes a p95; 0 is none.
func milliseconds(ms float64) string {
	if ms == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", ms)
}

// view is what the page is made of.
type view struct {
	Data
	Cards   []card
	Charts  []chart // of the chains, beside Chains
	Pairs   []pair
	Strips  [2][]strip // of before and after
	Style   template.CSS
	Library template.JS
	Script  template.JS
	Options template.JS
}

// card is one number worth seeing first.
type card struct{ What, Before, After, Note string }

// chart is one place for a chart and what it shows, for those who do not see it.
type chart struct{ ID, Title, Label string }

// pair is the same chart of both runs.
type pair struct {
	Title, Note   string
	Before, After chart
}

// Render returns the report.
func Render(d Data) ([]byte, error) {
	v := view{Data: d, Style: template.CSS(style), Library: template.JS(library), Script: template.JS(script)}
	options := map[string]any{}
	for i := range d.Chains {
		c := chart{ID: fmt.Sprintf("chain-%d", i), Title: d.Chains[i].Title, Label: chainLabel(&d.Chains[i])}
		v.Charts = append(v.Charts, c)
		options[c.ID] = chainChart(&d.Chains[i])
	}
	if d.Incident != nil {
		v.Cards = cards(d.Incident)
		v.Strips = [2][]strip{strips(d.Incident, &d.Incident.Before), strips(d.Incident, &d.Incident.After)}
		for _, kind := range timelines {
			p := pair{Title: kind.title, Note: kind.note}
			top := max(kind.top(&d.Incident.Before), kind.top(&d.Incident.After))
			for _, one := range []struct {
				side *incident.Side
				to   *chart
			}{{&d.Incident.Before, &p.Before}, {&d.Incident.After, &p.After}} {
				*one.to = chart{
					ID: kind.id + "-" + one.side.Name, Title: kind.title + ", " + one.side.Name,
					Label: fmt.Sprintf("%s, %s. Highest value %.4g. The table of the timeline has the numbers.", kind.title, one.side.Name, kind.top(one.side)),
				}
				options[one.to.ID] = kind.chart(d.Incident, one.side, top)
			}
			v.Pairs = append(v.Pairs, p)
		}
	}
	text, err := json.Marshal(options) // escapes <, > and &, so that it may stand in a script
	if err != nil {
		return nil, err
	}
	v.Options = template.JS(text)
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Write writes the report into a file.
func Write(path string, d Data) error {
	text, err := Render(d)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

func cards(r *incident.Result) []card {
	b, a := &r.Before, &r.After
	return []card{
		{"Load on the ledger, busiest second", fmt.Sprintf("%.1f×", b.Summary.LoadPeak), fmt.Sprintf("%.1f×", a.Summary.LoadPeak), "of the baseline"},
		{"Load while the fault lasts", fmt.Sprintf("%.1f×", b.Summary.LoadMean), fmt.Sprintf("%.1f×", a.Summary.LoadMean), "of the baseline, on average"},
		{"Retries that reached the ledger", fmt.Sprint(b.Ledger.Retries), fmt.Sprint(a.Ledger.Retries), "the same payment again"},
		{"Writes rejected because of a retry", fmt.Sprint(b.Ledger.RejectedForRetry), fmt.Sprint(a.Ledger.RejectedForRetry), "queue full, retries inside"},
		{"Payments made", fmt.Sprint(made(b)), fmt.Sprint(made(a)), fmt.Sprintf("of %d and %d asked for", asked(b), asked(a))},
	}
}

func made(s *incident.Side) (n int64) {
	for _, one := range s.Services {
		n += one.OK
	}
	return n
}

func asked(s *incident.Side) (n int64) {
	for _, one := range s.Services {
		n += one.Received
	}
	return n
}
