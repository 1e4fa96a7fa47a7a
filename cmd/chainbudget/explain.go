package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chainbudget/chainbudget-go/profiles"
	"github.com/spf13/cobra"
)

func explainCommand() *cobra.Command {
	var path, profile string
	c := &cobra.Command{
		Use:   "explain DEPENDENCY",
		Short: "Say what holds for a dependency, and where each value comes from",
		Long: `Lists every setting that holds for the dependency, with the place in the catalog that sets it, the built-in profile that
it is inherited from, or the schema's default. What the environment of a process changes (CHAINBUDGET_MODE) is not known
here: ask the process, with Dependency.Explain.

Exit status: 0; 1 if the catalog has problems; 2 if the dependency or the profile is not known.`,
		Example: `  chainbudget catalog explain payments --catalog retry-catalog.yaml
  chainbudget catalog explain anything --profile read-heavy`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("catalog explain: %d arguments: name one dependency", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			catalog, err := profiles.LoadFile(path)
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return slices.Sorted(maps.Keys(catalog.Dependencies)), cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().StringVar(&path, "catalog", "", "catalog file or folder; without it, only the built-in profiles")
	c.Flags().StringVar(&profile, "profile", "", "the profile that code names for the dependency")
	format := addFormat(c, "how it is printed", "text", "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		catalog := profiles.Builtin()
		if path != "" {
			var err error
			if catalog, err = load(c, path); err != nil {
				return err
			}
		}
		// A dependency that only code knows is explained by the profile that code names.
		name := args[0]
		if catalog.Dependencies[name] == nil && profile == "" {
			return unknownDependency(catalog, name, path)
		}
		if _, err := catalog.Resolve(name, profiles.Name(profile)); err != nil {
			return err
		}
		explanation := catalog.Explain(name, profiles.Name(profile))
		if format.value == "json" {
			return writeJSON(c.OutOrStdout(), explained(explanation))
		}
		_, err := fmt.Fprint(c.OutOrStdout(), explanation)
		return err
	}
	return c
}

func unknownDependency(catalog *profiles.Catalog, name, path string) error {
	known := slices.Sorted(maps.Keys(catalog.Dependencies))
	switch {
	case path == "":
		return fmt.Errorf("catalog explain: there is no catalog that knows dependency %q: name it with --catalog, or a profile with --profile", name)
	case len(known) == 0:
		return fmt.Errorf("catalog explain: %s has no dependency %q, nor any other: name a profile with --profile", path, name)
	}
	return fmt.Errorf("catalog explain: %s has no dependency %q: known are %s; for one that only code names, add --profile",
		path, name, strings.Join(known, ", "))
}

// explained is the JSON form of an explanation.
func explained(e profiles.Explanation) any {
	type line struct {
		Key   string `json:"key"`
		Value string `json:"value"`
		From  string `json:"from"`
	}
	lines := make([]line, len(e.Lines))
	for i, l := range e.Lines {
		lines[i] = line(l)
	}
	return struct {
		Dependency string `json:"dependency"`
		Lines      []line `json:"lines"`
	}{e.Dependency, lines}
}
