package livepage

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// What one answer holds at most. What is beyond is counted, and for dependencies to be had by name.
const (
	maxDependencies = 200
	maxEdges        = 1000
	maxMismatches   = 256
	maxWarnings     = 50
	maxText         = 300 // runes of one text
)

// Page is what one answer says: the JSON as it stands, and what the HTML is made of. docs/live-page.md describes it.
type Page struct {
	Service string    `json:"service"` // "" = there is no SDK
	Now     time.Time `json:"now"`
	Since   time.Time `json:"since"` // from when on everything is counted
	Mode    string    `json:"mode"`
	Catalog Catalog   `json:"catalog"`
	Totals  numbers   `json:"totals"`
	// MintedBySource, Returned and ClaimsSentByOwner are parts that Totals does not tell apart, or has not.
	MintedBySource    map[string]int64            `json:"minted_by_source"`
	Returned          int64                       `json:"returned"`
	ClaimsSentByOwner map[string]map[string]int64 `json:"claims_sent_by_owner"`

	// ProcessBudget is how many retries the whole process has made in this minute, of how many.
	ProcessBudget ProcessBudget `json:"process_budget"`

	Dependencies []Dependency `json:"dependencies"`
	// DependenciesLeftOut are those with the fewest attempts, where there are too many.
	DependenciesLeftOut int        `json:"dependencies_left_out"`
	Edges               []Edge     `json:"edges"`
	EdgesLeftOut        int        `json:"edges_left_out"`
	Mismatches          []Mismatch `json:"mismatches"`
	Retries             []Decision `json:"recent_retries"`
	Denials             []Decision `json:"recent_denials"`
	History             History    `json:"history"`
	totals              engine.Totals
}

// Catalog is the catalog in force.
type Catalog struct {
	Generation      int64     `json:"generation"`
	Source          string    `json:"source"`
	Digest          string    `json:"digest"`
	Since           time.Time `json:"since"`
	Error           string    `json:"error"` // why the newest is not in force
	Rejected        int64     `json:"rejected"`
	Warnings        []string  `json:"warnings"`
	WarningsLeftOut int       `json:"warnings_left_out"`
}

// ProcessBudget is a limit of retries in any 60 seconds.
type ProcessBudget struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"` // 0 = there is none, and nothing is counted
}

// Dependency is one dependency.
type Dependency struct {
	Name        string  `json:"name"`
	Profile     string  `json:"profile"`
	ProfileFrom string  `json:"profile_from"`
	Digest      string  `json:"digest"`
	Mode        string  `json:"mode"`
	ModeFrom    string  `json:"mode_from"`
	Owner       string  `json:"owner"`
	Retries     Switch  `json:"retries"`
	Breaker     Breaker `json:"breaker"`
	Budget      Budget  `json:"budget"`
	Floor       Floor   `json:"floor"`
	// TypicalMS is the typical time of a successful attempt, 0 while it is not known.
	TypicalMS float64 `json:"typical_ms"`
	Totals    numbers `json:"totals"`
	// Prevented counts retries that did not go out for the sake of others.
	Prevented int64 `json:"prevented"`
	// Owners are the failed attempts by owner and by claim, Entries the retries and denials by the entry of the chain.
	Owners  map[string]map[string]int64 `json:"owners"`
	Entries map[string]Chains           `json:"entries"`
	Explain []Origin                    `json:"explain"`
	totals  engine.DependencyTotals
}

// Chains are a dependency's numbers in the chains of one entry.
type Chains struct {
	Retries int64            `json:"retries"` // hedges included
	Hedges  int64            `json:"hedges"`
	Denied  map[string]int64 `json:"denied"`
}

// Switch says whether there are retries, and who decided.
type Switch struct {
	State   string     `json:"state"`   // enabled or disabled
	By      string     `json:"by"`      // catalog or runtime
	Since   *time.Time `json:"since"`   // of a turn at run time
	Catalog string     `json:"catalog"` // what the catalog says
}

// Breaker is a dependency's breaker.
type Breaker struct {
	State     string `json:"state"` // none, closed, open or half_open
	Successes uint64 `json:"successes"`
	Failures  uint64 `json:"failures"`
}

// Budget is a dependency's bucket.
type Budget struct {
	Kind   string  `json:"kind"` // none, or the budget's kind
	Tokens float64 `json:"tokens"`
	Size   float64 `json:"size"`
	Spent  bool    `json:"spent"` // no retry could be paid now
}

// Floor is what first attempts came to lately.
type Floor struct {
	Succeeded uint64  `json:"succeeded"`
	Attempts  uint64  `json:"attempts"`
	Floor     float64 `json:"floor"` // 0 = the profile has none
	Below     bool    `json:"below"`
}

// Origin is one setting, and who says so.
type Origin struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// Edge is what was learned about one dependency as used by one operation.
type Edge struct {
	Operation  string  `json:"operation"`
	Dependency string  `json:"dependency"`
	Class      string  `json:"class"`
	Requests   int64   `json:"requests"`
	Alone      int64   `json:"alone"`
	Failed     float64 `json:"failed"`
	Both       float64 `json:"both"`
}

// Mismatch is a caller with another profile.
type Mismatch struct {
	Caller       string    `json:"caller"`
	Profile      string    `json:"profile"`
	Digest       string    `json:"digest"`
	Dependencies []string  `json:"dependencies"`
	Want         []string  `json:"want"`
	Kind         string    `json:"kind"` // divergent, older or agreed
	Requests     int64     `json:"requests"`
	First        time.Time `json:"first"`
	Last         time.Time `json:"last"`
	Differences  []string  `json:"differences"`
}

// Decision is one retry or refusal.
type Decision struct {
	At         time.Time `json:"at"`
	Dependency string    `json:"dependency"`
	Profile    string    `json:"profile"`
	Attempt    int       `json:"attempt"` // that failed; 0 = none was made
	Hedge      bool      `json:"hedge"`
	Reason     string    `json:"reason"`
	WouldDeny  string    `json:"would_deny"`
	DelayMS    float64   `json:"delay_ms"`
	Status     int       `json:"status"`
	Claim      string    `json:"claim"`
	Owner      string    `json:"owner"`
	Entry      string    `json:"entry"`
	Hop        int       `json:"hop"`
	Trace      string    `json:"trace"`
}

// question is what a request asks for.
type question struct {
	now    time.Time
	window window
	only   string // one dependency; "" = all
}

// read takes one reading of the SDK. Values are read one after the other.
func read(sdk *engine.SDK, ask question) *Page {
	p := &Page{
		Now: ask.now, Totals: numbers{}, Dependencies: []Dependency{}, Edges: []Edge{}, Mismatches: []Mismatch{}, Retries: []Decision{},
		Denials: []Decision{}, MintedBySource: map[string]int64{}, ClaimsSentByOwner: map[string]map[string]int64{}, History: emptyHistory(ask.window), Catalog: Catalog{Warnings: []string{}},
	}
	if !sdk.Usable() {
		return p
	}
	status := sdk.CatalogStatus()
	g := status.Generation
	p.Service, p.Since, p.Mode = cmp.Or(text(sdk.Service()), "unknown"), sdk.Started(), g.Mode().String()
	p.Catalog.Generation, p.Catalog.Digest, p.Catalog.Since = g.Number(), g.Digest(), g.Since()
	p.Catalog.Source, p.Catalog.Rejected = text(g.Catalog().Source), status.Rejected
	if status.Err != nil {
		p.Catalog.Error = clip(status.Err.Error(), 20*maxText)
	}
	for i, w := range g.Catalog().Warnings {
		if i == maxWarnings {
			p.Catalog.WarningsLeftOut = len(g.Catalog().Warnings) - i
			break
		}
		p.Catalog.Warnings = append(p.Catalog.Warnings, text(w.String()))
	}
	p.totals = sdk.Totals()
	p.Totals = numbersOf(p.totals)
	flow := sdk.Flow()
	p.MintedBySource, p.Returned, p.ClaimsSentByOwner = flow.Minted, flow.Returned, flow.ClaimsSent
	p.ProcessBudget.Used, p.ProcessBudget.Limit = sdk.ProcessBudget()
	p.dependencies(sdk, ask.only)
	p.edges(sdk, ask.only)
	for i, m := range sdk.Mismatches() {
		if i == maxMismatches {
			break
		}
		p.Mismatches = append(p.Mismatches, mismatch(m))
	}
	retries, denials := sdk.Recent()
	p.Retries, p.Denials = decisions(retries, ask.only), decisions(denials, ask.only)
	p.History = historyOf(sdk.History(), ask)
	return p
}

func (p *Page) dependencies(sdk *engine.SDK, only string) {
	all := sdk.Dependencies()
	if only != "" {
		all = slices.DeleteFunc(all, func(d *engine.Dependency) bool { return d.Name() != only })
	}
	if len(all) > maxDependencies {
		busy := func(d *engine.Dependency) int64 { return p.totals.Dependencies[d.Name()].Attempts }
		slices.SortStableFunc(all, func(a, b *engine.Dependency) int { return cmp.Compare(busy(b), busy(a)) })
		p.DependenciesLeftOut = len(all) - maxDependencies
		all = all[:maxDependencies]
		slices.SortFunc(all, func(a, b *engine.Dependency) int { return strings.Compare(a.Name(), b.Name()) })
	}
	for _, d := range all {
		p.Dependencies = append(p.Dependencies, dependency(d, p.totals.Dependencies[d.Name()]))
	}
}

func dependency(d *engine.Dependency, totals engine.DependencyTotals) Dependency {
	profile := d.Policy().Profile()
	v := Dependency{
		Name: text(d.Name()), Profile: text(string(profile.Name)), Digest: profile.Digest(), Mode: d.Policy().Mode().String(),
		Breaker: Breaker{State: "none"}, Budget: Budget{Kind: "none"}, TypicalMS: milliseconds(d.Typical()),
		Totals: numbersOf(totals), totals: totals, Entries: map[string]Chains{},
	}
	parts := d.Breakdown()
	v.Prevented, v.Owners = parts.Prevented, parts.Claims
	for entry, e := range parts.Entries {
		v.Entries[entry] = Chains(e)
	}
	for _, l := range d.Explain().Lines {
		switch l.Key {
		case "profile":
			v.ProfileFrom = text(l.From)
		case "mode":
			v.ModeFrom = text(l.From)
		case "owner":
			v.Owner = text(l.Value)
		}
		v.Explain = append(v.Explain, Origin{text(l.Key), text(l.Value), text(l.From)})
	}
	v.Retries = switchOf(d.Switch())
	if b := d.Breaker(); b != nil {
		v.Breaker.State = b.State().String()
		v.Breaker.Successes, v.Breaker.Failures = b.Counts()
	}
	if profile.Budget.Enabled() {
		v.Budget = Budget{Kind: profile.Budget.Kind.String(), Tokens: d.BudgetLevel(), Size: d.BudgetSize(), Spent: d.BudgetSpent()}
	}
	v.Floor.Succeeded, v.Floor.Attempts, v.Floor.Below = d.Availability()
	v.Floor.Floor = profile.AvailabilityFloor
	return v
}

func switchOf(s engine.Switch) Switch {
	word := func(disabled bool) string {
		if disabled {
			return "disabled"
		}
		return "enabled"
	}
	v := Switch{State: word(s.Disabled), By: "catalog", Catalog: word(s.Catalog)}
	if s.Runtime != engine.SwitchCatalog {
		v.By, v.Since = "runtime", &s.Since
	}
	return v
}

func (p *Page) edges(sdk *engine.SDK, only string) {
	for _, o := range sdk.Edges().Memory().Operations {
		for _, e := range o.Edges {
			if only == "" || e.Dependency == only {
				p.Edges = append(p.Edges, Edge{
					Operation: text(o.Name), Dependency: text(e.Dependency), Class: e.Class().String(),
					Requests: e.Requests, Alone: e.Alone, Failed: e.Failed, Both: e.Both,
				})
			}
		}
	}
	if len(p.Edges) > maxEdges {
		p.EdgesLeftOut = len(p.Edges) - maxEdges
		slices.SortStableFunc(p.Edges, func(a, b Edge) int { return cmp.Compare(b.Requests, a.Requests) })
		p.Edges = p.Edges[:maxEdges]
		slices.SortFunc(p.Edges, func(a, b Edge) int {
			return cmp.Or(strings.Compare(a.Operation, b.Operation), strings.Compare(a.Dependency, b.Dependency))
		})
	}
}

func mismatch(m profiles.Mismatch) Mismatch {
	v := Mismatch{
		Caller: text(m.Caller), Profile: text(string(m.Profile)), Digest: text(m.Digest), Dependencies: texts(m.Dependencies),
		Want: texts(m.Want), Kind: "divergent", Requests: m.Requests, First: m.First, Last: m.Last, Differences: texts(m.Differences),
	}
	switch {
	case m.AgreedSince:
		v.Kind = "agreed"
	case m.Older:
		v.Kind = "older"
	}
	return v
}

func decisions(list []engine.Recent, only string) []Decision {
	out := []Decision{}
	for _, r := range list {
		if only != "" && r.Dependency != only {
			continue
		}
		d := Decision{
			At: r.At, Dependency: text(r.Dependency), Profile: text(r.Profile), Attempt: r.Attempt, Hedge: r.Hedge, Reason: r.Reason.String(),
			DelayMS: milliseconds(r.Delay), Status: r.Status, Claim: r.Claim.String(), Owner: text(r.Owner), Entry: text(r.Entry), Hop: r.Hop,
		}
		if r.WouldDeny != ownership.ReasonAllowed {
			d.WouldDeny = r.WouldDeny.String()
		}
		if r.Trace.IsValid() {
			d.Trace = r.Trace.String()
		}
		out = append(out, d)
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// meant returns the dependency that a name from a link or a form of the page stands for: the one of that name, or else the
// only one that the page shows so, because its own name is too long or has something in it that a form cannot say.
func meant(sdk *engine.SDK, name string) string {
	if name == "" || !sdk.Usable() {
		return name
	}
	found, n, sought := name, 0, plain(name)
	for _, d := range sdk.Dependencies() {
		switch {
		case d.Name() == name:
			return name
		case plain(d.Name()) == sought:
			found, n = d.Name(), n+1
		}
	}
	if n > 1 {
		return name
	}
	return found
}

// plain is a name as it comes back from a form: without the NUL that HTML has not, and whatever ends of line browsers make.
func plain(name string) string { return formless.Replace(text(name)) }

var formless = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\uFFFD")

// text cuts what is shown to size.
func text(s string) string { return clip(s, maxText) }

func texts(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	return out
}

func clip(s string, runes int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	n := 0
	for i := range s {
		if n == runes {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
