package model

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// full is what make model asks for: without it the searches that take longest are left to it.
var full = flag.Bool("full", false, "search every configuration and every seeded bug")

// wholeTree and the others are switches that several configurations share. README.md says what each means.
var (
	wholeTree = []string{"DEPTH_FIRST", "GONE"} // 3 hops, 3 tokens, 2 calls side by side in each
	chain     = []string{"DEPTH_FIRST", "FAN0=1", "FAN1=1"}
	faults    = []string{"LOSS", "TIMERS", "CRASH", "AGAIN", "CANCEL"}
)

func with(groups ...[]string) []string { return slices.Concat(groups...) }

// configurations are the trees and the faults that are searched to the end.
var configurations = []struct {
	name     string
	always   bool // also without -full
	ends     bool // that every run ends, not what it does
	switches []string
}{
	{"chain_with_every_fault", false, false, with(chain, faults, []string{"EARLY", "BARE", "COPIES=1"})},
	{"chain_with_faults", true, false, with(chain, faults)},
	{"chain_ends", true, true, with(chain, []string{"LOSS", "TIMERS", "CANCEL"})},
	{"chain_in_any_order", false, false, []string{"FAN0=1", "FAN1=1", "TOKENS=2", "LOSS"}},
	{"chain_in_any_order_with_timers", false, false, []string{"FAN0=1", "FAN1=1", "TOKENS=1", "LOSS", "TIMERS", "CRASH"}},
	{"chain_of_profiles_that_reserve", false, false, with(chain, faults, []string{"RESERVE=1", "EARLY"})},
	{"chain_of_four_hops", false, false, with(chain, []string{"LEVELS=3", "LOSS", "TIMERS"})},
	{"fan_below_with_faults", false, false, with([]string{"DEPTH_FIRST", "FAN0=1"}, faults)},
	{"fan_above_waits_and_is_woken", false, false, []string{"DEPTH_FIRST", "FAN1=1", "WAKE", "LOSS"}},
	{"fan_above_with_faults", false, false, with(wholeTree, []string{"FAN1=1", "LOSS", "TIMERS", "AGAIN"})},
	{"fan_above_answers_early", false, false, with(wholeTree, []string{"FAN1=1", "LOSS", "EARLY", "CANCEL"})},
	{"fan_above_with_2_tokens_and_faults", false, false, with(wholeTree, faults, []string{"FAN1=1", "TOKENS=2", "COPIES=1"})},
	{"tree_with_2_tokens_and_faults", false, false, with(wholeTree, []string{"TOKENS=2", "LOSS", "TIMERS", "CRASH", "AGAIN"})},
	{"tree_with_loss_and_timers", false, false, with(wholeTree, []string{"LOSS", "TIMERS", "CANCEL"})},
	{"tree_with_crashes", false, false, with(wholeTree, []string{"CRASH", "CANCEL"})},
	{"tree_with_a_request_delivered_twice", false, false, with(wholeTree, []string{"COPIES=1"})},
	{"tree_with_returns_that_come_again", false, false, with(wholeTree, []string{"AGAIN"})},
}

// bugs are seeded: each must be found, by the check that is named.
var bugs = []struct {
	name     string
	always   bool
	breaks   string
	switches []string
}{
	{"a_lease_is_a_copy", true, "retries<=3", with(chain, []string{"BUG_COPY"})},
	{"a_return_counts_twice", false, "p.lent==", with(chain, []string{"BUG_TWICE", "AGAIN"})},
	{"tokens_that_are_still_lent_are_returned", false, "retries<=3", with(chain, []string{"BUG_PROMISE", "EARLY", "LEVELS=3"})},
	{"a_late_return_counts_as_held_and_as_lost", false, "==p.granted", with(chain, []string{"BUG_LATE", "EARLY"})},
	{"a_retry_is_decided_by_a_look_and_a_subtraction", false, "==p.granted", []string{"DEPTH_FIRST", "FAN1=1", "BUG_RACE"}},
	{"an_entry_without_tokens_mints_anew", false, "retries<=3", with(chain, []string{"BUG_MINT"})},
	{"a_return_of_another_attempt_is_believed", false, "retries<=3", with(chain, []string{"BUG_NONCE", "AGAIN", "TIMERS"})},
	{"a_request_delivered_twice_brings_its_grant_twice", false, "retries<=3", with(chain, []string{"BUG_COPIES", "COPIES=1"})},
	{"a_lease_without_a_return_comes_home", false, "retries<=3", with(chain, []string{"BUG_LOST", "TIMERS", "LOSS"})},
	{"a_waiter_looks_before_it_announces_itself", true, "invalid end state", []string{"DEPTH_FIRST", "FAN1=1", "WAKE", "BUG_WAKE"}},
	// No bugs: the bounds are reached. A model in which nothing happens would break nothing.
	{"all_tokens_are_spent", false, "retries<3", with(chain, []string{"NEVER_RETRIES"})},
	{"the_lowest_hop_is_reached_four_times", false, "reached[2]<(1+3)", with(chain, []string{"NEVER_REACHED"})},
}

func TestModelBreaksNoRule(t *testing.T) {
	for _, c := range configurations {
		if !c.always && !*full {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			v, err := search(t.Context(), t.TempDir(), question{switches: c.switches, ends: c.ends, long: !c.always})
			require.NoError(t, err)
			assert.Empty(t, v.broken, "%s", v.output)
			assert.Greater(t, v.states, 1000, "the model hardly moves\n%s", v.output)
			t.Logf("%d states in %v: %s", v.states, time.Since(began).Round(time.Second/10), strings.Join(c.switches, " "))
		})
	}
}

func TestModelWithASeededBugBreaksARule(t *testing.T) {
	for _, b := range bugs {
		if !b.always && !*full {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			v, err := search(t.Context(), t.TempDir(), question{switches: b.switches})
			require.NoError(t, err)
			assert.Contains(t, v.broken, b.breaks, "%s", v.output)
			t.Logf("found after %d states: %s", v.states, v.broken)
		})
	}
}

// TestDepthFirstLosesNothing holds the argument of README.md for running one hop at a time against a search of all
// orders, where that is small enough: chains end in the same ways.
func TestDepthFirstLosesNothing(t *testing.T) {
	outcomes := func(switches ...string) (lines []string) {
		v, err := search(t.Context(), t.TempDir(), question{switches: append(switches, "OUTCOMES", "FAN0=1", "FAN1=1")})
		require.NoError(t, err)
		require.Empty(t, v.broken)
		for line := range strings.Lines(string(v.output)) {
			if strings.HasPrefix(line, "outcome ") {
				lines = append(lines, line)
			}
		}
		slices.Sort(lines)
		return slices.Compact(lines)
	}
	faults := []string{"LOSS", "TIMERS", "TOKENS=1"}
	all := outcomes(faults...)
	assert.Equal(t, all, outcomes(append(faults, "DEPTH_FIRST")...))
	assert.Len(t, all, 10)
}

// A search that left something out must not pass for one that found nothing.
func TestJudgeRefusesWhatIsNotExhaustive(t *testing.T) {
	const whole = "Full statespace search for:\n\nState-vector 9 byte, depth reached 9, errors: 0\n     9 states, stored\n"
	v, err := judge([]byte(whole))
	require.NoError(t, err)
	assert.Equal(t, 9, v.states)
	for name, out := range map[string]string{
		"depth":       "error: max search depth too small\n" + whole,
		"memory":      "pan: reached -DMEMLIM bound\nWarning: Search not completed\n" + whole,
		"interrupted": "Warning: Search not completed\n" + whole,
		"bits":        strings.Replace(whole, "Full", "Bit", 1),
		"unnamed":     strings.Replace(whole, "errors: 0", "errors: 1", 1),
		"nothing":     "",
	} {
		_, err := judge([]byte(out))
		assert.Error(t, err, name)
	}
}
