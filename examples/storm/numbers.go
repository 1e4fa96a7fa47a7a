package main

import (
	"encoding/json"
	"io"

	"github.com/chainbudget/chainbudget-go/examples/storm/chain"
	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

// numbers is everything that a run came to: what -json writes, and what the tables and the report are made of.
type numbers struct {
	Settings settings `json:"settings"`
	// Complete is false after an interrupt.
	Complete bool             `json:"complete"`
	Chains   []chain.Result   `json:"chains"`
	Incident *incident.Result `json:"incident"`
	// Warnings is what the SDK warned of, and what else to know.
	Warnings []string `json:"warnings"`
}

func (n *numbers) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(n)
}
