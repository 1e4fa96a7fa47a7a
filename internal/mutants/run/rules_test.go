package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/ownership"
)

var update = flag.Bool("update", false, "write internal/mutants/README.md instead of comparing with it (make rules)")

// otherRules are the rules of which no list exists elsewhere, in the order of the table. Of a family one mutant is the least.
var otherRules = []string{
	"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8",

	// What a hop says about its own failure.
	"claim none failed", "claim retried", "claim per owner", "claim could not", "claim no verdict", "claim several", "claim effects",
	"claim overloaded", "claim canceled",
	// What a caller does with a failed attempt's claim.
	"claim received missing", "claim received unclaimed", "claim received stop",
	// Which outbound failure caused the hop's own.
	"claim cause exact", "claim cause declared", "claim cause learned", "claim cause unknown",

	"entry", "orphan", "lend", "settle", "close", "nonce reuse", "foreign counters",

	"breaker minimum", "breaker ratio", "breaker jitter", "breaker probes", "breaker eras", "breaker hooks", "breaker excluded", "breaker claim",
	"backoff jitter", "backoff cap", "backoff throttled", "backoff defaults", "backoff hint",
	"budget ratio", "budget burst", "budget quota", "budget throttle", "budget reserve", "budget process", "latency",
	"catalog pin", "catalog switch", "catalog external",
	"storm lab",
}

// unordered are neighbors among the gates that cannot both refuse one call, and why.
var unordered = map[string]string{
	"stop unclaimed":         "a failure has one claim",
	"max_attempts no_policy": "a profile has one attempt, or more",
}

// requiredRules are the rules that must have a mutant, in the order of the table: those of the lists above, every gate and its
// place in the decision, and every numbered rule and limit of the wire.
func requiredRules(t *testing.T) []string {
	t.Helper()
	rules := slices.Clone(otherRules)
	reasons := ownership.Reasons()[1:]
	for _, reason := range reasons {
		rules = append(rules, "gate "+reason.String())
	}
	for i, reason := range reasons[1:] {
		pair := reasons[i].String() + " " + reason.String()
		if unordered[pair] == "" {
			rules = append(rules, "order "+pair)
		}
	}
	text, err := os.ReadFile("../../../otelprop/WIRE.md")
	if err != nil {
		t.Fatal(err)
	}
	wire := wireRules(string(text))
	if len(wire) < 40 {
		t.Fatalf("%d rules found in WIRE.md: %q", len(wire), wire)
	}
	return append(rules, wire...)
}

var (
	wireSection = regexp.MustCompile(`^## (\d+)\. `)
	wireItem    = regexp.MustCompile(`^(\d+)\. `)
	wireLimit   = regexp.MustCompile("^\\| `([A-Za-z]+)` \\| \\d+ \\|")
)

// wireRules are the limits and the numbered rules of WIRE.md for who reads and writes, and its sections on what is not
// numbered: removal, trust and change.
func wireRules(text string) (rules []string) {
	section := ""
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case wireSection.MatchString(line):
			section = wireSection.FindStringSubmatch(line)[1]
			if slices.Contains([]string{"5", "8", "9"}, section) {
				rules = append(rules, "WIRE §"+section)
			}
		case section == "2" && wireLimit.MatchString(line):
			rules = append(rules, "WIRE §2 "+wireLimit.FindStringSubmatch(line)[1])
		case slices.Contains([]string{"3", "4", "6", "7"}, section) && wireItem.MatchString(line):
			rules = append(rules, "WIRE §"+section+"."+wireItem.FindStringSubmatch(line)[1])
		}
	}
	return rules
}

// TestRules_have_mutants: a gate, a row of the claims or a rule of the wire that nobody can break unnoticed.
func TestRules_have_mutants(t *testing.T) {
	mutants, err := readMutants("..", nil)
	if err != nil {
		t.Fatal(err)
	}
	broken := map[string]bool{}
	for _, m := range mutants {
		for _, rule := range m.rules {
			broken[rule] = true
		}
	}
	for _, rule := range requiredRules(t) {
		if !broken[rule] {
			t.Errorf("no mutant breaks %q: add one with the line %q, and the test that notices", rule, ruleHeader+" "+rule)
		}
	}
}

// TestRules_are_recorded holds the table of rules, mutants and tests to the patches.
func TestRules_are_recorded(t *testing.T) {
	mutants, err := readMutants("..", nil)
	if err != nil {
		t.Fatal(err)
	}
	const document = "../README.md"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "| rule | mutant | what is broken | test that goes red |\n|---|---|---|---|\n"
	before, _, found := strings.Cut(string(text), begin)
	if !found {
		t.Fatalf("%s has no line %q", document, begin)
	}
	want := before + begin + table(mutants, requiredRules(t))
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Errorf("%s is not what the patches say: run make rules", document)
	}
}

// table has one line for each rule of each mutant, in the order of the rules; rules of no list come last.
func table(mutants []mutant, order []string) string {
	type row struct {
		rule string
		*mutant
	}
	var rows []row
	for i := range mutants {
		for _, rule := range mutants[i].rules {
			rows = append(rows, row{rule, &mutants[i]})
		}
	}
	place := func(rule string) int {
		if i := slices.Index(order, rule); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(place(a.rule), place(b.rule)), strings.Compare(a.rule, b.rule), strings.Compare(a.name, b.name))
	})
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | [%s](%s.patch) | %s | `%s` `%s` |\n", r.rule, path.Base(r.name), r.name, strings.ReplaceAll(r.says, "|", "\\|"), r.pkg, r.test)
	}
	return b.String()
}
