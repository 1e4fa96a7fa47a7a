package tables

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const readmeFile = "../../README.md"

// The README's block stands between these lines.
const (
	shortBegins = "<!-- tables: make tables UPDATE=1 -->\n"
	shortEnds   = "<!-- /tables -->\n"
)

// promised is the source of what this SDK promises. Its bound is the published figure.
const promised = "this SDK"

// shortForm are the rows of the report that the README shows.
var shortForm = []struct{ source, what, row string }{
	{"Uber", "calls of a failing service, ownership and a budget of 10 %", "T1b: ownership and a budget of 10 %, D"},
	{"Uber", "availability of a dependency at 90 %, with a budget of 10 %", "T2: a=0.900 perceived"},
	{"Uber", "hops that retry because of one failure, chain of 25", "T24: chain of 25, at most"},
	{"AWS", "retries out of a full quota while everything fails", "T3c: transient, 14 each"},
	{"Kitex", "attempts at the end of a chain of 1 to 6 calls, 3 retries", "T4: Kitex, r=3"},
	{"gRPC", "successes until a drained throttle lets retries through", "T7: successes from 0 until they resume"},
	{"Linkerd", "retries a second at 1,000 requests a second", "T8: 1000 requests a second"},
	{"Envoy", "retries at once while 25 requests are active", "T9: 25 active, until one is refused"},
	{"Google", "requests a second at a server for 10,000 that is offered 10,100", "T14: offered 10100, the last 50 of 400 s"},
	{"HotOS '21", "requests in 20 s after an outage, at 280 a second: came, succeeded", "T13: everybody retries once: load 280, came and succeeded"},
	{promised, "chains of 5 calls that succeed, each fails with 5 %, 3 tokens", "T5: d=5 p=0.05 SDK b=3"},
	{promised, "extra load while a service 9 calls deep is down", "T25: extra load, depth 9, profile bucket, worst of 100 to 1000"},
}

// short returns the README's block for a recorded report.
func short(report string) (string, error) {
	rows := parseRecord(report)
	var b strings.Builder
	b.WriteString("| published by | what | published | counted | table |\n|---|---|---|---|---|\n")
	for _, line := range shortForm {
		cells, ok := rows[line.row]
		if !ok {
			return "", fmt.Errorf("docs/tables.md has no row %q, which the README shows: name another one in shortForm", line.row)
		}
		number, _, _ := strings.Cut(line.row, ":")
		published := cells[0]
		if line.source == promised {
			published = cells[1]
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", line.source, line.what, published, cells[2], number)
	}
	return b.String(), nil
}

// splitREADME returns what is before, in and after the block.
func splitREADME(text string) (before, block, after string, err error) {
	before, rest, begins := strings.Cut(text, shortBegins)
	block, after, ends := strings.Cut(rest, shortEnds)
	if !begins || !ends {
		return "", "", "", fmt.Errorf("README.md has no lines %q and %q: put them where the tables belong", strings.TrimSpace(shortBegins), strings.TrimSpace(shortEnds))
	}
	return before + shortBegins, block, shortEnds + after, nil
}

// recordRun writes a report to docs/tables.md, and its short form into the README.
func recordRun(report string) error {
	block, err := short(report)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(readmeFile)
	if err != nil {
		return err
	}
	before, _, after, err := splitREADME(string(text))
	if err != nil {
		return err
	}
	if err := os.WriteFile(recordFile, []byte(report), 0o644); err != nil {
		return err
	}
	return os.WriteFile(readmeFile, []byte(before+block+after), 0o644)
}

// The README says what the recorded run has measured.
func TestREADME_has_the_recorded_figures(t *testing.T) {
	if *update {
		t.Skip("it is written when all tables have run")
	}
	recorded, err := os.ReadFile(recordFile)
	if err != nil {
		t.Fatal(err)
	}
	want, err := short(string(recorded))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(readmeFile)
	if err != nil {
		t.Fatal(err)
	}
	_, block, _, err := splitREADME(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if block != want {
		t.Errorf("the README's tables are not those of docs/tables.md (make tables UPDATE=1 writes both):\n%s\nwant\n%s", block, want)
	}
}
