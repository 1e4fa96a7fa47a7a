//go:build !race

package tables

import (
	"fmt"
	"testing"
	"time"
)

// TestT1b runs the published chain of seven services, of which the fourth fails after what it calls has answered.
func TestT1b_chain_of_seven_NoRace(t *testing.T) {
	requests := sampled(20_000)
	tab := newTable(t, "T1b", "calls of each service for each request, in Uber's chain A to G whose D fails, 1 retry a hop", fmt.Sprintf("%d requests, seed 1", requests))
	defer tab.print()
	s := fromLibrary(t, "uber-chain")
	s.Duration = time.Duration(requests) * time.Millisecond // a thousand a second
	runs := inLab(t, s)
	for _, row := range []struct {
		variant, what string
		paper         [4]float64 // A to D; E to G have what D has
	}{
		{"naive", "no budget, no ownership", [4]float64{1, 2, 4, 8}},
		{"ratio", "a budget of 10 % at every hop", [4]float64{1, 1.1, 1.21, 1.331}},
		{"ownership", "ownership", [4]float64{1, 1, 1, 2}},
		{"ownership-ratio", "ownership and a budget of 10 %", [4]float64{1, 1, 1, 1.1}},
	} {
		for i := range 7 {
			name, paper := string(rune('a'+i)), row.paper[min(i, 3)]
			// What the buckets hold at first and in the end, up to three of them.
			tab.near(fmt.Sprintf("%s, %c", row.what, 'A'+i), fmt.Sprint(paper), paper, runs[row.variant].service(name).Load, 30/float64(requests))
		}
	}
}
