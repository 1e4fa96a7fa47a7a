package stormlab

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock hands out instants of virtual time, in nanoseconds since the run began, and none of them twice: two goroutines
// that wake at one instant would run at once, and which of them comes first would be the machine's choice.
//
// Even instants are for sleepers. Odd ones are for calls that the SDK has woken: those cannot choose in advance, and their
// lane keeps the calls of one request apart.
type clock struct {
	start time.Time
	mu    sync.Mutex
	taken map[int64]struct{}
	turns atomic.Int64
}

func newClock() *clock { return &clock{start: time.Now(), taken: make(map[int64]struct{})} }

func (c *clock) now() int64 { return int64(time.Since(c.start)) }

// reserve takes the first free instant of a kind that is not before at and lies in the future.
func (c *clock) reserve(at, odd int64) int64 {
	at = max(at, c.now()+1)
	if at&1 != odd {
		at++
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if _, taken := c.taken[at]; !taken {
			c.taken[at] = struct{}{}
			return at
		}
		at += 2
	}
}

// wait sleeps until a reserved instant.
func (c *clock) wait(at int64) {
	time.Sleep(time.Duration(at - c.now()))
	c.turns.Load()
	c.mu.Lock()
	delete(c.taken, at)
	c.mu.Unlock()
}

// publish makes what this goroutine has written visible to whoever wakes next. It comes before a wait that is not the
// clock's own: in the SDK, or for the next task.
func (c *clock) publish() { c.turns.Add(1) }

// sleepUntil sleeps until at, or a little longer where that instant has passed or belongs to somebody else.
func (c *clock) sleepUntil(at int64) { c.wait(c.reserve(at, 0)) }

// order puts a call that was woken behind what else happens at this instant, and before or behind others by its lane.
func (c *clock) order(lane int) { c.wait(c.reserve(c.now()+2*int64(lane)+1, 1)) }
