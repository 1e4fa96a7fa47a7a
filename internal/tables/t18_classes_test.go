package tables

import (
	"fmt"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/edges"
)

// TestT18 lets one operation fail each time that its dependency does, and asks after each failure what is known of it.
func TestT18_failures_until_a_dependency_is_classified(t *testing.T) {
	tab := newTable(t, "T18", "failures of a dependency, each of which failed its caller, until it counts as one that fails it (at least .80 with 95 % confidence)", "")
	defer tab.print()

	class := func(fails, answers int) edges.Class {
		o := edges.New(0).Operation("GET /page")
		for range answers {
			o.Record(time.Now(), false, []edges.Call{{Dependency: "payments", Failed: true}})
		}
		for range fails {
			o.Record(time.Now(), true, []edges.Call{{Dependency: "payments", Failed: true}})
		}
		return o.Look("payments").Class
	}
	first := 1
	for class(first, 0) != edges.FailClose {
		first++
	}
	tab.count("failures until fail_close", "16", []int{16}, []int{first})
	for _, row := range []struct {
		n     int
		bound float64
		class edges.Class
	}{{15, .796, edges.Unknown}, {16, .806, edges.FailClose}, {50, .929, edges.FailClose}} {
		low, _ := edges.Wilson(1, float64(row.n))
		tab.near(fmt.Sprintf("%d failures, lower bound of the share", row.n), fmt.Sprint(row.bound), row.bound, low, .0005)
		got := class(row.n, 0)
		tab.add(fmt.Sprintf("%d failures, class", row.n), "-", row.class.String(), got.String(), "exact", got == row.class)
	}
	first = 1
	for class(0, first) != edges.FailOpen {
		first++
	}
	tab.count("failures that its caller answers without, until fail_open", "16", []int{16}, []int{first})
}
