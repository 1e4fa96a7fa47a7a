package incident

import (
	"context"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// What the incident fixes: see [Settings] for the rest.
const (
	grabShare   = 0.6                    // of the payments; the rest is Go's
	headroom    = 1.25                   // the ledger serves so many times the baseline
	serviceTime = 20 * time.Millisecond  // of one request at the ledger
	queueLimit  = 50                     // requests that wait at the ledger; one more is answered 503
	faultFactor = 10                     // a request costs so many times as much during the fault
	tickLength  = 250 * time.Millisecond // of the timeline
	settleTime  = 2 * time.Second        // after the fault, until latency must be healthy again
)

// RateStep is what the rate is a multiple of: one of the ledger's workers, at 20 ms a request, serves 50 requests a
// second, which is 1.25 times 40.
const RateStep = 40

// Settings are the sizes of a run.
type Settings struct {
	// Rate is the baseline: payments a second over both services, a multiple of RateStep.
	Rate int
	// Duration is the length of the load: a quarter healthy, three eighths with the fault, three eighths after it.
	Duration time.Duration
	// Budget is the tokens of each chain.
	Budget int
	// Seed makes arrivals, their split over the services and the ledger's failures the same from run to run.
	Seed uint64
	// Blips is the share of requests, 0 to 1, that the ledger fails while it is well.
	Blips float64
	// Watcher looks at the services from outside; nil = nobody does. For its sake the services before have an SDK, too: it
	// observes below their own policies, and neither retries nor refuses anything.
	Watcher Watcher
}

// The names of the two runs.
const (
	Before = "before"
	After  = "after"
)

// Watcher is told of each service's SDK.
type Watcher interface {
	// Watch is called with a service's SDK when it has been made. end is called when the service has answered its last
	// request and the SDK still counts.
	Watch(run, service string, sdk *chainbudget.SDK) (end func() error, err error)
	// Ready is called when all servers of both runs are up. The load begins when it returns.
	Ready(ctx context.Context) error
}

func (s *Settings) faultFrom() time.Duration { return s.Duration / 4 }
func (s *Settings) faultTo() time.Duration   { return s.Duration * 5 / 8 }

// workers is how many requests the ledger serves at once.
func (s *Settings) workers() int { return s.Rate / RateStep }
