package stormlab

import (
	"fmt"
	"time"
)

// maxUnderWay is how many requests from outside and calls of services may be under way at once while one variant runs, all cells
// together. Measured with chainbudget storm run, this many were 0.6 GB with a policy for comparison and 2 GB with the SDK, 3 and 10 KB each: what
// a small machine has. A fleet that is as its owner means it has a few thousand at most; one that comes here has a rate that somebody
// mistyped, or a queue without an end, and without a bound would take all memory before it is done.
const maxUnderWay = 200_000

// crowd is that a cell had more under way than it may. What happens from then on counts nowhere, and ends as soon as it can.
type crowd struct {
	at      time.Duration
	most    int
	service string // where most of them wait
	waiting int
}

// enter notes that a request or a call to a service is under way, and leave that it has ended.
func (c *cell) enter(to *service) {
	to.underWay++
	c.underWay++
	if c.underWay > c.most && c.crowd == nil {
		c.overrun()
	}
	c.publish() // the SDK may wait next
}

func (c *cell) leave(to *service) {
	to.underWay--
	c.underWay--
	c.publish()
}

// overrun ends the run of a cell with what was counted so far.
func (c *cell) overrun() {
	c.crowd = &crowd{at: time.Duration(c.now()), most: c.most}
	for _, s := range c.services {
		if n := s.underWay - s.calling; n > c.crowd.waiting { // who waits for calls of its own waits there
			c.crowd.service, c.crowd.waiting = s.name, n
		}
	}
	c.counted.close(c.services)
	rest := *c.scenario // one interval: nobody reads it
	rest.Interval = rest.Duration
	c.ledger = newLedger(&rest)
}

// ended reports whether no further requests come.
func (c *cell) ended() bool { return c.crowd != nil || c.stop.Load() }

// errCrowd is what calls fail with after an overrun.
const errCrowd = failure(503)

// text says what happened, where, and what to do.
func (o *crowd) text(variant string, cells int) string {
	where := ""
	if cells > 1 {
		where = fmt.Sprintf(" in one of %d cells", cells)
	}
	return fmt.Sprintf("variant %.48q: more than %d requests and calls were under way at once%s after %v of traffic, %d of them waiting at %q: lower the rate, let its queue hold fewer, or give its callers a timeout",
		variant, o.most, where, o.at.Round(time.Millisecond), o.waiting, o.service)
}
