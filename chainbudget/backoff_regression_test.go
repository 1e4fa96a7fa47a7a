package chainbudget_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/ownership"
)

const backoffCatalog = `
version: 1
chain: {budget: 99, max_budget: 99}
profiles:
  swift: {extends: read-heavy, retry: {max_attempts: 6, attempt_timeout: 0s}, backoff: {base: 1ms, throttled_base: 1ms, cap: 1ms}, budget: {burst: 100}, breaker: disabled, availability_floor: 0%}
`

// Replicas that start together draw the same waits (dapr/dapr#9788): processes with one catalog and one service name must
// not.
func TestRegression_A048_replicas_wait_differently(t *testing.T) {
	const key, replicas = "CHAINBUDGET_TEST_REPLICA", 4
	if os.Getenv(key) != "" {
		replica(t)
		return
	}
	var seen []string
	for range replicas {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), key+"=1")
		out, err := cmd.Output()
		require.NoError(t, err, string(out))
		var waits []string
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			if wait, ok := strings.CutPrefix(lines.Text(), "waited "); ok {
				waits = append(waits, wait)
			}
		}
		require.Len(t, waits, 5, string(out))
		seen = append(seen, strings.Join(waits, " "))
	}
	slices.Sort(seen)
	require.Len(t, slices.Compact(seen), replicas)
}

// replica prints the waits of one call of a process that was just started.
func replica(t *testing.T) {
	t.Setenv("CHAINBUDGET_MODE", "")
	file := t.TempDir() + "/catalog.yaml"
	require.NoError(t, os.WriteFile(file, []byte(backoffCatalog), 0o600))
	sdk, err := chainbudget.New("replica", chainbudget.WithStrict(), chainbudget.WithCatalogFile(file), chainbudget.WithObserver(func(e chainbudget.Event) {
		if e.Reason == ownership.ReasonAllowed {
			fmt.Printf("waited %d\n", int64(e.Delay))
		}
	}))
	require.NoError(t, err)
	defer sdk.Close()
	dep, err := sdk.Dependency("callee", "swift")
	require.NoError(t, err)
	ctx, end := chainbudget.Start(context.Background(), sdk)
	defer end()
	err = chainbudget.Do(ctx, dep, func(context.Context) error { return chainbudget.Retryable(context.DeadlineExceeded) }, chainbudget.Idempotent())
	require.Error(t, err)
}
