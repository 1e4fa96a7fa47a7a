package edges_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/internal/edges"
)

// Operations beyond the bound share one. It stays one over restarts and merges, so that the file stays readable.
func TestTable_of_too_many_operations_survives_restarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "edges.json")
	for restart := range 3 {
		memory, err := edges.Load(path)
		require.NoError(t, err, "restart %d", restart)
		table := edges.New(0)
		table.Remember(memory)
		for i := range edges.MaxOperations + 100 {
			table.Operation(fmt.Sprintf("pay.Restart%d/Method%d", restart, i)).Record(time.Now(), true, []edges.Call{{Dependency: "users", Failed: true}})
		}
		require.NoError(t, table.Save(path))
	}
	memory, err := edges.Load(path)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(memory.Operations), edges.MaxOperations+1)
	merged, err := edges.Merge(memory, memory).Encode()
	require.NoError(t, err)
	_, err = edges.Decode(merged)
	assert.NoError(t, err)
}
