package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// formatFlag is --format, one of a few words; the first is the default.
type formatFlag struct {
	value string
	words []string
}

func addFormat(c *cobra.Command, about string, words ...string) *formatFlag {
	f := &formatFlag{value: words[0], words: words}
	c.Flags().Var(f, "format", about+": "+strings.Join(words, ", "))
	// The only error is one of this program: a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	return f
}

// String implements pflag.Value.
func (f *formatFlag) String() string { return f.value }

// Type implements pflag.Value.
func (f *formatFlag) Type() string { return "format" }

// Set implements pflag.Value.
func (f *formatFlag) Set(s string) error {
	if !slices.Contains(f.words, s) {
		return fmt.Errorf("use one of %s", strings.Join(f.words, ", "))
	}
	f.value = s
	return nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// count writes "1 profile" and "2 profiles".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
