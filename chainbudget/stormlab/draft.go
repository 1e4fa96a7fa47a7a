package stormlab

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// Draft makes a scenario, as YAML to be edited, of a list of who calls whom: lines of "caller,callee" or
// "caller,callee,calls", where calls is how many a request at the caller makes on average, above 0 to 1000, 1 if it is left out. A line whose
// first field is "caller" is a heading, and one that begins with # a remark. Names become those of scenarios: lower case, and every other
// rune a dash; the same call in several lines adds up.
//
// Requests come in, 100 a second, wherever nobody calls. Work takes 5 ms, and the service that most paths lead to of those that
// call nobody has room for a third more than what comes, and takes five times as long for a while: all of that is there to be replaced. name stands for the file in errors, which are as those of
// [Load]; a circle is one, because a request would never end.
func Draft(edges io.Reader, name string) ([]byte, error) {
	d := draft{index: make(map[string]int)}
	if err := d.read(edges, name); err != nil {
		return nil, err
	}
	text := d.text(name)
	if _, err := Load(text, name); err != nil {
		var found *profiles.CatalogError
		if !errors.As(err, &found) {
			return nil, err
		}
		for i := range found.Problems { // they are of the draft's lines, which nobody has seen
			found.Problems[i].Line, found.Problems[i].Column, found.Problems[i].Path = 0, 0, ""
		}
		return nil, found
	}
	return text, nil
}

type draft struct {
	names []string
	index map[string]int
	calls [][]draftCall
}

type draftCall struct {
	to     int
	weight float64
	line   int // the first that names it
}

func (d *draft) service(name string) int {
	slug := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
	i, ok := d.index[slug]
	if !ok {
		i = len(d.names)
		d.index[slug] = i
		d.names = append(d.names, slug)
		d.calls = append(d.calls, nil)
	}
	return i
}

// read reads the list, and lists every line that is wrong.
func (d *draft) read(edges io.Reader, name string) error {
	r := reader{name: name}
	wrong := func(line, column int, what, fix string) {
		r.add(profiles.Problem{File: name, Line: line, Column: column, What: what, Fix: fix})
	}
	lines := csv.NewReader(io.LimitReader(edges, MaxFileSize+1))
	lines.Comment, lines.FieldsPerRecord, lines.TrimLeadingSpace = '#', -1, true
	for {
		fields, err := lines.Read()
		if bad := (*csv.ParseError)(nil); errors.As(err, &bad) {
			wrong(bad.Line, bad.Column, bad.Err.Error(), "write caller,callee")
			break
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if lines.InputOffset() > MaxFileSize {
			return problem(name, fmt.Sprintf("the file is larger than %d bytes", MaxFileSize), "shorten it")
		}
		line, _ := lines.FieldPos(0)
		if fields[0] == "caller" {
			continue
		}
		if len(fields) < 2 || len(fields) > 3 || strings.TrimSpace(fields[0]) == "" || strings.TrimSpace(fields[1]) == "" {
			wrong(line, 1, "is no call", "write caller,callee or caller,callee,calls")
			continue
		}
		weight := 1.0
		if len(fields) == 3 {
			_, column := lines.FieldPos(2)
			if weight, err = strconv.ParseFloat(strings.TrimSpace(fields[2]), 64); err != nil || !(weight > 0 && weight <= maxTimes) {
				wrong(line, column, fmt.Sprintf("%.48q is no number of calls", fields[2]), fmt.Sprintf("write a number above 0, up to %d", maxTimes))
				continue
			}
		}
		known := len(d.names)
		from, to := d.service(strings.TrimSpace(fields[0])), d.service(strings.TrimSpace(fields[1]))
		for _, service := range d.names[known:] {
			if len(service) > maxName {
				wrong(line, 1, fmt.Sprintf("%.48q is too long for the name of a service", service), fmt.Sprintf("use 1 to %d of a-z, 0-9, - and _", maxName))
			}
		}
		if from == to {
			wrong(line, 1, fmt.Sprintf("%.48q calls itself", d.names[from]), "remove the line, or give one of the two another name")
			continue
		}
		if sum := d.add(from, draftCall{to, weight, line}); sum > maxTimes {
			wrong(line, 1, fmt.Sprintf("%v calls of %.48q for each request at %.48q, with the lines above", sum, d.names[to], d.names[from]), fmt.Sprintf("use up to %d together", maxTimes))
		}
	}
	d.circles(wrong)
	if len(d.names) > maxServices {
		wrong(1, 1, fmt.Sprintf("there are %d services", len(d.names)), fmt.Sprintf("leave out some: use at most %d", maxServices))
	}
	if len(d.names) == 0 && len(r.problems) == 0 {
		wrong(1, 1, "there is no call", "write one line for each: caller,callee")
	}
	return r.err()
}

// circles reports each call that closes one, at the line that names it.
func (d *draft) circles(wrong func(line, column int, what, fix string)) {
	calls := make([][]int, len(d.calls))
	for i := range d.calls {
		for _, c := range d.calls[i] {
			calls[i] = append(calls[i], c.to)
		}
	}
	circles(calls, func(from, k int, circle []int) {
		var names []string
		for _, i := range circle {
			names = append(names, d.names[i])
		}
		wrong(d.calls[from][k].line, 1, inCircle(names), "remove one of them")
	})
}

// add returns how many calls of the kind there are now.
func (d *draft) add(from int, call draftCall) float64 {
	for i := range d.calls[from] {
		if c := &d.calls[from][i]; c.to == call.to {
			c.weight += call.weight
			return c.weight
		}
	}
	d.calls[from] = append(d.calls[from], call)
	return call.weight
}

// text writes the scenario.
func (d *draft) text(name string) []byte {
	callers := make([]int, len(d.names))
	for _, calls := range d.calls {
		for _, c := range calls {
			callers[c.to]++
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Drafted from %q. Replace the times of work, the traffic and the fault by your own.\nversion: 1\nseed: 1\n%sservices:\n", name, draftTimes)
	weakest := d.weakest()
	for i, service := range d.names {
		work := "work: 5ms"
		if i == weakest {
			work = weakSpot(draftRate * d.visits(callers, i))
		}
		fmt.Fprintf(&b, "  - {name: %q, %s", service, work)
		for k, c := range d.calls[i] {
			sep := ", "
			if k == 0 {
				sep = ", calls: ["
			}
			b.WriteString(sep + d.call(c))
		}
		if len(d.calls[i]) > 0 {
			b.WriteString("]")
		}
		b.WriteString("}\n")
	}
	b.WriteString("traffic:\n")
	for i, service := range d.names {
		if callers[i] == 0 {
			fmt.Fprintf(&b, "  - {to: %q, rate: %d}\n", service, draftRate)
		}
	}
	b.WriteString(draftStorm(strconv.Quote(d.names[weakest])))
	return b.Bytes()
}

// What every draft has: room before, in and after the fault, and a fault whose storm outlives it.
const (
	draftTimes = "duration: 60s\n"
	draftRate  = 100 // a second, at each entry
)

// draftStorm is the end of a draft: a while in which one service takes five times as long, two variants, and what the second one has
// to keep.
func draftStorm(service string) string {
	return strings.ReplaceAll(`faults:
  - {kind: slow, service: SERVICE, factor: 5, from: 20s, until: 30s}
variants:
  - name: before
    policy: {kind: naive, attempts: 3, timeout: 1s, base: 50ms, cap: 1s}
  - name: after
expect:
  - {variant: after, metric: load, service: SERVICE, from: 20s, until: 30s, max: 1.1}
  - {variant: after, metric: success, from: 50s, min: 99%}
`, "SERVICE", service)
}

// weakSpot is how a draft limits the service that its fault is about: three quarters of what it can serve come in, at
// about 20 ms each, and it lets three seconds of them wait, longer than anybody waits for an answer.
func weakSpot(arrivals float64) string {
	const used, work, waits = .75, .02, 3
	workers := max(1, math.Round(arrivals*work/used))
	each := min(workers*used/arrivals, work*1.5)
	return fmt.Sprintf("work: %v, workers: %.0f, queue: %.0f", time.Duration(each*1e5)*10*time.Microsecond, workers, max(1, arrivals/used*waits))
}

// visits is how many requests come to a service for each one at every entry.
func (d *draft) visits(callers []int, at int) float64 {
	var visits []float64
	for range d.names { // each round carries them one call further
		next := make([]float64, len(d.names))
		for i := range d.names {
			if callers[i] == 0 {
				next[i] = 1
			}
		}
		for i, calls := range d.calls {
			for _, c := range calls {
				if visits != nil {
					next[c.to] += visits[i] * c.weight
				}
			}
		}
		visits = next
	}
	return max(visits[at], 1e-3)
}

// call writes one: a whole number of calls as times, a part of one as a share of the requests that need it, and the rest of a
// number as a share of that many more.
func (d *draft) call(c draftCall) string {
	to := fmt.Sprintf("{to: %q", d.names[c.to])
	var parts []string
	whole := int(c.weight)
	switch {
	case whole == 1:
		parts = append(parts, to+"}")
	case whole > 1:
		parts = append(parts, fmt.Sprintf("%s, times: %d}", to, whole))
	}
	if part := c.weight - float64(whole); part > 0 {
		parts = append(parts, fmt.Sprintf("%s, share: %s}", to, strconv.FormatFloat(part, 'g', 4, 64)))
	}
	return strings.Join(parts, ", ")
}

// weakest returns the service with the most paths to it among those that call nobody.
func (d *draft) weakest() int {
	paths := make([]float64, len(d.names))
	for i := range paths {
		paths[i] = 1
	}
	// Each round carries paths one call further; a circle, which Load refuses, ends the rounds, too.
	for range d.names {
		next := make([]float64, len(d.names))
		for i := range next {
			next[i] = 1
		}
		for i, calls := range d.calls {
			for _, c := range calls {
				next[c.to] += paths[i]
			}
		}
		if slices.Equal(next, paths) {
			break
		}
		paths = next
	}
	leaves := make([]int, 0, len(d.names))
	for i := range d.names {
		if len(d.calls[i]) == 0 {
			leaves = append(leaves, i)
		}
	}
	if len(leaves) == 0 {
		return 0
	}
	return slices.MaxFunc(leaves, func(a, b int) int { return cmp.Or(cmp.Compare(paths[a], paths[b]), cmp.Compare(b, a)) })
}
