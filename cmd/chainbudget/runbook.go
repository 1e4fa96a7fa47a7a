package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/chainbudget/chainbudget-go/profiles"
	"github.com/spf13/cobra"
)

func runbookCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "runbook PATH",
		Short: "Print in which order to disable retries in a retry storm",
		Long: `Prints, as Markdown, the order in which to disable the retries to a catalog's dependencies: those first whose retries add
the most load and save the least. Each step has the exact change of the catalog, the owner to call, and why it is where it is.
Print it when the catalog changes and keep it where whoever is on call finds it. What to look at before and after each step
is in docs/runbook.md.

Exit status: 0; 1 if the catalog has problems; 2 if it cannot be read.`,
		Example: `  chainbudget runbook catalog/ > runbook.md`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("runbook: name one catalog, a file or a folder")
			}
			return nil
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		catalog, err := load(c, args[0])
		if err != nil {
			return err
		}
		return writeRunbook(c.OutOrStdout(), catalog)
	}
	return c
}

// retried is a dependency whose retries can be disabled, with what decides its place.
type retried struct {
	profiles.Effective
	pinned  bool // else code names the profile, and the catalog cannot tell what it adds
	outage  profiles.Outage
	waits   bool // somebody waits for the answer: the profile does not come from background
	hedges  bool
	already bool // switched off
}

func retriedOf(c *profiles.Catalog, name string) retried {
	e, _ := c.Resolve(name, "") // without a pin it has a profile of one attempt
	r := retried{Effective: e, pinned: e.Pinned, waits: true, already: e.RetriesDisabled}
	if r.pinned {
		r.outage = c.Outage(name, "")
		r.hedges = e.Profile.Hedge.Enabled() && r.outage.PerCall > 0
	}
	for p := e.Profile; p != nil; p = c.Profiles[p.Extends] {
		if p.Name == profiles.Background {
			r.waits = false
		}
	}
	return r
}

// cost orders what a failure costs: those retries go first that save the least.
func (r *retried) cost() int {
	switch {
	case r.OnFailure == profiles.OnFailureOpen:
		return 0
	case !r.waits:
		return 1
	case r.OnFailure == profiles.OnFailureClosed:
		return 3
	default:
		return 2
	}
}

// theRule says what compare does.
const theRule = `1. Retries that go on for as long as an outage lasts come before those that a bucket ends; what only code names a profile for, and so is
   not known here, comes last.
2. Of those that go on, the larger share of extra requests comes first; of those that end, the larger number in each process.
3. Where these are equal: what fails open (its caller answers without it), then what nobody waits for (profiles that extend
   ` + "`background`" + `), then what declares nothing, then what fails closed.
4. Then what hedges (it adds requests before anything has failed), then the more attempts, then the name.
`

func compare(a, b retried) int {
	first := func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case a:
			return -1
		}
		return 1
	}
	return cmp.Or(
		first(a.pinned, b.pinned),
		cmp.Compare(b.outage.Share, a.outage.Share), // of those that end it is 0
		cmp.Compare(b.outage.PerSecond, a.outage.PerSecond),
		cmp.Compare(b.outage.AtMost, a.outage.AtMost),
		cmp.Compare(a.cost(), b.cost()),
		first(a.hedges, b.hedges),
		cmp.Compare(b.outage.PerCall, a.outage.PerCall),
	)
}

// why says why it has its place.
func (r *retried) why() string {
	if !r.pinned {
		return "code names its profile: look at `chainbudget_retries_total` for what it adds"
	}
	why := []string{"in an outage: " + r.outage.String()}
	if r.outage.Ends {
		why[0] += " (in each process)"
	}
	if r.hedges {
		why = append(why, "it hedges before anything has failed")
	}
	switch r.cost() {
	case 0:
		why = append(why, "its callers answer without it")
	case 1:
		why = append(why, "nobody waits for it")
	case 2:
		why = append(why, "what its failure costs is not declared")
	case 3:
		why = append(why, "its failure fails its callers, so its retries save requests")
	}
	return strings.Join(why, "; ")
}

func writeRunbook(w io.Writer, c *profiles.Catalog) error {
	var steps, left []retried
	for _, name := range slices.Sorted(maps.Keys(c.Dependencies)) {
		r := retriedOf(c, name)
		if r.already || r.pinned && r.outage.PerCall == 0 || r.Mode == profiles.ModeBypass {
			left = append(left, r)
		} else {
			steps = append(steps, r)
		}
	}
	slices.SortStableFunc(steps, compare) // they stand by name

	var b strings.Builder
	fmt.Fprintf(&b, "# Retries to disable, in order\n\nMade by `chainbudget runbook` of the catalog with digest %s. When, what to look at between the steps, and\n"+
		"what to do afterwards: [runbook.md](https://github.com/chainbudget/chainbudget-go/blob/main/docs/runbook.md).\n", c.Digest())
	b.WriteString("\n## The order\n\n" + theRule + "\nWho calls what is not in a catalog. Of two that are alike, begin with the one that more retries go to at the moment:\n\n" +
		"    topk(5, sum by (chainbudget_dependency) (rate(chainbudget_retries_total[2m])))\n")
	if len(steps) == 0 {
		b.WriteString("\nThere is nothing to disable: no dependency of the catalog is retried.\n")
	} else {
		b.WriteString("\n| step | dependency | owner to call | retries of a call | why here |\n|---|---|---|---|---|\n")
	}
	for i, r := range steps {
		retries := "not known"
		if r.pinned {
			retries = fmt.Sprint(r.outage.PerCall)
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", i+1, cell(r.Dependency), cell(owner(r)), retries, r.why())
	}
	off := slices.Sorted(maps.Keys(c.Overrides.Dependencies))
	for i, r := range steps {
		off = append(off, r.Dependency)
		fmt.Fprintf(&b, "\n## Step %d: %s\n\nCall %s. Then `overrides.yaml` of a folder, or the key `overrides` of a file, is:\n\n```yaml\n%s```\n", i+1, cell(r.Dependency), cell(owner(r)), overrides(off))
	}
	fmt.Fprintf(&b, "\n## Everything at once\n\nAlso for dependencies that only code names:\n\n```yaml\n%s```\n", "version: 1\noverrides: {retries: disabled}\n")
	b.WriteString("\n## Back again\n\nThe steps backwards: put the `overrides` of the step before in force, wait until the numbers stand still, then the next.")
	if len(steps) > 0 {
		fmt.Fprintf(&b, " After\nstep 1 comes what the catalog had:\n\n```yaml\n%s```\n", overrides(slices.Sorted(maps.Keys(c.Overrides.Dependencies))))
	} else {
		b.WriteString("\n")
	}
	if len(left) > 0 {
		b.WriteString("\n## Not in the list\n\n")
		for _, r := range left {
			fmt.Fprintf(&b, "- %s: %s\n", cell(r.Dependency), notListed(r))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func owner(r retried) string {
	if r.Owner == "" {
		return "nobody named"
	}
	return r.Owner
}

func notListed(r retried) string {
	switch {
	case r.already:
		return "its retries are disabled already"
	case r.Mode == profiles.ModeBypass:
		return "mode `bypass`: the SDK does not retry it"
	default:
		return "its profile, or the chain's budget, allows no retry"
	}
}

// overrides is a catalog, or the file of a folder, that disables retries to dependencies.
func overrides(dependencies []string) string {
	if len(dependencies) == 0 {
		return "version: 1\n"
	}
	slices.Sort(dependencies)
	var b strings.Builder
	b.WriteString("version: 1\noverrides:\n  dependencies:\n")
	for _, name := range slices.Compact(dependencies) {
		if !plainName.MatchString(name) || slices.Contains(notText, name) {
			name = strconv.Quote(name)
		}
		fmt.Fprintf(&b, "    %s: {retries: disabled}\n", name)
	}
	return b.String()
}

// What YAML takes for text without quotes, and what of it for something else.
var (
	plainName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	notText   = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
)
