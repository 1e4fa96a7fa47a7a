package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
	"github.com/chainbudget/chainbudget-go/profiles"
	"github.com/spf13/cobra"
)

// libraryNames are the names of the scenarios of the library.
func libraryNames() []string {
	files, err := fs.Glob(stormlab.Library(), "*.yaml")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(file, ".yaml")
	}
	return files
}

// librarian returns a scenario of the library as text, nil if there is none of that name.
func librarian(name string) (text []byte, file string) {
	file = name + ".yaml"
	text, err := fs.ReadFile(stormlab.Library(), file)
	if err != nil {
		return nil, ""
	}
	return text, file
}

// completeScenario completes to names of the library, to files that may be scenarios, and to folders, in which there may be some.
func completeScenario(begun string) (names []string, d cobra.ShellCompDirective) {
	for _, name := range libraryNames() {
		if strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	}
	d = cobra.ShellCompDirectiveNoFileComp
	found, _ := filepath.Glob(begun + "*") // the error is a pattern that matches nothing
	for _, path := range found {
		info, err := os.Stat(path)
		switch ext := filepath.Ext(path); {
		case err != nil:
		case info.IsDir():
			names = append(names, path+string(filepath.Separator))
			d |= cobra.ShellCompDirectiveNoSpace // the name goes on
		case ext == ".yaml" || ext == ".yml":
			names = append(names, path)
		}
	}
	return names, d
}

func stormListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the scenarios of the library",
		Example: `  chainbudget storm list
  chainbudget storm run uber-chain`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			table := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, name := range libraryNames() {
				text, _ := librarian(name)
				fmt.Fprintf(table, "%s\t%s\n", name, firstSentence(string(text)))
			}
			return table.Flush()
		},
	}
}

// firstSentence returns that of the remark on top of a file.
func firstSentence(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		rest, remark := strings.CutPrefix(line, "#")
		if !remark {
			break
		}
		words = append(words, strings.Fields(rest)...)
	}
	for i, word := range words {
		if strings.HasSuffix(word, ".") || strings.HasSuffix(word, ":") {
			return strings.Join(words[:i], " ") + " " + strings.TrimRight(word, ".:")
		}
	}
	return strings.Join(words, " ")
}

func stormShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Print a scenario of the library, to begin one's own with",
		Example: `  chainbudget storm show grab-and-go > ours.yaml
  chainbudget storm run ours.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("storm show: %d arguments: name one of %s", len(args), strings.Join(libraryNames(), ", "))
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return libraryNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			text, _ := librarian(args[0])
			if text == nil {
				return fmt.Errorf("storm show: %.64q is no scenario of the library: name one of %s", args[0], strings.Join(libraryNames(), ", "))
			}
			_, err := c.OutOrStdout().Write(text)
			return err
		},
	}
}

func stormDraftCommand() *cobra.Command {
	var (
		random   bool
		services int
		seed     uint64
	)
	c := &cobra.Command{
		Use:   "draft EDGES | draft --random",
		Short: "Draft a scenario from a list of who calls whom, or at random",
		Long: `Reads EDGES, a file of lines "caller,callee" or "caller,callee,calls", where calls is how many a request at the caller makes on
average, from standard input where EDGES is -, and prints a scenario to be edited: a service with 5 ms of work for each name, traffic wherever nobody calls, and a
fault of the service that most paths lead to.

With --random the fleet is drawn, with the depth and fan-out that are published of Meta's, and 20 calls for each request at most. Each seed
draws another one.`,
		Example: `  chainbudget storm draft edges.csv > ours.yaml
  chainbudget storm run ours.yaml
  ./edges-of-our-traces.sh | chainbudget storm draft - > ours.yaml

  chainbudget storm draft --random --services 50 --seed 7 > drawn.yaml
  chainbudget storm run drawn.yaml --report drawn.html`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case random && len(args) > 0:
				return fmt.Errorf("storm draft: --random reads no file: leave out %.64q", args[0])
			case !random && (c.Flags().Changed("services") || c.Flags().Changed("seed")):
				return errors.New("storm draft: --services and --seed are for a fleet that is drawn: add --random")
			case !random && len(args) != 1:
				return fmt.Errorf("storm draft: %d arguments: name one file, or write --random", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			text, err := drafted(c.InOrStdin(), random, services, seed, args)
			if bad := (*profiles.CatalogError)(nil); errors.As(err, &bad) {
				fmt.Fprintf(c.ErrOrStderr(), "%v\n", bad)
				return errFindings
			}
			if err == nil {
				_, err = c.OutOrStdout().Write(text)
			}
			return err
		},
	}
	c.Flags().BoolVar(&random, "random", false, "draw a fleet instead of reading one")
	c.Flags().IntVar(&services, "services", 100, "how many services are drawn, 10 to 1000")
	c.Flags().Uint64Var(&seed, "seed", 1, "which fleet is drawn")
	return c
}

func drafted(stdin io.Reader, random bool, services int, seed uint64, args []string) ([]byte, error) {
	if random {
		return stormlab.DraftRandom(services, seed)
	}
	if args[0] == "-" {
		return stormlab.Draft(stdin, "stdin")
	}
	file, err := os.Open(args[0])
	if err != nil {
		return nil, fmt.Errorf("storm draft: the list of calls cannot be read: %w; name a file of lines caller,callee, or - for standard input", err)
	}
	defer file.Close()
	return stormlab.Draft(file, args[0])
}
