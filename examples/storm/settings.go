package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chainbudget/chainbudget-go/examples/storm/chain"
	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

// settings is what the flags say.
type settings struct {
	Depth    int           `json:"depth"`
	Failing  string        `json:"fail"`
	Rate     int           `json:"rate"`
	Duration time.Duration `json:"duration_ns"`
	Budget   int           `json:"budget"`
	Seed     uint64        `json:"seed"`

	json    bool
	out     string
	failing int // index of Failing
}

// The chain that was published has seven services, A to G.
const publishedNodes = 7

// The ranges of the flags: within them a run ends in less than a minute on two cores.
const (
	maxDepth    = 7
	minRate     = 160 // below, a full queue outlasts the attempts that wait in it
	maxRate     = 400
	minDuration = 10 * time.Second // shorter phases hold no full queue and no second to recover in
	maxDuration = 40 * time.Second
	maxBudget   = 5
)

// parse reads the flags. Its error is one line, or flag.ErrHelp after help has been written to w.
func parse(args []string, w io.Writer) (settings, error) {
	s := settings{}
	set := flag.NewFlagSet("storm", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.IntVar(&s.Depth, "depth", 5, fmt.Sprintf("calls from the first to the last `service` of the deep chain, 1 to %d", maxDepth))
	set.StringVar(&s.Failing, "fail", "D", fmt.Sprintf("the `service` that fails in the chain A to %s", chain.Name(publishedNodes-1)))
	set.IntVar(&s.Rate, "rate", 200, fmt.Sprintf("`payments` a second, a multiple of %d, %d to %d", incident.RateStep, minRate, maxRate))
	set.DurationVar(&s.Duration, "duration", 24*time.Second, fmt.Sprintf("`length` of the incident, %s to %s", minDuration, maxDuration))
	set.IntVar(&s.Budget, "budget", 3, fmt.Sprintf("`tokens` of each chain, 1 to %d", maxBudget))
	set.Uint64Var(&s.Seed, "seed", 1, "`number` that arrivals and failures are drawn from")
	set.BoolVar(&s.json, "json", false, "write the numbers as JSON instead of tables")
	set.StringVar(&s.out, "out", "storm-report.html", "`file` for the report")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(w, "usage: storm [flags]")
			set.SetOutput(w)
			set.PrintDefaults()
			return s, flag.ErrHelp
		}
		first, _, _ := strings.Cut(err.Error(), "\n")
		return s, fmt.Errorf("%s (storm -h lists the flags)", first)
	}
	return s, s.check(set.Args())
}

func (s *settings) check(rest []string) error {
	s.Failing = strings.ToUpper(s.Failing)
	if len(s.Failing) == 1 {
		s.failing = int(s.Failing[0]) - 'A'
	} else {
		s.failing = -1
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is no flag: storm takes flags only", rest[0])
	case s.Depth < 1 || s.Depth > maxDepth:
		return fmt.Errorf("-depth %d: use 1 to %d", s.Depth, maxDepth)
	case s.failing < 0 || s.failing >= publishedNodes:
		return fmt.Errorf("-fail %q: use one letter, A to %s", s.Failing, chain.Name(publishedNodes-1))
	case s.Rate < minRate || s.Rate > maxRate || s.Rate%incident.RateStep != 0:
		return fmt.Errorf("-rate %d: use a multiple of %d, %d to %d", s.Rate, incident.RateStep, minRate, maxRate)
	case s.Duration < minDuration || s.Duration > maxDuration:
		return fmt.Errorf("-duration %s: use %s to %s", s.Duration, minDuration, maxDuration)
	case s.Budget < 1 || s.Budget > maxBudget:
		return fmt.Errorf("-budget %d: use 1 to %d", s.Budget, maxBudget)
	}
	return s.checkOut()
}

// checkOut finds out before the run whether its report can be written after it.
func (s *settings) checkOut() error {
	if s.out == "" {
		return errors.New("-out is empty: name a file")
	}
	if info, err := os.Stat(s.out); err == nil && info.IsDir() {
		return fmt.Errorf("-out %q is a folder: name a file", s.out)
	}
	dir := filepath.Dir(s.out)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("-out %q: there is no folder %q", s.out, dir)
	}
	return nil
}
