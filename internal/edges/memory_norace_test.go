//go:build !race

package edges_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/chainbudget/chainbudget-go/internal/edges"
)

// live returns the bytes that are in use after everything unused has been collected.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestTable_live_memory: 10,000 edges that all have failed take at most 4 MiB, whether they belong to many operations or few,
// with names of usual length that nobody else holds.
func TestTable_live_memory_NoRace(t *testing.T) {
	for _, perOperation := range []int{5, 10, 100} {
		before := live()
		table := edges.New(0)
		for i := range edges.MaxEdges / perOperation {
			o := table.Operation(fmt.Sprintf("POST /v1/accounts/{account}/orders-%d/{id}", i))
			for j := range perOperation {
				o.Record(time.Now(), true, []edges.Call{{Dependency: fmt.Sprintf("%s-service-%d", "inventory", i*perOperation+j), Failed: true}})
			}
		}
		used := live() - before
		count := 0
		for _, o := range table.Memory().Operations {
			count += len(o.Edges)
		}
		t.Logf("%d edges of %d operations: %d bytes live, %.0f each", count, edges.MaxEdges/perOperation, used, float64(used)/float64(count))
		assert.Equal(t, edges.MaxEdges, count)
		assert.LessOrEqual(t, used, int64(4<<20))
		runtime.KeepAlive(table)
	}
}
