package proxies

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// fault is what happens to every request behind the proxy, after it has cost its whole lease.
type fault int

const (
	reset       fault = iota // the connection ends without an answer
	unavailable              // it is answered with 503
	stale                    // reset, on a connection that has served a request before
)

func (f fault) String() string { return [...]string{"reset", "unavailable", "stale"}[f] }

// minted is what the entry of each chain has, lent what its first attempt carries.
const minted, lent = 3, 2

// failThrough sends one call through a proxy to n instances that always fail, and returns how often each of its attempts
// arrived and how many retries the whole tree made.
func failThrough(t *testing.T, p proxy, s setting, f fault, method string, n int) (sent []int, tree int) {
	t.Helper()
	callee := newInstances(t, n, func(a arrival) error {
		if f == stale && a.n <= n {
			return nil
		}
		a.call()
		if f == unavailable {
			a.w.WriteHeader(http.StatusServiceUnavailable)
			return nil
		}
		breakConnection(t, a.w)
		return nil
	})
	e := newEntry(t, p.start(t, p.snippet(t, p.http(t), s, callee.addresses...)))
	warm := 0
	if f == stale {
		for ; warm < n; warm++ { // round robin
			if resp, err := e.send(t, method); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("the first request fails: %v, %v", resp, err)
			}
			e.begin(t)
		}
	}
	if resp, err := e.send(t, method); err != nil || resp.StatusCode < 500 {
		t.Errorf("the call ends with %v, %v; want a failure that was answered", resp, err)
	}
	sent = callee.sent()[warm:]
	leafRetries := callee.total(func(t chainbudget.Totals) int64 { return t.Dependencies["leaf"].Retries })
	tree = int(leafRetries + e.ledger().Retries)

	// One instance knows each attempt again. Several know nothing of each other.
	lentInAll := int(e.ledger().Lent) - warm*lent
	if bound := minted + (n-1)*lentInAll; tree > bound {
		t.Errorf("%d retries in the tree, of %d minted and %d lent to each of %d instances: want at most %d", tree, minted, lentInAll, n, bound)
	}
	if arrived := len(callee.all()) - warm; n == 1 {
		repeated := int(callee.total(func(t chainbudget.Totals) int64 { return t.RepeatedGrants }))
		if want := sent[0] - 1; arrived > 0 && repeated < want {
			t.Errorf("%d repeated grants are counted, want %d", repeated, want)
		}
	}
	return sent, tree
}

// What each proxy repeats, by how it is told and what it meets. The first attempt carries two tokens, the second none, so
// that without repetitions a GET makes three retries in the tree (two at the leaf, one by the entry) and a POST makes two.
func TestProxiesRepeat(t *testing.T) {
	for _, c := range []struct {
		proxy     proxy
		setting   setting
		fault     fault
		method    string
		instances int
		sent      []int // by attempt
		tree      int   // retries
	}{
		// nginx repeats on another instance, by default when none answered, and what is not idempotent never.
		{nginx, byDefault, reset, "GET", 1, []int{1, 1}, 3},
		{nginx, byDefault, reset, "GET", 2, []int{2}, 5}, // it then knows no live instance for the second
		{nginx, byDefault, reset, "POST", 2, []int{1}, 2},
		{nginx, byDefault, unavailable, "GET", 2, []int{1}, 2},
		{nginx, retrying, unavailable, "GET", 2, []int{2}, 4},
		{nginx, retrying, unavailable, "POST", 2, []int{1}, 2},
		{nginx, retrying, reset, "POST", 2, []int{1}, 2},
		// A connection that it kept and that breaks costs it no try: the same instance gets the request again.
		{nginx, byDefault, stale, "GET", 1, []int{2, 1}, 3},
		{nginx, byDefault, stale, "POST", 1, []int{1}, 2},

		// HAProxy repeats only connecting by default; told more, it repeats whatever the method.
		{haproxy, byDefault, reset, "GET", 2, []int{1, 1}, 3},
		{haproxy, byDefault, unavailable, "GET", 2, []int{1}, 2},
		{haproxy, byDefault, stale, "GET", 1, []int{1, 1}, 3},
		{haproxy, retrying, reset, "GET", 1, []int{4, 4}, 3},
		{haproxy, retrying, reset, "GET", 2, []int{4, 4}, 5},
		{haproxy, retrying, reset, "POST", 1, []int{4}, 2},
		{haproxy, retrying, reset, "POST", 2, []int{4}, 4},
		{haproxy, retrying, unavailable, "GET", 2, []int{4, 4}, 5},
		{haproxy, retrying, unavailable, "POST", 1, []int{4}, 2},

		{caddy, byDefault, reset, "GET", 1, []int{1, 1}, 3},
		{caddy, byDefault, reset, "GET", 2, []int{1, 1}, 3},
		{caddy, byDefault, unavailable, "GET", 2, []int{1}, 2},
		{caddy, byDefault, stale, "GET", 1, []int{2, 1}, 3},
		{caddy, byDefault, stale, "POST", 1, []int{1}, 2},
		{caddy, retrying, reset, "GET", 1, []int{4, 4}, 3},
		{caddy, retrying, reset, "GET", 2, []int{4, 4}, 5},
		{caddy, retrying, reset, "POST", 2, []int{4}, 4},
		{caddy, retrying, unavailable, "GET", 2, []int{1}, 2},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s/%s/instances_%d", c.proxy.name, c.setting, c.fault, c.method, c.instances), func(t *testing.T) {
			t.Parallel()
			sent, tree := failThrough(t, c.proxy, c.setting, c.fault, c.method, c.instances)
			if !slices.Equal(sent, c.sent) || tree != c.tree {
				t.Errorf("the attempts arrived %v times and the tree made %d retries, want %v and %d", sent, tree, c.sent, c.tree)
			}
		})
	}
}

// With the configurations of the document every attempt arrives once, whatever fails.
func TestProxiesToldNotToRepeat(t *testing.T) {
	for _, p := range allProxies {
		for _, f := range []fault{reset, unavailable, stale} {
			for _, method := range []string{"GET", "POST"} {
				t.Run(p.name+"/"+f.String()+"/"+method, func(t *testing.T) {
					t.Parallel()
					want, wantTree := []int{1}, 2
					if method == "GET" && f != unavailable {
						// The callee's claim is unclaimed, because it retried. A connection that ends has none.
						want, wantTree = []int{1, 1}, 3
					}
					sent, tree := failThrough(t, p, turnedOff, f, method, 2)
					if !slices.Equal(sent, want) || tree != wantTree {
						t.Errorf("the attempts arrived %v times and the tree made %d retries, want %v and %d", sent, tree, want, wantTree)
					}
				})
			}
		}
	}
}
