package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// The exit statuses.
const (
	exitOK       = 0
	exitFindings = 1 // what was looked for was found, and is printed
	exitUsage    = 2 // the command could not do what was asked
)

// errFindings ends a command whose findings are printed already.
var errFindings = errors.New("findings")

// errPartial ends a command that was ended before its time: no help is needed.
var errPartial = errors.New("the result is what had happened by then")

func run(args []string, stdout, stderr io.Writer) (exit int) {
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	at, err := root.ExecuteC()
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.Is(err, errPartial):
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "%v\nhelp: %s --help\n", err, at.CommandPath())
	return exitUsage
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "chainbudget",
		Short:         "Check, compare and explain catalogs of retry profiles, print a runbook, and try them in a storm",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          needsCommand,
	}
	catalog := &cobra.Command{
		Use:   "catalog",
		Short: "Work with a catalog: a file, or a folder of files",
		Args:  cobra.NoArgs,
		RunE:  needsCommand,
	}
	catalog.AddCommand(checkCommand(), diffCommand(), explainCommand(), schemaCommand())
	root.AddCommand(catalog, runbookCommand(), stormCommand())
	return root
}

// needsCommand makes a command without a subcommand an error: in a script that is a mistake.
func needsCommand(c *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("%s: say what to do: %s", c.CommandPath(), strings.Join(names, ", "))
}

// version is that of the module where it was installed with go install, else "(devel)".
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
