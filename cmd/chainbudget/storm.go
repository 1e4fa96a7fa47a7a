package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
	"github.com/chainbudget/chainbudget-go/profiles"
	"github.com/spf13/cobra"
)

func stormCommand() *cobra.Command {
	storm := &cobra.Command{
		Use:   "storm",
		Short: "See what a fleet's retries do when something fails, in virtual time",
		Example: `  chainbudget storm list
  chainbudget storm run metastable
  chainbudget storm draft edges.csv > ours.yaml`,
		Args: cobra.NoArgs,
		RunE: needsCommand,
	}
	storm.AddCommand(stormRunCommand(), stormListCommand(), stormShowCommand(), stormDraftCommand())
	return storm
}

func stormRunCommand() *cobra.Command {
	var (
		catalogs []string
		seed     uint64
		duration time.Duration
		page     string
	)
	c := &cobra.Command{
		Use:   "run SCENARIO",
		Short: "Run a scenario and compare its variants",
		Long: `SCENARIO is a file, or the name of a scenario of the library (see "storm list").

Runs the services, the traffic and the faults that SCENARIO describes, once for each of its variants, and prints what came of
them side by side. What retries is the SDK itself, or what another system does; time is virtual. The same scenario with the
same seed gives the same numbers on every machine.

With --catalog the scenario's variants are replaced by the SDK on each of the catalogs named. Thresholds that name one of the
scenario's own variants are left out then.

An interrupt ends the run; what had happened by then is printed. So it is when more than 200,000 requests and calls are under way at
once, which no fleet is meant to have: that says where they wait.

Exit status: 0 if every threshold of the scenario is kept; 1 if one is missed, or the scenario has problems; 2 if it cannot be
read, or the run ended before its time.`,
		Example: `  chainbudget storm run metastable
  chainbudget storm run ledger-down.yaml --catalog main/retry-catalog.yaml --catalog retry-catalog.yaml
  chainbudget storm run grab-and-go --report storm.html
  chainbudget storm run ledger-down.yaml --format json > result.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("storm run: %d arguments: name one scenario", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return completeScenario(begun)
		},
	}
	c.Flags().StringArrayVar(&catalogs, "catalog", nil, "compare the SDK on these catalogs, each a file or a folder")
	c.Flags().Uint64Var(&seed, "seed", 0, "in place of the scenario's")
	c.Flags().DurationVar(&duration, "duration", 0, "how long requests come, in place of the scenario's")
	c.Flags().StringVar(&page, "report", "", "write a report with plots into this file, as HTML that needs no network")
	format := addFormat(c, "how the result is printed", "text", "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := writable(page); err != nil {
			return fmt.Errorf("storm run: the report cannot be written: %w", err)
		}
		scenario, err := loadScenario(c, args[0])
		if err != nil {
			return err
		}
		if c.Flags().Changed("seed") {
			scenario.Seed = seed
		}
		leftOut, err := replaceCatalogs(c, scenario, catalogs)
		if err != nil {
			return err
		}
		if c.Flags().Changed("duration") {
			scenario.Duration = duration
			if err := scenario.Validate(); err != nil {
				return fmt.Errorf("storm run: the scenario does not fit --duration %v: %s", duration, onOneLine(err))
			}
		}
		result, err := runScenario(c, scenario)
		if result == nil {
			return err
		}
		outcome := &outcome{result, leftOut}
		if page != "" {
			if err := writeReport(page, scenario, outcome); err != nil {
				return err
			}
		}
		out := c.OutOrStdout()
		if format.value == "json" {
			err = writeJSON(out, outcome)
		} else {
			err = writeResult(out, scenario, result)
		}
		switch {
		case err != nil:
			return err
		case result.Partial:
			return fmt.Errorf("storm run: %s: %w", ended(result), errPartial)
		case !result.Pass():
			return errFindings
		}
		return nil
	}
	return c
}

// outcome is a result with what the command has changed.
type outcome struct {
	*stormlab.Result
	// LeftOut is how many thresholds name variants that are not there, because of --catalog.
	LeftOut int `json:"thresholds_left_out,omitempty"`
}

// leftOut says so.
func (o *outcome) leftOut() string {
	if o.LeftOut == 0 {
		return ""
	}
	verb := "they name"
	if o.LeftOut == 1 {
		verb = "it names"
	}
	return fmt.Sprintf("%s left out: %s variants of the scenario", count(o.LeftOut, "threshold", "thresholds"), verb)
}

// ended is why a result is partial.
func ended(r *stormlab.Result) string {
	if r.Ended != "" {
		return r.Ended
	}
	return "interrupted"
}

// loadScenario prints the problems of a scenario that has any, which ends the command.
func loadScenario(c *cobra.Command, path string) (*stormlab.Scenario, error) {
	scenario, err := stormlab.LoadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if text, name := librarian(path); text != nil {
			scenario, err = stormlab.Load(text, name)
		} else {
			return nil, fmt.Errorf("storm run: there is no file %.256q, and no scenario of the library has that name; \"chainbudget storm list\" lists those that it has", path)
		}
	}
	if bad := (*profiles.CatalogError)(nil); errors.As(err, &bad) {
		fmt.Fprintf(c.ErrOrStderr(), "%v\n", bad)
		return nil, errFindings
	}
	return scenario, err
}

// replaceCatalogs makes one variant of each catalog, named by what tells their paths apart.
// It returns how many thresholds went with the variants that they name.
func replaceCatalogs(c *cobra.Command, s *stormlab.Scenario, paths []string) (leftOut int, err error) {
	if len(paths) == 0 {
		return 0, nil
	}
	s.Variants = nil
	for _, path := range paths {
		catalog, err := load(c, path)
		if err != nil {
			return 0, err
		}
		if !pinsAny(catalog, s) {
			fmt.Fprintf(c.ErrOrStderr(), "warning: %s pins a profile for none of the services of %s: all of them run on read-heavy\n", path, s.Name)
		}
		s.Variants = append(s.Variants, stormlab.Variant{Name: filepath.ToSlash(filepath.Clean(path)), Catalog: catalog})
	}
	var kept []stormlab.Threshold
	for _, e := range s.Expect {
		if e.Variant == "" {
			kept = append(kept, e)
		}
	}
	leftOut, s.Expect = len(s.Expect)-len(kept), kept
	if leftOut > 0 {
		fmt.Fprintln(c.ErrOrStderr(), (&outcome{LeftOut: leftOut}).leftOut())
	}
	if err := s.Validate(); err != nil { // the same catalog twice, or one with a profile that the lab does not run
		return 0, fmt.Errorf("storm run: %s", onOneLine(err))
	}
	return leftOut, nil
}

// onOneLine is what is wrong with a scenario that was right until a flag changed it.
func onOneLine(err error) string {
	return strings.NewReplacer("\nstormlab: ", "; ", "\n", "; ").Replace(strings.TrimPrefix(err.Error(), "stormlab: "))
}

// pinsAny reports whether a catalog says anything about one of a scenario's services.
func pinsAny(catalog *profiles.Catalog, s *stormlab.Scenario) bool {
	return slices.ContainsFunc(s.Services, func(service stormlab.Service) bool {
		_, known := catalog.Dependencies[service.Name]
		return known
	})
}

// runScenario runs until the end or an interrupt.
func runScenario(c *cobra.Command, s *stormlab.Scenario) (*stormlab.Result, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// What lives is small and what dies is much: collecting less often saves a quarter of the time, for some hundred megabytes.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	requests, calls := s.Expected()
	fmt.Fprintf(c.ErrOrStderr(), "%s: running %s, %v of traffic each: about %s, and %s if nothing fails\n", s.Name, count(len(s.Variants), "variant", "variants"), s.Duration,
		count(int(requests+.5), "request", "requests"), count(int(calls+.5), "call", "calls"))
	progress, end := newProgress(c.ErrOrStderr(), s.Name)
	defer end()
	return s.Run(ctx, progress)
}
