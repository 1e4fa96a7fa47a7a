package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
)

// mostColumns is how many services the table of loads shows; those with the highest loads are shown.
const mostColumns = 12

// writeResult prints a result as tables: the fleet, the load of each service, and the thresholds.
func writeResult(w io.Writer, s *stormlab.Scenario, r *stormlab.Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v of traffic, seed %d", r.Name, s.Duration, r.Seed)
	if r.Partial {
		b.WriteString(", ended early: " + ended(r))
	}
	b.WriteString("\n\n")
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "variant\t"+strings.Join(variantColumns, "\t"))
	for i := range r.Variants {
		fmt.Fprintln(table, r.Variants[i].Name+"\t"+strings.Join(variantCells(&r.Variants[i]), "\t"))
	}
	table.Flush()
	writeShown(&b, r)
	writeDenials(&b, r)
	writeLoads(&b, r)
	writeVerdicts(&b, r)
	_, err := io.WriteString(w, b.String())
	return err
}

var variantColumns = []string{"requests", "success", "retries/request", "radius", "p50", "p95", "p99"}

func variantCells(v *stormlab.Outcome) []string {
	success, retries := "–", "–"
	if v.Good+v.Failed > 0 {
		success = percent(v.Success)
	}
	if v.Sent > 0 {
		retries = number(float64(v.Retries) / float64(v.Sent))
	}
	return []string{strconv.FormatInt(v.Sent, 10), success, retries, radius(v), latency(v.P50), latency(v.P95), latency(v.P99)}
}

// radius is how many hops retried because of one failure, on average and at most.
func radius(v *stormlab.Outcome) string {
	if v.Storms == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f, max %d", v.MeanRadius, v.Radius)
}

// writeShown prints in words what the scenario shows, each with the figure that shows it.
func writeShown(b *strings.Builder, r *stormlab.Result) {
	before := "\n"
	for _, line := range shownBy(r) {
		fmt.Fprintf(b, "%s%s: %s\n", before, line.Variant, line.text())
		before = ""
	}
}

// shownBy are the thresholds that show something.
func shownBy(r *stormlab.Result) (lines []verdict) {
	for _, v := range r.Verdicts {
		if v.Shows != "" {
			lines = append(lines, verdictOf(v))
		}
	}
	return lines
}

// text is what a verdict shows, or that it does not.
func (v verdict) text() string {
	if !v.OK {
		return fmt.Sprintf("NOT SHOWN here: %s (%s %s, %s)", v.Shows, v.What, v.Measured, v.Bounds)
	}
	return fmt.Sprintf("%s (%s %s)", v.Shows, v.What, v.Measured)
}

// writeDenials prints which gates refused how much.
func writeDenials(b *strings.Builder, r *stormlab.Result) {
	before := "\n"
	for _, v := range r.Variants {
		if text := denials(v.Denied); text != "" {
			fmt.Fprintf(b, "%srefused in %s: %s\n", before, v.Name, text)
			before = ""
		}
	}
}

// denials lists the gates that refused, those first that refused the most.
func denials(counts map[string]int64) string {
	words := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for i, word := range words {
		words[i] = fmt.Sprintf("%s %d", word, counts[word])
	}
	return strings.Join(words, ", ")
}

// writeLoads prints how many times its usual load each service had.
func writeLoads(b *strings.Builder, r *stormlab.Result) {
	if len(r.Variants) == 0 {
		return
	}
	b.WriteString("\nload, as a multiple of what would come without a retry\n")
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	header := "service"
	for _, v := range r.Variants {
		header += "\t" + v.Name
	}
	fmt.Fprintln(table, header)
	services := r.Variants[0].Services
	for _, k := range highest(r) {
		line := services[k].Name
		for _, v := range r.Variants {
			line += "\t" + number(v.Services[k].Load)
		}
		fmt.Fprintln(table, line)
	}
	table.Flush()
	if more := len(services) - mostColumns; more > 0 {
		fmt.Fprintf(b, "and %s with lower loads\n", count(more, "service", "services"))
	}
}

// highest returns the places of the services with the highest loads, in the scenario's order.
func highest(r *stormlab.Result) (places []int) {
	peak := func(k int) (most float64) {
		for _, v := range r.Variants {
			most = max(most, v.Services[k].Load)
		}
		return most
	}
	for k := range r.Variants[0].Services {
		above := 0
		for other := range r.Variants[0].Services {
			if peak(other) > peak(k) || peak(other) == peak(k) && other < k {
				above++
			}
		}
		if above < mostColumns {
			places = append(places, k)
		}
	}
	return places
}

func writeVerdicts(b *strings.Builder, r *stormlab.Result) {
	if len(r.Verdicts) > 0 {
		b.WriteString("\nthresholds\n")
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, v := range r.Verdicts {
		word, line := "ok", verdictOf(v)
		if !v.OK {
			word = "MISSED"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s, %s\n", word, line.Variant, line.What, line.Measured, line.Bounds)
	}
	table.Flush()
}

// verdictOf puts a verdict into words.
func verdictOf(v stormlab.Verdict) verdict {
	show := shown(v.Metric)
	line := verdict{OK: v.OK, Variant: v.Variant, What: string(v.Metric), Measured: "no value", Shows: v.Shows}
	if v.Measured != nil {
		line.Measured = show(*v.Measured)
	}
	if v.Service != "" {
		line.What += " of " + v.Service
	}
	// Without its time a threshold contradicts the table above it, which is about the whole run.
	if v.From > 0 {
		line.What += " from " + seconds(v.From)
	}
	if v.Until > 0 {
		line.What += " until " + seconds(v.Until)
	}
	var bounds []string
	if v.Min != nil {
		bounds = append(bounds, "at least "+show(*v.Min))
	}
	if v.Max != nil {
		bounds = append(bounds, "at most "+show(*v.Max))
	}
	line.Bounds = strings.Join(bounds, ", ")
	return line
}

// shown returns how a metric's values are written.
func shown(m stormlab.Metric) func(float64) string {
	switch m {
	case stormlab.MetricSuccess:
		return percent
	case stormlab.MetricLoad, stormlab.MetricRetries, stormlab.MetricRadius, stormlab.MetricMeanRadius:
		return number
	}
	return func(seconds float64) string { return latency(seconds * 1000) }
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

func seconds(v float64) string { return time.Duration(v * float64(time.Second)).String() }

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + " %" }

// latency writes one, with a dash where nothing succeeded.
func latency(ms float64) string {
	if ms == 0 {
		return "–"
	}
	if ms >= 1000 {
		return strconv.FormatFloat(ms/1000, 'f', 2, 64) + " s"
	}
	return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
}
