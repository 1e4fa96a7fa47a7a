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
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
)

//go:embed storm_report.html
var reportText string

var reportPage = template.Must(template.New("report").Parse(reportText))

// report is what the page shows. It needs no script and no network.
type report struct {
	Name, Duration string
	Seed           uint64
	Ended          string // why the result is partial
	LeftOut        string
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
	Title  string
	Top    string // the scale, from zero
	Label  string // the same in words
	Lines  []plotLine
	Faults []band
}

type plotLine struct {
	Name   string
	Class  int
	Points []string // of each part; between two there was nothing to measure
}

// band is the time of a fault, in the plot's units.
type band struct{ X, Width string }

// The plots' own units; the page stretches them.
const (
	plotWidth  = 600
	plotHeight = 140
)

// writable reports why a report could not be written, before anything runs for it. What is no file, such as a pipe, is not tried.
func writable(path string) error {
	info, err := os.Stat(path)
	if path == "" || err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil
	}
	file, opened := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if opened != nil {
		return opened
	}
	file.Close()
	if err != nil { // it was not there, and the run may come to nothing
		return os.Remove(path)
	}
	return nil
}

// writeReport writes the page into a file.
func writeReport(path string, s *stormlab.Scenario, o *outcome) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	return renderReport(file, s, o)
}

func renderReport(w io.Writer, s *stormlab.Scenario, o *outcome) error {
	r := o.Result
	p := report{Name: r.Name, Duration: s.Duration.String(), Seed: r.Seed, LeftOut: o.leftOut(), Columns: variantColumns}
	if r.Partial {
		p.Ended = ended(r)
	}
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
	interval := intervalOf(s).Seconds()
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
	add("Latency, 95th percentile of what succeeds", "ms", func(t []stormlab.IntervalOutcome, i int) float64 {
		if t[i].Good == 0 {
			return math.NaN()
		}
		return t[i].P95
	})
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

// intervalOf is what the timeline counts by.
func intervalOf(s *stormlab.Scenario) time.Duration {
	if s.Interval == 0 {
		return time.Second
	}
	return s.Interval
}

// drawPlot draws a value over time. NaN is where there is none.
func drawPlot(s *stormlab.Scenario, r *stormlab.Result, title, unit string, value func([]stormlab.IntervalOutcome, int) float64) plot {
	p := plot{Title: title}
	values, most := make([][]float64, len(r.Variants)), make([]float64, len(r.Variants))
	for i, v := range r.Variants {
		for k := range v.Timeline {
			y := value(v.Timeline, k)
			values[i] = append(values[i], y)
			if !math.IsNaN(y) {
				most[i] = max(most[i], y)
			}
		}
	}
	top := scale(slices.Max(most))
	p.Top = "0 to " + strconv.FormatFloat(top, 'f', -1, 64) + " " + unit
	if slices.Max(most) == 0 {
		p.Top = "none"
	}
	words := []string{title + " in " + unit + " over time"}
	step := plotWidth * intervalOf(s).Seconds() / s.Duration.Seconds()
	for i, v := range r.Variants {
		p.Lines = append(p.Lines, plotLine{v.Name, i, points(values[i], step, top)})
		words = append(words, fmt.Sprintf("%s: at most %s", v.Name, strconv.FormatFloat(most[i], 'g', 4, 64)))
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

// points are where a line leads through, in as many parts as it has. A value alone is drawn as long as its interval.
func points(values []float64, step, top float64) (parts []string) {
	var part []string
	add := func(x, y float64) {
		part = append(part, units(min(x, plotWidth))+","+units(plotHeight*(1-max(y, 0)/top)))
	}
	there := func(k int) bool { return k >= 0 && k < len(values) && !math.IsNaN(values[k]) }
	for k, y := range values {
		if !there(k) {
			continue
		}
		x, alone := step*float64(k), !there(k-1) && !there(k+1)
		if alone {
			add(x, y)
			add(x+step, y)
		} else {
			add(x+step/2, y)
		}
		if !there(k + 1) {
			parts, part = append(parts, strings.Join(part, " ")), nil
		}
	}
	return parts
}

func units(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// scale is the end of a scale that v fits: short to write, and not much more than v.
func scale(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8} {
		if v <= m*power {
			return m * power
		}
	}
	return 10 * power
}
