package incident

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// Headers of the demo's own: which payment a request is for, and which service sends it.
const (
	paymentHeader = "Idempotency-Key"
	callerHeader  = "Demo-Caller"
)

// LedgerCounts are the ledger's own counters.
type LedgerCounts struct {
	// Arrivals is the requests that arrived: FirstAttempts, and Retries for a payment seen before.
	Arrivals      int64 `json:"arrivals"`
	FirstAttempts int64 `json:"first_attempts"`
	Retries       int64 `json:"retries"`
	// What became of them. Abandoned ones had no caller any more when their turn came.
	Served    int64 `json:"served"`
	Failed    int64 `json:"failed"`
	Rejected  int64 `json:"rejected_queue_full"`
	Abandoned int64 `json:"abandoned"`
	// RejectedForRetry is the first attempts rejected while, since the ledger was last idle, it had taken in a retry: an
	// upper bound of the writes that would have found room without retries.
	RejectedForRetry int64 `json:"rejected_because_of_retry"`
	// QueueMax is the most requests that waited.
	QueueMax int `json:"queue_max"`
	// ByCaller is the arrivals by the service that sent them, RetriesByCaller the retries among them.
	ByCaller        map[string]int64 `json:"by_caller"`
	RetriesByCaller map[string]int64 `json:"retries_by_caller"`
}

// outcome is what became of a request at the ledger.
type outcome uint8

const (
	pending outcome = iota
	served
	failed
	rejected
	abandoned
)

// entry is the ledger's record of one request.
type entry struct {
	arrived, ended time.Duration // since the start of the run
	caller         string
	retry          bool
	waiting        int // in the queue when it arrived, itself included
	outcome        outcome
}

// ledger is the payment ledger: a bounded queue before a few workers. It is the same before and after.
type ledger struct {
	settings Settings
	start    time.Time
	queue    chan *job
	stop     chan struct{}
	workers  sync.WaitGroup
	cost     atomic.Int64 // what the latest request cost, in nanoseconds

	mu      sync.Mutex
	counts  LedgerCounts
	seen    map[string]int // attempts by payment
	entries []*entry
	inside  int  // waiting or in service
	tainted bool // a retry was taken in since the ledger was idle
}

// job is one request in the queue.
type job struct {
	ctx     context.Context
	entry   *entry
	payment string
	attempt int
	done    chan outcome
}

func newLedger(s Settings, start time.Time) *ledger {
	l := &ledger{
		settings: s, start: start, queue: make(chan *job, queueLimit), stop: make(chan struct{}), seen: map[string]int{},
		counts: LedgerCounts{ByCaller: map[string]int64{}, RetriesByCaller: map[string]int64{}},
	}
	for range s.workers() {
		l.workers.Go(l.work)
	}
	return l
}

// close ends the workers. No request may be under way.
func (l *ledger) close() {
	close(l.stop)
	l.workers.Wait()
}

// ServeHTTP answers 200 for a payment that was written, 503 otherwise.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j := l.arrive(r)
	result := rejected
	if j.done != nil {
		select {
		case result = <-j.done:
		case <-l.stop:
			return
		}
	}
	if result == served {
		return
	}
	if l.pressed() {
		ownership.Overloaded(r.Context()) // without the SDK around it this does nothing
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

// pressed reports whether what waits is more than five requests' healthy time away from being served.
func (l *ledger) pressed() bool {
	wait := time.Duration(l.cost.Load()) * time.Duration(len(l.queue)) / time.Duration(l.settings.workers())
	return wait > 5*serviceTime
}

// arrive counts a request and puts it into the queue; a job without done was rejected.
func (l *ledger) arrive(r *http.Request) *job {
	now := time.Since(l.start)
	j := &job{ctx: r.Context(), payment: r.Header.Get(paymentHeader), done: make(chan outcome, 1)}
	j.entry = &entry{arrived: now, caller: r.Header.Get(callerHeader)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[j.payment]++
	j.attempt = l.seen[j.payment]
	j.entry.retry = j.attempt > 1
	l.entries = append(l.entries, j.entry)
	l.counts.Arrivals++
	l.counts.ByCaller[j.entry.caller]++
	if j.entry.retry {
		l.counts.Retries++
		l.counts.RetriesByCaller[j.entry.caller]++
	} else {
		l.counts.FirstAttempts++
	}
	select {
	case l.queue <- j:
		l.inside++
		l.tainted = l.tainted || j.entry.retry
		j.entry.waiting = len(l.queue)
		l.counts.QueueMax = max(l.counts.QueueMax, j.entry.waiting)
	default:
		j.done = nil
		j.entry.waiting = queueLimit
		l.counts.QueueMax = queueLimit
		l.finish(j.entry, rejected, now)
		if l.tainted && !j.entry.retry {
			l.counts.RejectedForRetry++
		}
	}
	return j
}

// finish counts what became of a request. l.mu is held.
func (l *ledger) finish(e *entry, o outcome, now time.Duration) {
	e.outcome, e.ended = o, now
	switch o {
	case served:
		l.counts.Served++
	case failed:
		l.counts.Failed++
	case rejected:
		l.counts.Rejected++
	case abandoned:
		l.counts.Abandoned++
	}
}

// work serves what waits, one request after the other.
func (l *ledger) work() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		select {
		case <-l.stop:
			return
		case j := <-l.queue:
			o := abandoned
			if j.ctx.Err() == nil {
				cost, ok := l.price(j)
				l.cost.Store(int64(cost))
				timer.Reset(cost)
				select {
				case <-timer.C:
				case <-l.stop:
					return
				}
				o = served
				if !ok {
					o = failed
				}
			}
			l.mu.Lock()
			l.finish(j.entry, o, time.Since(l.start))
			l.inside--
			l.tainted = l.tainted && l.inside > 0
			l.mu.Unlock()
			j.done <- o
		}
	}
}

// price says what a request whose turn it is costs, and whether it succeeds. The draw depends on seed, payment and
// attempt only, so that one payment meets the same luck before and after.
func (l *ledger) price(j *job) (cost time.Duration, ok bool) {
	now := time.Since(l.start)
	well := now < l.settings.faultFrom() || now >= l.settings.faultTo()
	if well && l.settings.Blips == 0 {
		return serviceTime, true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(j.payment)) // a hash never fails
	draw := rand.New(rand.NewPCG(l.settings.Seed, h.Sum64()+uint64(j.attempt)))
	if well {
		return serviceTime, draw.Float64() >= l.settings.Blips
	}
	return serviceTime * faultFactor, draw.IntN(2) == 0
}
