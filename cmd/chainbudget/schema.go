package main

import (
	"github.com/chainbudget/chainbudget-go/profiles"
	"github.com/spf13/cobra"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of catalogs, for editors",
		Long: `Prints the JSON Schema (draft 7) of catalog files. An editor that knows it completes keys, shows what they do, and marks
what is wrong while you type. It knows less than catalog check does.`,
		Example: `  chainbudget catalog schema > catalog.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(profiles.Schema())
			return err
		},
	}
}
