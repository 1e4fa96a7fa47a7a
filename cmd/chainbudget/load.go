package main

import (
	"errors"
	"fmt"

	"github.com/chainbudget/chainbudget-go/profiles"
	"github.com/spf13/cobra"
)

// load reads the catalog of a command that needs a good one. Its problems are printed, and end the command.
func load(c *cobra.Command, path string) (*profiles.Catalog, error) {
	catalog, err := profiles.LoadFile(path)
	if bad := (*profiles.CatalogError)(nil); errors.As(err, &bad) {
		fmt.Fprintf(c.ErrOrStderr(), "%v\n", bad)
		return nil, errFindings
	}
	return catalog, err
}
