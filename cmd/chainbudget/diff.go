package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/chainbudget/chainbudget-go/profiles"
	"github.com/spf13/cobra"
)

func diffCommand() *cobra.Command {
	var exitCode bool
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare what two catalogs come to, and say what that means for the load",
		Long: `Compares effective values: what holds for each dependency after inheritance, pins, modes and overrides, whatever the files
look like. Below each change stands what it means for the load, with numbers.

Exit status: 0, whether they differ or not; with --exit-code 1 if they differ; 1 if one of them has problems; 2 if one
cannot be read.`,
		Example: `  chainbudget catalog diff main/retry-catalog.yaml retry-catalog.yaml
  git show origin/main:retry-catalog.yaml > old.yaml && chainbudget catalog diff old.yaml retry-catalog.yaml --format markdown`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("catalog diff: %d arguments: name the old catalog and the new one", len(args))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 1 if they differ")
	format := addFormat(c, "how it is printed", "text", "markdown", "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		old, err := load(c, args[0])
		if err != nil {
			return err
		}
		new, err := load(c, args[1])
		if err != nil {
			return err
		}
		changes := profiles.Diff(old, new)
		out := c.OutOrStdout()
		switch format.value {
		case "json":
			err = writeJSON(out, changesOf(old, new, changes))
		case "markdown":
			err = writeMarkdown(out, changes)
		default:
			err = writeTable(out, changes)
		}
		if err == nil && exitCode && len(changes) > 0 {
			return errFindings
		}
		return err
	}
	return c
}

// noChanges is what is printed in the place of an empty table.
const noChanges = "no difference in what holds"

// writeTable writes the changes of each subject in columns, and below each one what it means.
func writeTable(w io.Writer, changes []profiles.Change) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintln(w, noChanges)
		return err
	}
	const widest = 36 // of a column; longer values stand out of it
	var keys, olds int
	for _, c := range changes {
		keys = max(keys, min(utf8.RuneCountInString(c.Key), widest))
		olds = max(olds, min(utf8.RuneCountInString(c.Old), widest))
	}
	var b strings.Builder
	subject := ""
	for _, c := range changes {
		if c.Subject != subject {
			subject = c.Subject
			b.WriteString(subject + "\n")
		}
		fmt.Fprintf(&b, "  %-*s  %-*s -> %s\n", keys, c.Key, olds, c.Old, c.New)
		for _, m := range c.Means {
			b.WriteString("      " + m + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeMarkdown writes one table for each subject, for the remark of a CI job below a proposed change.
func writeMarkdown(w io.Writer, changes []profiles.Change) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintln(w, "The catalog changes, and "+noChanges+".")
		return err
	}
	var b strings.Builder
	subject := ""
	for _, c := range changes {
		if c.Subject != subject {
			if subject != "" {
				b.WriteString("\n")
			}
			subject = c.Subject
			b.WriteString("**" + cell(subject) + "**\n\n| key | old | new | what it means |\n|---|---|---|---|\n")
		}
		means := make([]string, len(c.Means))
		for i, m := range c.Means {
			means[i] = cell(m)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(c.Key), cell(c.Old), cell(c.New), strings.Join(means, "<br>"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cellEscapes keeps what a catalog's author chose, such as names, from being read as Markdown or HTML.
var cellEscapes = strings.NewReplacer("\\", "\\\\", "|", "\\|", "<", "&lt;", ">", "&gt;", "&", "&amp;", "*", "\\*", "_", "\\_", "`", "\\`",
	"[", "\\[", "]", "\\]", "@", "&#64;", "#", "&#35;", "\n", " ")

func cell(s string) string { return cellEscapes.Replace(s) }

// changesOf is the JSON form of a comparison.
func changesOf(old, new *profiles.Catalog, changes []profiles.Change) any {
	type change struct {
		Subject string   `json:"subject"`
		Key     string   `json:"key"`
		Old     string   `json:"old"`
		New     string   `json:"new"`
		Means   []string `json:"means"`
	}
	list := make([]change, len(changes))
	for i, c := range changes {
		list[i] = change(c)
		if list[i].Means == nil {
			list[i].Means = []string{}
		}
	}
	return struct {
		Old     string   `json:"old_digest"`
		New     string   `json:"new_digest"`
		Changes []change `json:"changes"`
	}{old.Digest(), new.Digest(), list}
}
