package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one file to write, not %d", len(args))
	}
	data, err := render()
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], data, 0o644)
}

// render returns the dashboard as the JSON that Grafana imports.
func render() ([]byte, error) {
	board, err := board().Build()
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(board, "", "  ")
	return append(data, '\n'), err
}
