package chain_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/chainbudget/chainbudget-go/examples/storm/chain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, shape chain.Shape, policy chain.Policy) chain.Count {
	t.Helper()
	roots := int64(0)
	count, err := chain.Run(t.Context(), shape, policy, func() { roots++ })
	if err != nil {
		t.Fatal(err)
	}
	if count.Roots != roots || count.Roots != int64(policy.Roots) || count.Requests[0] != roots {
		t.Fatalf("%s: %d roots counted, %d sent, %d wanted, the first service received %d", policy.Name, count.Roots, roots, policy.Roots, count.Requests[0])
	}
	return count
}

func sdk(t *testing.T, budget, attempts int, shared bool) chain.Policy {
	t.Helper()
	policy, err := chain.SDK(t.TempDir(), budget, attempts, shared)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// perRoot divides the counts, which must divide evenly.
func perRoot(t *testing.T, c chain.Count) []int64 {
	t.Helper()
	var list []int64
	for i, n := range c.Requests {
		if n%c.Roots != 0 {
			t.Fatalf("%s: service %s received %d requests for %d roots", c.Policy, chain.Name(i), n, c.Roots)
		}
		list = append(list, n/c.Roots)
	}
	return list
}

// The published chain: seven services, the fourth fails.
func TestSevenNodes(t *testing.T) {
	shape := chain.Shape{Nodes: 7, Failing: 3}
	for name, tc := range map[string]struct {
		policy chain.Policy
		want   []int64
	}{
		"naive_1":        {chain.Naive(1), []int64{1, 2, 4, 8, 8, 8, 8}},
		"naive_2":        {chain.Naive(2), []int64{1, 3, 9, 27, 27, 27, 27}},
		"down_only_3":    {chain.DownOnly(3), []int64{1, 4, 10, 20, 20, 20, 20}},
		"sdk_one_retry":  {sdk(t, 3, 2, false), []int64{1, 1, 1, 2, 2, 2, 2}},
		"sdk_one_token":  {sdk(t, 1, 4, false), []int64{1, 1, 1, 2, 2, 2, 2}},
		"sdk_no_retries": {sdk(t, 3, 1, false), []int64{1, 1, 1, 1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := perRoot(t, run(t, shape, tc.policy)); !slices.Equal(got, tc.want) {
				t.Errorf("requests per root are %v, want %v", got, tc.want)
			}
		})
	}
}

func TestSharesOfTenPercent(t *testing.T) {
	shape := chain.Shape{Nodes: 5, Failing: 3}
	for name, tc := range map[string]struct {
		policy chain.Policy
		want   []int64
	}{
		"per_hop": {chain.PerHopBudget(), []int64{1000, 1100, 1210, 1331, 1331}},
		"sdk":     {sdk(t, 3, 2, true), []int64{1000, 1000, 1000, 1100, 1100}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := run(t, shape, tc.policy).Requests; !slices.Equal(got, tc.want) {
				t.Errorf("requests are %v, want %v", got, tc.want)
			}
		})
	}
}

// The last service of a chain of d edges always fails.
func TestLeafAttempts(t *testing.T) {
	for d, want := range map[int]struct{ naive1, naive2, down1, down3, sdk1, sdk3 int64 }{
		1: {2, 3, 2, 4, 2, 4},
		2: {4, 9, 3, 10, 2, 3},
		3: {8, 27, 4, 20, 2, 3},
		5: {32, 243, 6, 56, 2, 3},
	} {
		shape := chain.Shape{Nodes: d + 1, Failing: d}
		for _, tc := range []struct {
			policy chain.Policy
			want   int64
		}{
			{chain.Naive(1), want.naive1},
			{chain.Naive(2), want.naive2},
			{chain.DownOnly(1), want.down1},
			{chain.DownOnly(3), want.down3},
			{sdk(t, 1, 2, false), want.sdk1},
			{sdk(t, 3, 4, false), want.sdk3},
		} {
			if got := perRoot(t, run(t, shape, tc.policy))[d]; got != tc.want {
				t.Errorf("d = %d, %s: the leaf received %d requests, want %d", d, tc.policy.Note, got, tc.want)
			}
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	policy := chain.Naive(1)
	policy.Roots = 1000
	count, err := chain.Run(ctx, chain.Shape{Nodes: 3, Failing: 2}, policy, cancel)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v, want that of the context", err)
	}
	if count.Roots != 1 || count.Requests[0] < 1 {
		t.Errorf("the count so far is %+v, want the one request that was sent", count)
	}
}
