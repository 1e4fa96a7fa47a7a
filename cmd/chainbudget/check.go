package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/chainbudget/chainbudget-go/profiles"
	"github.com/spf13/cobra"
)

// checked is what was found out about one path; its JSON form is what --format json prints.
type checked struct {
	Path         string    `json:"path"`
	OK           bool      `json:"ok"`
	Digest       string    `json:"digest,omitempty"`
	Profiles     int       `json:"profiles"` // its own, without the built-in ones
	Dependencies int       `json:"dependencies"`
	Services     int       `json:"services"`
	Problems     []problem `json:"problems"`
	More         int       `json:"more"` // problems beyond those that are listed
	Warnings     []problem `json:"warnings"`
}

type problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Path   string `json:"path"`
	What   string `json:"what"`
	Fix    string `json:"fix"`
}

func checkCommand() *cobra.Command {
	var strict bool
	c := &cobra.Command{
		Use:   "check PATH...",
		Short: "List every problem and warning of a catalog",
		Long: `Reads each PATH, a catalog file or a folder of them, as the SDK does, and lists every problem and warning with its place
and how to mend it. A catalog without problems is one line that begins with "ok".

Exit status: 0 if no catalog has a problem; 1 if one has, or with --strict a warning; 2 if a path cannot be read.`,
		Example: `  chainbudget catalog check retry-catalog.yaml
  chainbudget catalog check --strict --format github catalog/`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("catalog check: there is no PATH: name a catalog file or a folder of them")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&strict, "strict", false, "fail on warnings, too")
	format := addFormat(c, "how findings are printed", "text", "json", "github")
	c.RunE = func(c *cobra.Command, args []string) error {
		var list []checked
		for _, path := range args {
			one, err := check(path)
			if err != nil {
				return err
			}
			list = append(list, one)
		}
		if err := printChecked(c.OutOrStdout(), format.value, list); err != nil {
			return err
		}
		for _, one := range list {
			if !one.OK || strict && len(one.Warnings) > 0 {
				return errFindings
			}
		}
		return nil
	}
	return c
}

func check(path string) (checked, error) {
	one := checked{Path: path, Problems: []problem{}, Warnings: []problem{}}
	catalog, err := profiles.LoadFile(path)
	if bad := (*profiles.CatalogError)(nil); errors.As(err, &bad) {
		one.Problems, one.More = problems(bad.Problems), bad.More
		return one, nil
	}
	if err != nil {
		return one, err
	}
	one.Warnings = problems(catalog.Warnings)
	one.OK, one.Digest = true, catalog.Digest()
	one.Profiles = len(catalog.Profiles) - len(profiles.Builtin().Profiles)
	one.Dependencies, one.Services = len(catalog.Dependencies), len(catalog.Services)
	return one, nil
}

func problems(list []profiles.Problem) []problem {
	out := make([]problem, len(list))
	for i, p := range list {
		out[i] = problem(p)
	}
	return out
}

func printChecked(w io.Writer, format string, list []checked) error {
	switch format {
	case "json":
		return writeJSON(w, map[string]any{"catalogs": list})
	case "github":
		for _, one := range list {
			annotate(w, one)
		}
	default:
		for _, one := range list {
			list := func(list []problem, kind string) {
				for _, p := range list {
					fmt.Fprintln(w, kind+profiles.Problem(p).String())
				}
			}
			list(one.Problems, "")
			list(one.Warnings, "warning: ")
			summarize(w, one)
		}
	}
	return nil
}

func summarize(w io.Writer, one checked) {
	if !one.OK {
		line := one.Path + ": " + count(len(one.Problems)+one.More, "problem", "problems")
		if one.More > 0 {
			line += fmt.Sprintf(", of which %d are listed", len(one.Problems))
		}
		fmt.Fprintln(w, line)
		return
	}
	line := "ok: " + count(one.Profiles, "profile", "profiles") + ", " +
		count(one.Dependencies, "dependency", "dependencies") + ", " + count(one.Services, "service", "services")
	if n := len(one.Warnings); n > 0 {
		line += ", " + count(n, "warning", "warnings")
	}
	fmt.Fprintln(w, line+", digest "+one.Digest+": "+one.Path)
}

// annotate writes what GitHub's runners turn into remarks beside the lines of a change.
func annotate(w io.Writer, one checked) {
	write := func(kind string, p problem) {
		at := ""
		if p.File != "" {
			at = " file=" + property(p.File)
			if p.Line > 0 {
				at += fmt.Sprintf(",line=%d,col=%d", p.Line, p.Column)
			}
		}
		p.File, p.Line = "", 0
		fmt.Fprintf(w, "::%s%s::%s\n", kind, at, escaped(profiles.Problem(p).String()))
	}
	for _, p := range one.Problems {
		write("error", p)
	}
	for _, p := range one.Warnings {
		write("warning", p)
	}
	if one.More > 0 {
		write("error", problem{File: one.Path, What: fmt.Sprintf("and %d problems more", one.More)})
	}
	if one.OK {
		summarize(w, one)
	}
}

var (
	messageEscapes  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscapes = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func escaped(s string) string { return messageEscapes.Replace(s) }

func property(s string) string { return propertyEscapes.Replace(s) }
