package report

import (
	"fmt"
	"strings"

	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

// strip is the states of one breaker over a run, or the fault, as stretches of equal state.
type strip struct {
	Name, Label string
	Stretches   []stretch
}

// stretch is a number of ticks in one state.
type stretch struct {
	State, Title string
	Ticks        int
}

// strips returns the fault and the breakers of one run.
func strips(r *incident.Result, side *incident.Side) []strip {
	fault := strip{Name: "fault", Label: fmt.Sprintf("The fault lasts from %.1f s to %.1f s.", r.FaultFrom, r.FaultTo)}
	grab, goes := strip{Name: "Grab"}, strip{Name: "Go"}
	for i := range side.Ticks {
		t := &side.Ticks[i]
		state := "none"
		if t.At >= r.FaultFrom && t.At < r.FaultTo {
			state = "fault"
		}
		fault.add(state, t.At)
		grab.add(t.Breakers["grab"], t.At)
		goes.add(t.Breakers["go"], t.At)
	}
	for _, s := range []*strip{&grab, &goes} {
		s.Label = s.describe(side)
	}
	return []strip{fault, grab, goes}
}

func (s *strip) add(state string, at float64) {
	state = strings.ReplaceAll(state, "_", "-")
	if n := len(s.Stretches); n > 0 && s.Stretches[n-1].State == state {
		s.Stretches[n-1].Ticks++
		return
	}
	s.Stretches = append(s.Stretches, stretch{State: state, Title: fmt.Sprintf("%s from %.2f s", state, at), Ticks: 1})
}

// describe says how long the breaker was in each state.
func (s *strip) describe(side *incident.Side) string {
	seconds := map[string]float64{}
	for _, one := range s.Stretches {
		seconds[one.State] += float64(one.Ticks) / 4
	}
	if seconds["none"] > 0 {
		return s.Name + " has no breaker."
	}
	return fmt.Sprintf("Breaker of %s, %s: closed for %.1f s, half-open for %.1f s, open for %.1f s.",
		s.Name, side.Name, seconds["closed"], seconds["half-open"], seconds["open"])
}
