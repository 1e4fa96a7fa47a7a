package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"

	"github.com/chainbudget/chainbudget-go/examples/storm/chain"
	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

// Colours come from the page's script, which knows whether the page is dark or light; what is set here holds for both.
var (
	grid   = charts.WithGridOpts(opts.Grid{Left: "8", Right: "16", Top: "56", Bottom: "8", ContainLabel: opts.Bool(true)})
	legend = charts.WithLegendOpts(opts.Legend{Type: "scroll", Top: "0", Left: "0"})
	axis   = charts.WithTooltipOpts(opts.Tooltip{Show: opts.Bool(true), Trigger: "axis"})
	still  = charts.WithAnimation(false)
)

// chainChart shows the requests of each service, one line per policy. On the logarithmic axis what multiplies at every
// hop is a straight line upwards.
func chainChart(r *chain.Result) map[string]any {
	line := charts.NewLine()
	line.SetGlobalOptions(grid, legend, axis, still, charts.WithYAxisOpts(opts.YAxis{Type: "log", Min: 0.8}))
	var names []string
	for _, node := range r.Nodes {
		if node == r.Failing {
			node += " fails"
		}
		names = append(names, node)
	}
	line.SetXAxis(names)
	for i := range r.Counts {
		c := &r.Counts[i]
		var data []opts.LineData
		for node := range c.Requests {
			data = append(data, opts.LineData{Value: math.Round(c.PerRoot(node)*1000) / 1000})
		}
		line.AddSeries(c.Policy, data, charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(true), Symbol: symbols[i%len(symbols)], SymbolSize: 9}))
	}
	line.Validate()
	return line.JSON()
}

// symbols tell the lines apart without colour.
var symbols = []string{"circle", "rect", "triangle", "diamond", "circle", "roundRect"}

func chainLabel(r *chain.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Lines, one per policy: requests per service. At the failing service %s:", r.Failing)
	for i := range r.Counts {
		c := &r.Counts[i]
		for node, name := range r.Nodes {
			if name == r.Failing {
				fmt.Fprintf(&b, " %s %s;", c.Policy, chain.Short(c.PerRoot(node)))
			}
		}
	}
	return strings.TrimSuffix(b.String(), ";") + "."
}

// series is one line of a timeline.
type series struct {
	name string
	of   func(*incident.Tick) float64
}

// kind is one timeline, drawn for both runs on the same scale.
type kind struct {
	id, title, note, unit string
	series                []series
	gaps                  bool // 0 means that there is no value
}

func perSecond(n int) float64 { return float64(n) * 4 } // of a tick's count

var timelines = []kind{
	{
		id: "load", title: "Load", unit: "a second", note: "What users asked for, what arrived at the ledger, what it served.",
		series: []series{
			{"offered", func(t *incident.Tick) float64 { return perSecond(t.Offered) }},
			{"at the ledger", func(t *incident.Tick) float64 { return perSecond(t.Load) }},
			{"served", func(t *incident.Tick) float64 { return perSecond(t.Served) }},
		},
	},
	{
		id: "latency", title: "Latency, p95", unit: "ms", note: "Of the payments answered in each quarter of a second, as the services measured them.", gaps: true,
		series: []series{
			{"all payments", func(t *incident.Tick) float64 { return t.P95 }},
			{"successful ones", func(t *incident.Tick) float64 { return t.P95OK }},
		},
	},
	{
		id: "retries", title: "Retries and rejections", unit: "a second", note: "Requests for a payment that the ledger had seen before, and requests that found its queue full.",
		series: []series{
			{"retries", func(t *incident.Tick) float64 { return perSecond(t.Retries) }},
			{"rejected, queue full", func(t *incident.Tick) float64 { return perSecond(t.Rejected) }},
		},
	},
}

func (k *kind) top(side *incident.Side) (top float64) {
	for i := range side.Ticks {
		for _, s := range k.series {
			top = max(top, s.of(&side.Ticks[i]))
		}
	}
	return top
}

func (k *kind) chart(r *incident.Result, side *incident.Side, top float64) map[string]any {
	line := charts.NewLine()
	y := opts.YAxis{Name: k.unit, Min: 0, NameLocation: "end"}
	if top > 0 {
		y.Max = ceiling(top)
	}
	line.SetGlobalOptions(grid, legend, axis, still, charts.WithYAxisOpts(y),
		charts.WithXAxisOpts(opts.XAxis{Type: "value", Min: 0, Max: r.Seconds, Name: "s", NameLocation: "end"}))
	for i, s := range k.series {
		var data []opts.LineData
		for j := range side.Ticks {
			t := &side.Ticks[j]
			point := [2]any{t.At, s.of(t)}
			if k.gaps && s.of(t) == 0 {
				point[1] = nil
			}
			data = append(data, opts.LineData{Value: point})
		}
		options := []charts.SeriesOpts{charts.WithLineChartOpts(opts.LineChart{ShowSymbol: opts.Bool(false)})}
		if i == 0 {
			options = append(options, charts.WithMarkAreaData([]opts.MarkAreaData{{Name: "fault", XAxis: r.FaultFrom}, {XAxis: r.FaultTo}}))
		}
		line.AddSeries(s.name, data, options...)
	}
	line.Validate()
	return line.JSON()
}

// ceiling rounds up to 1, 2, 2.5 or 5 times a power of ten.
func ceiling(top float64) float64 {
	for unit := 1.0; ; unit *= 10 {
		for _, f := range []float64{1, 2, 2.5, 5} {
			if top <= f*unit {
				return f * unit
			}
		}
	}
}
