package stormlab

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write scenarios/fleet-100.yaml instead of comparing with it")

// fanOuts are the published quantiles of how many others a service calls that calls any: 4 at the median, 7, 13 and 22 at 75, 90
// and 95 %. The last is where this fleet cuts it off.
var fanOuts = []struct{ share, calls float64 }{{0, 1}, {.5, 4}, {.75, 7}, {.9, 13}, {.95, 22}, {1, 30}}

func fanOut(share float64) int {
	for i, to := range fanOuts[1:] {
		if from := fanOuts[i]; share <= to.share {
			return int(from.calls + (to.calls-from.calls)*(share-from.share)/(to.share-from.share) + .5)
		}
	}
	return 0
}

// fleet draws the services of the library's fleet: in seven layers, so that no path has more than six calls. A service calls some
// of the two layers below its own; 39 of a hundred call nobody, as published.
func fleet() *Scenario {
	const seed, most, silent = 2, 19.5, .39
	s := new(Scenario)
	layer := []int{}
	for depth, size := range []int{6, 18, 28, 24, 14, 7, 3} {
		for range size {
			s.Services = append(s.Services, Service{Name: fmt.Sprintf("s%02d", len(layer))})
			layer = append(layer, depth)
		}
	}
	source := streamOf(seed, 0, "fleet", "100")
	called := make([]bool, len(layer))
	call := func(from, to int) {
		called[to] = true
		s.Services[from].Calls = append(s.Services[from].Calls, Call{To: s.Services[to].Name})
	}
	for i := range layer {
		draw := func(what draws) float64 { return source.share(uint64(i), what) }
		if layer[i] > 0 && draw(drawFailure) < silent {
			continue
		}
		var below []int
		for k := range layer {
			if layer[k] > layer[i] && layer[k] <= layer[i]+2 {
				below = append(below, k)
			}
		}
		slices.SortFunc(below, func(a, b int) int {
			if draw(drawCall+draws(a)<<8) < draw(drawCall+draws(b)<<8) {
				return -1
			}
			return 1
		})
		below = below[:min(fanOut(draw(drawWork)), len(below))]
		slices.Sort(below)
		for _, to := range below {
			call(i, to)
		}
		s.Services[i].Parallel = draw(drawFault) < .3
	}
	for i := range layer { // whoever nobody calls is called by the service above it that is next
		if layer[i] > 0 && !called[i] {
			call(slices.Index(layer, layer[i]-1), i)
		}
	}
	// One share for all calls, the largest with which a request makes no more than most of them.
	var low, high float64 = 0, 1
	for range 40 {
		middle := (low + high) / 2
		for i := range s.Services {
			for k := range s.Services[i].Calls {
				s.Services[i].Calls[k].Share = float64(int(middle*1000)) / 1000
			}
		}
		if s.callsEach(6) > most {
			high = middle
		} else {
			low = middle
		}
	}
	return s
}

// callsEach is how many calls a request makes on average, over the first services.
func (s *Scenario) callsEach(first int) (sum float64) {
	for _, row := range s.visitsOf()[:first] {
		for _, n := range row {
			sum += n
		}
		sum-- // the request itself
	}
	return sum / float64(first)
}

// The fleet of the library is the one that is drawn here, with the published figures: go test -run Fleet -update writes it.
func TestFleet_is_drawn(t *testing.T) {
	s := fleet()
	var fans []int
	callers := map[string]int{}
	for i := range s.Services {
		if n := len(s.Services[i].Calls); n > 0 {
			fans = append(fans, n)
		}
		for _, c := range s.Services[i].Calls {
			callers[c.To]++
		}
	}
	slices.Sort(fans)
	assert.InDelta(t, 4, fans[len(fans)/2], 1, "median of the calls of those that call")
	assert.InDelta(t, 13, fans[len(fans)*9/10], 4, "90 % of them")
	assert.InDelta(t, 19, s.callsEach(6), 1, "calls for each request")

	leaf, most := "", 0
	for i := range s.Services {
		if n := callers[s.Services[i].Name]; len(s.Services[i].Calls) == 0 && n > most {
			leaf, most = s.Services[i].Name, n
		}
	}
	var b bytes.Buffer
	b.WriteString(`# A fleet of 100 services: half of those that call others call four or fewer, one in ten about 13 or more, up to six calls below the
# entry, and about 19 calls for each request. The leaf with the most callers is down for a while. With --duration 1000s it is a
# million requests.
# Source of depth and fan-out: the figures of Meta's traces of December 2022, facebookresearch/distributed_traces; the graph itself
# is drawn, by fleet_test.go.
version: 1
seed: 1
duration: 6s
cells: 2
services:
`)
	for i := range s.Services {
		service := &s.Services[i]
		work := "{p50: 1ms, p99: 10ms}"
		if i < 6 {
			work = "200us"
		}
		fmt.Fprintf(&b, "  - {name: %s, work: %s", service.Name, work)
		if service.Parallel {
			b.WriteString(", parallel: true")
		}
		var calls []string
		for _, c := range service.Calls {
			calls = append(calls, fmt.Sprintf("{to: %s, share: %v}", c.To, c.Share))
		}
		if len(calls) > 0 {
			b.WriteString(", calls: [" + strings.Join(calls, ", ") + "]")
		}
		b.WriteString("}\n")
	}
	b.WriteString("traffic:\n")
	for i := range 6 {
		fmt.Fprintf(&b, "  - {to: s%02d, rate: 167}\n", i)
	}
	fmt.Fprintf(&b, "faults:\n  - {kind: error, service: %s, from: 2s, until: 4s}\nvariants:\n  - name: chainbudget\nexpect:\n", leaf)
	fmt.Fprintf(&b, "  - {metric: load, service: %s, max: 1.1}\n  - {metric: retries, max: 0.2}\n", leaf)

	const file = "scenarios/fleet-100.yaml"
	if *update {
		require.NoError(t, os.WriteFile(file, b.Bytes(), 0o644))
		return
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, b.String(), string(data))
}
