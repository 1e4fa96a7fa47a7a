package tables

import (
	"testing"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// TestT3c drains a full quota by a dependency that always fails.
func TestT3c_retries_out_of_a_full_quota(t *testing.T) {
	tab := newTable(t, "T3c", "retries from a full quota of 500 until none is let through, everything fails", "")
	defer tab.print()
	for _, row := range []struct {
		what    string
		status  int
		retries int
	}{{"transient, 14 each", 503, 35}, {"throttled, 5 each", 429, 100}} {
		c := newClient(t, "extends: aws-standard, "+gatesOff, 3, nil)
		made := 0
		for calls := 0; calls < 1000; calls++ {
			before := c.totals().Retries
			answers := []answer{{status: row.status}}
			for left := min(2, row.retries-int(before)); left > 0; left-- {
				answers = append(answers, answer{status: row.status})
			}
			c.script(answers...)
			made = int(c.totals().Retries)
		}
		tab.count(row.what, join([]int{row.retries}), []int{row.retries}, []int{made})
	}
}

// TestT3d runs the published vectors through the transport, with the jitter pinned to its largest value.
func TestT3d_vectors_as_published(t *testing.T) {
	tab := newTable(t, "T3d", "the AWS quota after each answer, and the waits in ms, as published", "")
	defer tab.print()

	const standard = "extends: aws-standard, " + gatesOff
	statuses := func(list ...int) (answers []answer) {
		for _, s := range list {
			answers = append(answers, answer{status: s})
		}
		return answers
	}
	for _, row := range []struct {
		what, profile string
		calls         [][]answer
		levels        []int
		exceeded      bool // the last call ends because the quota is
	}{
		{"500, 500, 200", standard, [][]answer{statuses(500, 500, 200)}, []int{486, 472, 486}, false},
		{"start 14: 500, 500", standard + ", budget: {burst: 14}", [][]answer{statuses(500, 500)}, []int{0, 0}, true},
		{"start 20: 500, 500", standard + ", budget: {burst: 20}", [][]answer{statuses(500, 500)}, []int{6, 6}, true},
		{"start 30: 500, 502, 200 and 500, 200", standard + ", budget: {burst: 30}", [][]answer{statuses(500, 502, 200), statuses(500, 200)}, []int{16, 2, 16, 2, 16}, false},
		{"throttled, then 200", standard, [][]answer{statuses(429, 200)}, []int{495, 500}, false},
		{"a first success of a full quota", standard, [][]answer{statuses(200)}, []int{500}, false},
		{"a first success pays 1", standard, [][]answer{statuses(500, 500, 200), statuses(200)}, []int{486, 472, 486, 487}, false},
		{"the last attempt fails: nothing comes back", standard, [][]answer{statuses(500, 500, 500)}, []int{486, 472, 472}, false},
	} {
		c := newClient(t, row.profile, 3, pinned(new(delays)))
		var measured []int
		var why *ownership.DeniedError
		for _, answers := range row.calls {
			levels, denied := c.script(answers...)
			for _, l := range levels {
				measured = append(measured, int(l))
			}
			why = denied
		}
		tab.count(row.what, join(row.levels), row.levels, measured)
		if row.exceeded && (why == nil || why.Reason != ownership.ReasonDependencyBudget) {
			t.Errorf("%s: %v; want a refusal by the quota", row.what, why)
		}
	}

	hinted := func(hint string) [][]answer { return [][]answer{{{500, hint}, {200, ""}}} }
	for _, row := range []struct {
		what, profile string
		calls         [][]answer
		waits         []int
	}{
		{"backoff", "extends: aws-standard, retry: {max_attempts: 5}, " + gatesOff, [][]answer{statuses(500, 500, 500, 500, 200)}, []int{50, 100, 200, 400}},
		{"backoff, cap 200 ms", "extends: aws-standard, retry: {max_attempts: 5}, backoff: {cap: 200ms, throttled_base: 200ms}, " + gatesOff, [][]answer{statuses(500, 500, 500, 500, 200)}, []int{50, 100, 200, 200}},
		{"DynamoDB, 4 attempts", "extends: aws-standard, retry: {max_attempts: 4}, backoff: {base: 25ms}, " + gatesOff, [][]answer{statuses(500, 500, 500, 500)}, []int{25, 50, 100}},
		{"throttled", standard, [][]answer{statuses(429, 429, 200)}, []int{1000, 2000}},
		{"x-amz-retry-after 1500", standard, hinted("1500"), []int{1500}},
		{"x-amz-retry-after 0", standard, hinted("0"), []int{50}},
		{"x-amz-retry-after 10000", standard, hinted("10000"), []int{5050}},
		{"x-amz-retry-after invalid", standard, hinted("invalid"), []int{50}},
	} {
		d := new(delays)
		c := newClient(t, row.profile, 3, pinned(d))
		for _, answers := range row.calls {
			c.script(answers...)
		}
		tab.count(row.what, join(row.waits), row.waits, d.millis())
	}
}

// pinned takes the jitter out and collects the waits.
func pinned(d *delays) func(*engine.Config) {
	return func(c *engine.Config) { c.Random, c.Observe = largest, d.observe }
}
