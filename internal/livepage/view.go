package livepage

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// maxDetails is up to how many dependencies have their settings and plots on the page. With more of them, each has a page of
// its own.
const maxDetails = 30

// view is what the HTML is made of.
type view struct {
	*Page
	Style  template.CSS
	Script template.JS

	Switchable bool
	Details    bool   // each dependency has its settings and plots here
	Only       string // the one dependency that is shown; "" = all
	Window     window
	Windows    []choice
	AllPage    string // the link back from one dependency

	Attention []string
	Plots     []plot
	Denied    matrix
	WouldDeny matrix
	Claims    matrix
	Owners    matrix
	Sent      matrix
	Chains    matrix
	Hops      []pair
	Inbound   []pair
	Tokens    []pair
	Unusual   []pair
}

// choice is one link of several.
type choice struct {
	Name, Link string
	Current    bool
}

// pair is one number with its name.
type pair struct {
	Name  string
	Value int64
}

// matrix is numbers by the names of the rows and the heads of the columns.
type matrix struct {
	Names []string // what the rows are named by
	Head  []string
	Rows  []row
}

type row struct {
	Names []string
	Cells []int64
}

func newView(p *Page, ask question, switchable bool) *view {
	v := &view{
		Page: p, Style: template.CSS(style), Script: template.JS(script), Switchable: switchable && p.Service != "", Window: ask.window,
		Only: text(ask.only), Details: len(p.Dependencies) <= maxDetails, AllPage: link("window", ask.window.word, "", ""),
	}
	for _, w := range windows {
		v.Windows = append(v.Windows, choice{"last " + w.name, link("window", w.word, "dependency", ask.only), w == ask.window})
	}
	switch {
	case ask.only == "":
		v.Plots = plots("plot-all", p.Service, p.History.All, ask.window)
	case len(p.Dependencies) == 1:
		v.Plots = v.plotsOf(0)
	}
	v.attend()
	v.tables()
	return v
}

// attend collects what somebody on call looks for first.
func (v *view) attend() {
	say := func(format string, of ...any) { v.Attention = append(v.Attention, fmt.Sprintf(format, of...)) }
	if v.Catalog.Error != "" {
		say("The newest catalog is not in force: %s", v.Catalog.Error)
	}
	if v.Mode != "enforce" && v.Service != "" {
		say("Requests arrive in mode %s.", v.Mode)
	}
	if b := v.ProcessBudget; b.Limit > 0 && b.Used >= b.Limit {
		say("The retries of this minute are used up: %d of %d for the whole process.", b.Used, b.Limit)
	}
	for i := range v.Dependencies {
		d := &v.Dependencies[i]
		if d.Retries.State == "disabled" {
			say("Retries to %s are disabled by %s.", d.Name, d.Retries.Who())
		} else if d.Retries.By == "runtime" && d.Retries.Catalog == "disabled" {
			say("The catalog disables retries to %s, and this process has them enabled.", d.Name)
		}
		if d.Mode != v.Mode {
			say("Calls to %s are made in mode %s.", d.Name, d.Mode)
		}
		if d.Breaker.State == "open" || d.Breaker.State == "half_open" {
			say("The breaker of %s is %s.", d.Name, d.Breaker.State)
		}
		if d.Floor.Below {
			say("%s answers fewer first attempts than its floor of %s.", d.Name, percent(d.Floor.Floor))
		}
		if d.Budget.Spent {
			say("The retry budget of %s is used up.", d.Name)
		}
	}
	for _, m := range v.Mismatches {
		if m.Kind == "divergent" {
			say("Caller %s uses %s@%s, pinned is %s.", m.Caller, m.Profile, m.Digest, strings.Join(m.Want, " or "))
		}
	}
	if len(v.Attention) > maxWarnings {
		rest := len(v.Attention) - maxWarnings
		v.Attention = append(v.Attention[:maxWarnings], fmt.Sprintf("And %d more.", rest))
	}
}

// Who says who disabled retries.
func (s Switch) Who() string {
	if s.By == "runtime" {
		return "a turn of the switch in this process"
	}
	return "the catalog"
}

func (v *view) tables() {
	var reasons, claims []string
	for _, r := range ownership.Reasons() {
		reasons = append(reasons, r.String())
	}
	for c := ownership.ClaimNone; c <= ownership.ClaimStop; c++ {
		claims = append(claims, c.String())
	}
	v.Denied = v.matrix(reasons, func(d *Dependency) map[string]int64 { return d.totals.Denied })
	v.WouldDeny = v.matrix(reasons, func(d *Dependency) map[string]int64 { return d.totals.WouldDeny })
	v.Claims = v.matrix(claims, func(d *Dependency) map[string]int64 { return d.totals.Claims })
	v.owners(claims)
	v.chains()
	t := &v.totals
	for _, hop := range slices.Sorted(maps.Keys(t.RetriesByHop)) {
		v.Hops = append(v.Hops, pair{strconv.Itoa(hop), t.RetriesByHop[hop]})
	}
	v.Inbound = []pair{
		{"entries", t.Entries}, {"from callers with the SDK", t.Callees}, {"relayed by others", t.Relayed},
		{"orphans, without a budget", t.Orphans}, {"with an unreadable budget", t.Unreadable},
	}
	minted := v.MintedBySource
	v.Tokens = []pair{
		{"minted for entries", minted["entry"]}, {"minted for chains begun here", minted["start"]}, {"minted for orphans", minted["orphan"]},
		{"minted for calls outside of any request", minted["no_purse"]}, {"sent back to callers", v.Returned}, {"lost", t.Lost},
	}
	v.Unusual = []pair{
		{"calls outside of any request", t.NoPurse}, {"repeated by something between the hops", t.Foreign},
		{"grants that had arrived before", t.RepeatedGrants}, {"repeats that the transport wanted", t.HiddenRepeats},
		{"foreign baggage members dropped", t.BaggageDropped}, {"failures whose cause learned edges see elsewhere", t.LearnedOtherwise},
	}
	for _, reason := range sorted(t.Rejects) {
		v.Unusual = append(v.Unusual, pair{"wire input rejected: " + reason, t.Rejects[reason]})
	}
}

// matrix makes a table of the words that there are numbers for.
func (v *view) matrix(words []string, of func(*Dependency) map[string]int64) matrix {
	m := matrix{Names: []string{"dependency"}}
	for _, word := range words {
		if slices.ContainsFunc(v.Dependencies, func(d Dependency) bool { return of(&d)[word] > 0 }) {
			m.Head = append(m.Head, word)
		}
	}
	for i := range v.Dependencies {
		d := &v.Dependencies[i]
		if len(of(d)) == 0 {
			continue
		}
		m.add(of(d), d.Name)
	}
	return m
}

// add adds a row of those numbers that the table has columns for.
func (m *matrix) add(of map[string]int64, names ...string) {
	r := row{Names: names}
	for _, word := range m.Head {
		r.Cells = append(r.Cells, of[word])
	}
	m.Rows = append(m.Rows, r)
}

// owners says whose failures came, from which dependency and to callers, by claim.
func (v *view) owners(claims []string) {
	v.Owners = matrix{Names: []string{"owner", "dependency"}, Head: claims}
	v.Sent = matrix{Names: []string{"owner"}, Head: claims}
	for i := range v.Dependencies {
		d := &v.Dependencies[i]
		for _, owner := range sorted(d.Owners) {
			v.Owners.add(d.Owners[owner], named(owner), d.Name)
		}
	}
	for _, owner := range sorted(v.ClaimsSentByOwner) {
		v.Sent.add(v.ClaimsSentByOwner[owner], named(owner))
	}
	v.Owners.shrink()
	v.Sent.shrink()
}

// chains says which entries' chains retry.
func (v *view) chains() {
	v.Chains = matrix{Names: []string{"entry", "dependency"}, Head: []string{"retried", "hedged", "denied"}}
	for i := range v.Dependencies {
		d := &v.Dependencies[i]
		for _, entry := range sorted(d.Entries) {
			e := d.Entries[entry]
			v.Chains.add(map[string]int64{"retried": e.Retries, "hedged": e.Hedges, "denied": sum(e.Denied)}, named(entry), d.Name)
		}
	}
}

// shrink leaves out columns without numbers.
func (m *matrix) shrink() {
	for i := len(m.Head) - 1; i >= 0; i-- {
		if slices.ContainsFunc(m.Rows, func(r row) bool { return r.Cells[i] > 0 }) {
			continue
		}
		m.Head = slices.Delete(slices.Clone(m.Head), i, i+1)
		for j := range m.Rows {
			m.Rows[j].Cells = slices.Delete(m.Rows[j].Cells, i, i+1)
		}
	}
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// named is a label for people.
func named(label string) string {
	if label == "" {
		return "none"
	}
	return label
}

// Calls and what follows are a dependency's numbers for the table.
func (d Dependency) Calls() int64     { return d.totals.Calls }
func (d Dependency) Attempts() int64  { return d.totals.Attempts }
func (d Dependency) Retried() int64   { return d.totals.Retries }
func (d Dependency) Hedges() int64    { return d.totals.Hedges }
func (d Dependency) Failures() int64  { return sum(d.totals.Claims) }
func (d Dependency) DeniedAll() int64 { return sum(d.totals.Denied) }

func sum(m map[string]int64) (n int64) {
	for _, one := range m {
		n += one
	}
	return n
}

// Share is how much of the dependency's failures failed the operation too.
func (e Edge) Share() string {
	if e.Failed <= 0 {
		return "–"
	}
	return percent(e.Both / e.Failed)
}

// DetailsOf returns the plots beside a dependency's settings, where they are not the page's own.
func (v *view) DetailsOf(i int) []plot {
	if v.Only != "" {
		return nil
	}
	return v.plotsOf(i)
}

func (v *view) plotsOf(i int) []plot {
	d := &v.Dependencies[i]
	series, ok := v.History.Dependencies[d.Name]
	if !ok {
		return nil
	}
	return plots("plot-"+strconv.Itoa(i), d.Name, series, v.Window)
}

// LinkTo is the page of one dependency.
func (v *view) LinkTo(name string) string { return link("window", v.Window.word, "dependency", name) }

var functions = template.FuncMap{
	"count":        count,
	"percent":      percent,
	"tokens":       func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) },
	"ms":           shortMS,
	"instant":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"stamp":        func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"clock":        func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
	"ratio":        func(ok, total uint64) float64 { return float64(ok) / float64(max(total, 1)) },
	"weight":       func(w float64) string { return strconv.FormatFloat(w, 'f', 1, 64) },
	"nav":          func() []section { return sections },
	"table":        func(id, caption string, m matrix, none string) tableView { return tableView{id, caption, m, none} },
	"list":         func(id, caption, head string, of any) listView { return listView{id, caption, head, of} },
	"breakerTotal": func(b Breaker) uint64 { return b.Successes + b.Failures },
	"icon":         func() template.URL { return icon },
}

// tableView and listView are what the template's parts are called with.
type (
	tableView struct {
		ID, Caption string
		Matrix      matrix
		None        string // said in place of an empty one
	}
	listView struct {
		ID, Caption, Head string
		Of                any
	}
)

// section is one place that the page's own links lead to.
type section struct{ ID, Name string }

var sections = []section{
	{"rates", "Last minutes"}, {"dependencies", "Dependencies"}, {"denials", "Denials"}, {"recent-retries", "Recent retries"},
	{"recent-denials", "Recent denials"}, {"chains", "Chains"}, {"claims", "Claims"}, {"edges", "Edges"}, {"callers", "Callers"}, {"service", "Service"}, {"catalog", "Catalog"},
}

// icon keeps browsers from asking for one.
const icon template.URL = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M2 12 6 5l4 5 4-7' fill='none' stroke='%230b6e4f' stroke-width='2'/%3E%3C/svg%3E"

// count writes a whole number in groups of three.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + " %" }

// shortMS writes milliseconds with as many digits as they deserve; 0 is none.
func shortMS(ms float64) string {
	switch {
	case ms == 0:
		return "–"
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	case ms < 10_000:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	default:
		return strconv.FormatFloat(ms/1000, 'f', 1, 64) + " s"
	}
}
