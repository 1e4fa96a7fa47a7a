package stormlab

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The bounds of a drawn fleet: fewer have not got its layers, and more are no scenario.
const (
	fleetLeast = 10
	fleetMost  = maxServices
)

// DraftRandom makes a scenario, as YAML to be edited, of a fleet that is drawn: 10 to 1,000 services, another fleet for each seed. Depth and
// fan-out are those published of Meta's traces of December 2022: half of the services that call others call four or fewer, one in
// ten about 13 or more, four of ten call nobody, and no path has more than six calls. A request makes 20 calls on average at most, for
// which all calls get one share.
//
// Requests come in, 200 a second, at the first layer. The service that most others call of those that call nobody has room for a third
// more than what comes, and takes five times as long for a while; two variants retry.
func DraftRandom(services int, seed uint64) ([]byte, error) {
	if services < fleetLeast || services > fleetMost {
		return nil, fmt.Errorf("stormlab: a fleet of %d services cannot be drawn: use %d to %d", services, fleetLeast, fleetMost)
	}
	f := drawFleet(services, seed)
	remark := fmt.Sprintf(`# A fleet of %d services, drawn with the seed %d: about %.0f calls for each request, up to %d below the entry. Of the services that call nobody
# the one that most others call is slow for a while.
# Source of depth and fan-out: the figures of Meta's traces of December 2022, facebookresearch/distributed_traces.
`, services, seed, f.callsEach(), f.depth())
	const rate = 200
	weak := weakSpot(rate * f.visitsTo(f.weakest()))
	return f.text(remark, draftTimes, rate, weak, draftStorm(f.weakest())), nil
}

// fleet is the services of a scenario in layers; requests come in at the first.
type fleet struct {
	Scenario
	layer   []int // of each service
	entries int
}

// layers is how many of a hundred services are in each: no path has more than six calls, as 99 % of the published traces.
var layers = []int{6, 18, 28, 24, 14, 7, 3}

// fanOuts are the published quantiles of how many others a service calls that calls any: 4 at the median, 7, 13 and 22 at 75, 90
// and 95 %. The last is where a drawn fleet cuts it off.
var fanOuts = []struct{ share, calls float64 }{{0, 1}, {.5, 4}, {.75, 7}, {.9, 13}, {.95, 22}, {1, 30}}

func fanOut(share float64) int {
	for i, to := range fanOuts[1:] {
		if from := fanOuts[i]; share <= to.share {
			return int(from.calls + (to.calls-from.calls)*(share-from.share)/(to.share-from.share) + .5)
		}
	}
	return 0
}

// drawFleet draws services in layers. A service calls some of the two layers below its own; 39 of a hundred call nobody, as
// published, and three of ten make their calls at once.
func drawFleet(services int, seed uint64) *fleet {
	const silent, together = .39, .3
	f := new(fleet)
	digits := len(fmt.Sprint(services - 1))
	sum := 0
	for depth, size := range layers {
		sum += size
		for len(f.layer) < max(sum*services/100, depth+1) {
			f.Services = append(f.Services, Service{Name: fmt.Sprintf("s%0*d", digits, len(f.layer))})
			f.layer = append(f.layer, depth)
		}
		if depth == 0 {
			f.entries = len(f.layer)
		}
	}
	source := streamOf(seed, 0, "fleet", fmt.Sprint(services))
	called := make([]bool, services)
	call := func(from, to int) {
		called[to] = true
		f.Services[from].Calls = append(f.Services[from].Calls, Call{To: f.Services[to].Name})
	}
	for i := range services {
		draw := func(what draws) float64 { return source.share(uint64(i), what) }
		if f.layer[i] > 0 && draw(drawFailure) < silent {
			continue
		}
		var below []int
		for k := range services {
			if f.layer[k] > f.layer[i] && f.layer[k] <= f.layer[i]+2 {
				below = append(below, k)
			}
		}
		slices.SortFunc(below, func(a, b int) int {
			return cmp.Compare(draw(drawPlace+draws(a)<<8), draw(drawPlace+draws(b)<<8))
		})
		below = below[:min(fanOut(draw(drawWork)), len(below))]
		slices.Sort(below)
		for _, to := range below {
			call(i, to)
		}
		f.Services[i].Parallel = draw(drawFault) < together
	}
	for i := range services { // whoever nobody calls is called by the first service of the layer above
		if f.layer[i] > 0 && !called[i] {
			call(slices.Index(f.layer, f.layer[i]-1), i)
		}
	}
	f.cap()
	return f
}

// cap gives all calls one share, the largest with which a request makes no more than most of them.
func (f *fleet) cap() {
	const most, parts = 19.5, 1000
	low, high := 0, parts+1 // in parts: low is few enough, and high is not
	for high-low > 1 {
		middle := (low + high) / 2
		for i := range f.Services {
			for k := range f.Services[i].Calls {
				f.Services[i].Calls[k].Share = float64(middle) / parts
			}
		}
		if f.callsEach() > most {
			high = middle
		} else {
			low = middle
		}
	}
	for i := range f.Services {
		for k := range f.Services[i].Calls {
			f.Services[i].Calls[k].Share = float64(low) / parts
		}
	}
}

// callsEach is how many calls a request makes on average, over the entries.
func (f *fleet) callsEach() (sum float64) {
	for _, row := range f.visitsOf()[:f.entries] {
		for _, n := range row {
			sum += n
		}
		sum-- // the request itself
	}
	return sum / float64(f.entries)
}

// visitsTo is how many of a request's calls go to one service on average, over the entries.
func (f *fleet) visitsTo(name string) (sum float64) {
	at := slices.IndexFunc(f.Services, func(s Service) bool { return s.Name == name })
	for _, row := range f.visitsOf()[:f.entries] {
		sum += row[at]
	}
	return sum / float64(f.entries)
}

// depth is how many calls the longest path has.
func (f *fleet) depth() (deepest int) {
	index := make(map[string]int, len(f.Services))
	below := make([]int, len(f.Services))
	for i := range f.Services {
		index[f.Services[i].Name] = i
	}
	for i := len(f.Services) - 1; i >= 0; i-- { // calls lead to later ones only
		for _, c := range f.Services[i].Calls {
			below[i] = max(below[i], below[index[c.To]]+1)
		}
		deepest = max(deepest, below[i])
	}
	return deepest
}

// weakest is the service with the most callers of those that call nobody.
func (f *fleet) weakest() (name string) {
	callers := make(map[string]int, len(f.Services))
	for i := range f.Services {
		for _, c := range f.Services[i].Calls {
			callers[c.To]++
		}
	}
	most := 0
	for i := range f.Services {
		if s := &f.Services[i]; len(s.Calls) == 0 && callers[s.Name] > most {
			name, most = s.Name, callers[s.Name]
		}
	}
	return name
}

// text writes the scenario. rate is that of all requests together, weak the limits of the weakest service, if it has any, and
// rest what follows the traffic.
func (f *fleet) text(remark, times string, rate int, weak, rest string) []byte {
	var b bytes.Buffer
	b.WriteString(remark + "version: 1\nseed: 1\n" + times + "services:\n")
	for i := range f.Services {
		s := &f.Services[i]
		work := "work: {p50: 1ms, p99: 10ms}"
		switch {
		case i < f.entries:
			work = "work: 200us"
		case weak != "" && s.Name == f.weakest():
			work = weak
		}
		fmt.Fprintf(&b, "  - {name: %s, %s", s.Name, work)
		if s.Parallel {
			b.WriteString(", parallel: true")
		}
		var calls []string
		for _, c := range s.Calls {
			if c.Share == 1 {
				calls = append(calls, c.To)
				continue
			}
			calls = append(calls, fmt.Sprintf("{to: %s, share: %v}", c.To, c.Share))
		}
		if len(calls) > 0 {
			b.WriteString(", calls: [" + strings.Join(calls, ", ") + "]")
		}
		b.WriteString("}\n")
	}
	b.WriteString("traffic:\n")
	for i := range f.entries {
		fmt.Fprintf(&b, "  - {to: %s, rate: %d}\n", f.Services[i].Name, max(rate/f.entries, 1))
	}
	b.WriteString(rest)
	return b.Bytes()
}
