package stormlab

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write scenarios/fleet-100.yaml instead of comparing with it")

// Drawn fleets have the published figures, whatever the seed.
func TestFleet_is_as_published(t *testing.T) {
	var fans []int
	var callers, leaves, entries int
	for seed := range uint64(20) {
		f := drawFleet(100, seed)
		require.NoError(t, drafted(t, 100, seed).Validate())
		for i := range f.Services {
			n := len(f.Services[i].Calls)
			switch {
			case n > 0:
				fans = append(fans, n)
			default:
				leaves++
			}
			callers++
		}
		entries += f.entries
		assert.LessOrEqual(t, f.callsEach(), 20., "seed %d", seed)
		assert.Greater(t, f.callsEach(), 15., "seed %d", seed)
		assert.Equal(t, 6, f.depth(), "seed %d", seed)
	}
	slices.Sort(fans)
	assert.InDelta(t, 4, fans[len(fans)/2], 1, "median of the calls of those that call")
	assert.InDelta(t, 7, fans[len(fans)*3/4], 1, "three of four of them")
	assert.InDelta(t, 13, fans[len(fans)*9/10], 4, "nine of ten of them")
	assert.InDelta(t, .39, float64(leaves)/float64(callers), .06, "share of those that call nobody")
	assert.Equal(t, 20*6, entries)
	assert.NotEqual(t, drawFleet(100, 1).Services, drawFleet(100, 2).Services)
}

func drafted(t testing.TB, services int, seed uint64) *Scenario {
	t.Helper()
	text, err := DraftRandom(services, seed)
	require.NoError(t, err)
	s, err := Load(text, "drawn.yaml")
	require.NoError(t, err)
	require.Len(t, s.Services, services)
	return s
}

// Any number of services makes a scenario that loads, from the smallest to the largest.
func TestDraftRandom(t *testing.T) {
	for _, services := range []int{10, 11, 17, 99, 1000} {
		drafted(t, services, 3)
	}
	for _, services := range []int{-1, 9, 1001} {
		_, err := DraftRandom(services, 3)
		assert.ErrorContains(t, err, "services cannot be drawn: use 10 to 1000")
	}
	a, _ := DraftRandom(50, 3)
	b, _ := DraftRandom(50, 3)
	assert.Equal(t, a, b)
}

// The fleet of the library is one of those: go test -run Fleet -update writes it.
func TestFleet_of_the_library_is_drawn(t *testing.T) {
	const file = "scenarios/fleet-100.yaml"
	f := drawFleet(100, 2)
	want := f.text(`# A fleet of 100 services: half of those that call others call four or fewer, one in ten about 13 or more, up to six calls below the
# entry, and about 19 calls for each request. The leaf with the most callers is down for a while. With --duration 1000s it is a
# million requests. It is the one that "storm draft --random --services 100 --seed 2" draws.
# Source of depth and fan-out: the figures of Meta's traces of December 2022, facebookresearch/distributed_traces.
`, "duration: 6s\ncells: 2\n", 1002, "", `faults:
  - {kind: error, service: `+f.weakest()+`, from: 2s, until: 4s}
variants:
  - name: chainbudget
expect:
  - {metric: load, service: `+f.weakest()+`, max: 1.1}
  - {metric: retries, max: 0.2}
  - {metric: mean_radius, max: 1.3}
`)
	if *update {
		require.NoError(t, os.WriteFile(file, want, 0o644))
		return
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(data))
}
