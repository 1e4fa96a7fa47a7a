package livepage

import (
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// window is how much of the last minutes is plotted.
type window struct {
	word string // in the query
	name string // for people
	step int    // seconds that one point stands for
}

// points is how many there are in a plot.
const points = 120

var windows = []window{{"2m", "2 minutes", 1}, {"10m", "10 minutes", 5}}

// windowOf returns the window of a word, the first one for any other.
func windowOf(word string) window {
	for _, w := range windows {
		if w.word == word {
			return w
		}
	}
	return windows[0]
}

// History is what happened in each step of the window, the oldest first.
type History struct {
	StepSeconds  int               `json:"step_seconds"`
	End          time.Time         `json:"end"` // when the last step was over
	All          Series            `json:"all"`
	Dependencies map[string]Series `json:"dependencies"`
}

// Series are counts, one for each step.
type Series struct {
	Attempts []int64 `json:"attempts"`
	Failures []int64 `json:"failures"`
	Retries  []int64 `json:"retries"`
	Denials  []int64 `json:"denials"`
}

func emptyHistory(w window) History {
	return History{StepSeconds: w.step, All: seriesOf(nil, 0, w), Dependencies: map[string]Series{}}
}

func historyOf(h engine.History, ask question) History {
	w := ask.window
	out := emptyHistory(w)
	out.End, out.All = h.End.Add(-time.Duration(h.Seconds%w.step)*time.Second), seriesOf(h.All, h.Seconds, w)
	for name, rates := range h.Dependencies {
		if ask.only == "" || name == ask.only {
			out.Dependencies[text(name)] = seriesOf(rates, h.Seconds, w)
		}
	}
	return out
}

// seriesOf sums the steps that are over. They begin at the same seconds whenever one looks, so that a plot moves and does not
// flicker. end is the number of the latest second, from 1.
func seriesOf(rates []engine.Rates, end int, w window) Series {
	rates = rates[:len(rates)-end%w.step]
	n := min(len(rates)/w.step, points)
	rates = rates[len(rates)-n*w.step:]
	s := Series{make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)}
	for i, r := range rates {
		at := i / w.step
		s.Attempts[at] += int64(r.Attempts)
		s.Failures[at] += int64(r.Failures)
		s.Retries[at] += int64(r.Retries)
		s.Denials[at] += int64(r.Denials)
	}
	return s
}
