//go:build !race

package engine

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestLearning_does_not_grow: a million requests later the service holds no more than after the first thousands.
func TestLearning_does_not_grow_NoRace(t *testing.T) {
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	w := &world{open: 3, closed: 1, openFails: .05, closedFails: .05, myself: .01}
	w.init(t)
	serve := func(n int) {
		for range n {
			w.request()
		}
	}
	serve(10_000)
	before := live()
	serve(1_000_000)
	grown := live() - before
	t.Logf("%d bytes more after 1,000,000 requests", grown)
	assert.LessOrEqual(t, grown, int64(64<<10))
	runtime.KeepAlive(w)
}
