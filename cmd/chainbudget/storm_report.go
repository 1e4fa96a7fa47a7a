package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
)

//go:embed storm_report.html
var reportText string

var reportPage = template.Must(template.New("report").Parse(reportText))

// report is what the page shows. It needs no script and no network.
type report struct {
	Name, Duration string
	Seed           uint64
	Partial        bool
	Shown          []remark // in words
	Columns        []string // of the table of variants
	Variants       []row
	Plots          []plot
	Loads          []row
	Denials        []row
	Verdicts       []verdict
	Faults         []string
}

// remark is what a variant shows.
type remark struct {
	Class int
	OK    bool
	Name  string
	Text  string
}

type row struct {
	Name  string
	Class int // of the line in the plots; -1 = none
	Cells []string
}

type verdict struct {
	OK                                     bool
	Variant, What, Measured, Bounds, Shows string
}

// plot is one number over time, one line for each variant.
type plot struct {
	Title, Unit string
	Top         string // the end of the scale
	Label       string // the same in words
	Lines       []plotLine
	Faults      []band
}

type plotLine struct {
	Name   string
	Class  int
	Points string
}

// band is the time of a fault, in the plot's units.
type band struct{ X, Width string }

// The plots' own units; the page stretches them.
const (
	plotWidth  = 600
	plotHeight = 140
)

// writeReport writes the page into a file.
func writeReport(path string, s *stormlab.Scenario, r *stormlab.Result) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	return renderReport(file, s, r)
}

func renderReport(w io.Writer, s *stormlab.Scenario, r *stormlab.Result) error {
	p := report{Name: r.Name, Duration: s.Duration.String(), Seed: r.Seed, Partial: r.Partial, Columns: variantColumns}
	for i := range r.Variants {
		p.Variants = append(p.Variants, row{r.Variants[i].Name, i, variantCells(&r.Variants[i])})
	}
	for _, v := range r.Variants {
		if text := denials(v.Denied); text != "" {
			p.Denials = append(p.Denials, row{Name: v.Name, Cells: []string{text}})
		}
	}
	class := make(map[string]int)
	for i := range r.Variants {
		class[r.Variants[i].Name] = i
	}
	for _, line := range shownBy(r) {
		p.Shown = append(p.Shown, remark{class[line.Variant], line.OK, line.Variant, line.text()})
	}
	for _, v := range r.Verdicts {
		p.Verdicts = append(p.Verdicts, verdictOf(v))
	}
	for _, f := range s.Faults {
		until := "the end"
		if f.Until > 0 {
			until = f.Until.String()
		}
		p.Faults = append(p.Faults, fmt.Sprintf("%s at %s%s from %v to %s", f.Kind, f.Service, extent(f), f.From, until))
	}
	if len(r.Variants) > 0 {
		p.Loads = loadRows(r)
		p.Plots = plots(s, r)
	}
	return reportPage.Execute(w, p)
}

// extent says whom a fault meets, where that is not everybody.
func extent(f stormlab.Fault) (text string) {
	if f.Caller != "" {
		text = " for " + f.Caller
	}
	if f.Share > 0 && f.Share < 1 {
		text += ", " + percent(f.Share) + " of requests,"
	}
	return text
}

func loadRows(r *stormlab.Result) (rows []row) {
	for _, k := range highest(r) {
		line := row{Name: r.Variants[0].Services[k].Name, Class: -1}
		for _, v := range r.Variants {
			line.Cells = append(line.Cells, number(v.Services[k].Load))
		}
		rows = append(rows, line)
	}
	return rows
}

// plots are the numbers that a storm shows in.
func plots(s *stormlab.Scenario, r *stormlab.Result) (list []plot) {
	interval := s.Duration.Seconds()
	if t := r.Variants[0].Timeline; len(t) > 1 {
		interval = t[1].At - t[0].At
	}
	add := func(title, unit string, value func(t []stormlab.IntervalOutcome, i int) float64) {
		list = append(list, drawPlot(s, r, title, unit, value))
	}
	perSecond := func(n int64) float64 { return float64(n) / interval }
	hottest, peak := 0, 0.0
	for _, v := range r.Variants {
		for k := range v.Services {
			if v.Services[k].Load > peak {
				hottest, peak = k, v.Services[k].Load
			}
		}
	}
	add("Load on "+r.Variants[0].Services[hottest].Name, "requests/s", func(t []stormlab.IntervalOutcome, i int) float64 { return perSecond(t[i].Arrivals[hottest]) })
	add("Goodput: requests that succeed", "requests/s", func(t []stormlab.IntervalOutcome, i int) float64 { return perSecond(t[i].Good) })
	add("Latency, 95th percentile of what succeeds", "ms", func(t []stormlab.IntervalOutcome, i int) float64 { return t[i].P95 })
	add("Retries of all services", "retries/s", func(t []stormlab.IntervalOutcome, i int) float64 { return perSecond(t[i].Retries) })
	add("Breakers that are not closed", "breakers", func(t []stormlab.IntervalOutcome, i int) float64 { return float64(t[i].Open) })
	add("Tokens minted", "tokens/s", func(t []stormlab.IntervalOutcome, i int) float64 {
		return perSecond(t[i].Minted - before(t, i).Minted)
	})
	add("Tokens lost", "tokens/s", func(t []stormlab.IntervalOutcome, i int) float64 {
		return perSecond(t[i].Lost - before(t, i).Lost)
	})
	return list
}

// before is the interval before i, whose totals are subtracted.
func before(t []stormlab.IntervalOutcome, i int) stormlab.IntervalOutcome {
	if i == 0 {
		return stormlab.IntervalOutcome{}
	}
	return t[i-1]
}

func drawPlot(s *stormlab.Scenario, r *stormlab.Result, title, unit string, value func([]stormlab.IntervalOutcome, int) float64) plot {
	p := plot{Title: title, Unit: unit}
	values := make([][]float64, len(r.Variants))
	most := 0.0
	for i, v := range r.Variants {
		for k := range v.Timeline {
			values[i] = append(values[i], max(value(v.Timeline, k), 0))
		}
		most = max(most, slices.Max(values[i]))
	}
	top := scale(most)
	p.Top = strconv.FormatFloat(top, 'f', -1, 64)
	words := []string{title + " in " + unit + " over time"}
	for i, v := range r.Variants {
		var points []string
		for k, y := range values[i] {
			x := plotWidth * (float64(k) + .5) / float64(len(values[i]))
			points = append(points, units(x)+","+units(plotHeight*(1-y/top)))
		}
		p.Lines = append(p.Lines, plotLine{v.Name, i, strings.Join(points, " ")})
		words = append(words, fmt.Sprintf("%s: at most %s", v.Name, strconv.FormatFloat(slices.Max(values[i]), 'g', 4, 64)))
	}
	p.Label = strings.Join(words, ". ") + "."
	for _, f := range s.Faults {
		until := s.Duration
		if f.Until > 0 && f.Until < until {
			until = f.Until
		}
		if f.From < until {
			all := s.Duration.Seconds()
			p.Faults = append(p.Faults, band{units(plotWidth * f.From.Seconds() / all), units(plotWidth * (until - f.From).Seconds() / all)})
		}
	}
	return p
}

func units(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// scale is the end of a scale that v fits: one digit, and not much more than v.
func scale(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 3, 4, 5, 6, 8} {
		if v <= m*power {
			return m * power
		}
	}
	return 10 * power
}
