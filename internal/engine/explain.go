package engine

import (
	"slices"
	"strconv"
	"time"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// Explain says what the newest catalog makes of the dependency, where each value comes from, and what is forced upon it.
func (d *Dependency) Explain() profiles.Explanation {
	p := d.policy.Load()
	e := p.generation.catalog.Explain(d.name, d.code())
	if d.sdk.forced != profiles.ModeInherit {
		from := d.sdk.forcedBy
		if from == "" {
			from = "set for the whole SDK"
		}
		for i, l := range e.Lines {
			if l.Key == "mode" {
				e.Lines[i] = profiles.Line{Key: "mode", Value: d.sdk.forced.String(), From: from}
			}
		}
	}
	if w := d.Switch(); w.Runtime != SwitchCatalog {
		for i, l := range e.Lines {
			if l.Key == "retries" {
				e.Lines[i] = profiles.Line{Key: "retries", Value: w.Runtime.String(), From: "switched in this process at " +
					w.Since.UTC().Format(time.RFC3339) + ", until it is switched back or the process ends; the catalog says " + l.Value}
			}
		}
	}
	generation := profiles.Line{
		Key: "generation", Value: strconv.FormatInt(p.generation.number, 10),
		From: "counted by this process; 1 is what it began with",
	}
	e.Lines = slices.Insert(e.Lines, min(1, len(e.Lines)), generation)
	return e
}
