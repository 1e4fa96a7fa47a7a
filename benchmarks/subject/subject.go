package subject

import (
	"fmt"
	"slices"
	"sync"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// Whose way of doing something a Subject is.
const (
	Bare          = "bare"
	SDK           = "chainbudget"
	NoBreaker     = "chainbudget_no_breaker"
	NoMetrics     = "chainbudget_no_metrics"
	Failsafe      = "failsafe"
	RetryableHTTP = "retryablehttp"
	OTelHTTP      = "otelhttp"
	ByHand        = "backoff_gobreaker"
	GoBreaker     = "gobreaker"
	Middleware    = "go_grpc_middleware"
)

// Subject is one operation, done in one way.
type Subject struct {
	// Path says what is done, such as "transport/first_attempt"; Who says with what.
	Path, Who string

	open func() *stage
}

// String returns path and who as one path.
func (s Subject) String() string { return s.Path + "/" + s.Who }

// Open sets the subject up. Each Run has dependencies, breakers and policies of its own, so that one does not
// disturb the next. Close it after use.
func (s Subject) Open() *Run { return &Run{stage: s.open()} }

// Op does the operation once and returns an error if it did not end as it should.
type Op func() error

// Run is a subject that is set up.
type Run struct{ stage *stage }

// Worker returns an Op for one goroutine. Workers of one Run share its dependency, breaker and policies, and each has a
// request of its own.
func (r *Run) Worker() Op { return r.stage.worker() }

// Close ends the requests that the workers belong to.
func (r *Run) Close() {
	for _, end := range r.stage.ends {
		end()
	}
}

// Totals returns what the client's SDK has counted. ok is false where the subject is not the SDK's.
func (r *Run) Totals() (totals engine.Totals, ok bool) {
	if r.stage.client == nil {
		return engine.Totals{}, false
	}
	return r.stage.client.Totals(), true
}

// stage is what one Run shares.
type stage struct {
	worker func() Op
	ends   []func()
	client *engine.SDK // the SDK that sends, nil where it has none

	mu      sync.Mutex
	tallies []*tally // guarded by mu
}

func (s *stage) atEnd(end func()) { s.ends = append(s.ends, end) }

// All returns every subject. Those with one path come one after the other, SDK first.
func All() []Subject {
	return slices.Concat(transports(), retries(), denials(), chains(), many(), uploads(), refusals(), handlers(), hops(), functions(), decisions(), rpcs(), connects(), connects2())
}

// Find returns the subject with this path and who.
func Find(path, who string) (Subject, error) {
	for _, s := range All() {
		if s.Path == path && s.Who == who {
			return s, nil
		}
	}
	return Subject{}, fmt.Errorf("no subject %s/%s", path, who)
}
