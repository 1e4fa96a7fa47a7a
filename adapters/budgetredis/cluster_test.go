package budgetredis

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A cluster of two nodes: the keys of one dependency are on one node, those of several are on both.
func TestCluster(t *testing.T) {
	args := []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"}
	one, two := startServerTCP(t, args...), startServerTCP(t, args...)
	one.do("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
	two.do("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
	two.do("CLUSTER", "SET-CONFIG-EPOCH", 2)
	host, port, _ := strings.Cut(one.addr, ":")
	two.do("CLUSTER", "MEET", host, port)
	for _, s := range []*server{one, two} {
		await(t, 20*time.Second, "the cluster does not come about", func() bool {
			info := s.admin.ClusterInfo(context.Background()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:2")
		})
	}
	names := []string{"payments", "a", "b", "c", "d", "e"}
	join := func() *instance {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{one.addr}, ReadOnly: true})
		t.Cleanup(func() { _ = client.Close() })
		i := newInstance(t, countedIn("10s")).share(client)
		for _, name := range names {
			_, err := i.sdk.Dependency(name, "p")
			require.NoError(t, err)
		}
		return i
	}
	a, b := join(), join()
	for _, name := range names {
		for _, i := range []*instance{a, b} {
			dep, err := i.sdk.Dependency(name, "p")
			require.NoError(t, err)
			i.dep = dep
		}
		a.calls(20, errDown)
		await(t, 5*time.Second, "b does not hear of "+name, b.refuses)
	}
	assert.Zero(t, a.view.Stats().Failures+b.view.Stats().Failures)
	assert.NotEmpty(t, one.keys())
	assert.NotEmpty(t, two.keys())

	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": startServer(t).addr, "two": startServer(t).addr},
		NewClient: func(o *redis.Options) *redis.Client { o.Network = "unix"; return redis.NewClient(o) }})
	defer ring.Close()
	c, d := newInstance(t, countedIn("10s")).share(ring), newInstance(t, countedIn("10s")).share(ring)
	c.calls(20, errDown)
	await(t, 5*time.Second, "d does not hear of c over a ring", d.refuses)
}
