package budgetredis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// View is one process's part in the view of its fleet. A nil View does nothing. All methods may be called by many
// goroutines at once.
type View struct {
	sdk      *engine.SDK // nil = there is nothing to share
	store    *store
	set      settings
	limit    time.Duration // of one sync
	instance string

	quit chan struct{}
	done chan struct{}
	once sync.Once

	journals map[*engine.Tally]*journal // only of the view's goroutine
	ordinal  uint64
	inARow   int // failures since the last success

	mu     sync.Mutex // guards stats and latest
	stats  Stats
	latest time.Time // when the last whole sync began
}

// Stats is one reading of what a view has done.
type Stats struct {
	Syncs    int64            // syncs that brought the fleet's numbers for every dependency
	Failures int64            // syncs that did not
	ByKind   map[string]int64 // the failures by kind: timeout, connection, loading, read_only, auth, wrong_type, out_of_memory, cluster, busy, reply, other
	LastErr  error            // of the latest failure; it stays when Redis is back
	Age      time.Duration    // how old the fleet's numbers are; 0 before the first sync
	Lag      time.Duration    // how long the latest sync took
}

// The limits of one sync: as long as the interval, but long enough for a handshake and short enough to close.
const (
	minLimit = 250 * time.Millisecond
	maxLimit = time.Second
)

// maxPause is the longest wait after failures. Each wait is drawn, so that a fleet does not come back as one.
const maxPause = 2 * time.Second

// aloneAfter is after how many intervals without news a process no longer waits for the fleet's debt to be paid in.
const aloneAfter = 10

var (
	errNoClient = errors.New("chainbudget: budgetredis: there is no Redis client: give Share one of go-redis")
	errTwice    = errors.New("chainbudget: budgetredis: the SDK is shared already: close the first View, or keep only that one")
)

// Share begins to share the breaker's counts and the dependency budgets of an SDK with the other processes of its fleet.
// It does not wait for Redis and needs none to be there. The View works on connections of its own, made from the
// client's options: the client stays the caller's, and requests never wait for one of its connections. (Of another
// implementation than go-redis's Client, ClusterClient and Ring the View uses the client itself.)
//
// A nil or zero SDK has nothing to share: the View does nothing. No client, a setting out of range, or an SDK that is shared
// already is an error and no View; the SDK then works on its own counts, so that main may log the error and go on.
func Share(sdk *chainbudget.SDK, client redis.UniversalClient, options ...Option) (*View, error) {
	e := (*engine.SDK)(sdk)
	if !e.Usable() {
		return &View{}, nil
	}
	if client == nil || reflect.ValueOf(client).Kind() == reflect.Pointer && reflect.ValueOf(client).IsNil() {
		return nil, errNoClient
	}
	set := settings{interval: defaultInterval, prefix: defaultPrefix}
	for _, o := range options {
		if o.apply != nil {
			o.apply(&set)
		}
	}
	if set.fleet == "" {
		set.fleet = e.Service()
	}
	if err := set.problem(); err != nil {
		return nil, err
	}
	if !e.Share() {
		return nil, errTwice
	}
	v := &View{
		sdk: e, set: set, limit: min(max(set.interval, minLimit), maxLimit), instance: rand.Text(),
		quit: make(chan struct{}), done: make(chan struct{}), journals: map[*engine.Tally]*journal{},
	}
	v.stats.ByKind = map[string]int64{}
	v.store = newStore(client, v.limit)
	go v.run()
	return v, nil
}

// Close tells the fleet what is left to tell, unless the last sync failed, and ends the View: the SDK goes on with its own
// counts. It takes at most the time of two syncs, two seconds; over a client that is not go-redis's own, as long as that
// one takes. Closing again does nothing.
func (v *View) Close() error {
	if v == nil || v.sdk == nil {
		return nil
	}
	v.once.Do(func() {
		close(v.quit)
		<-v.done
		v.store.close()
		v.sdk.Unshare()
	})
	return nil
}

// Stats returns what the view has done so far.
func (v *View) Stats() Stats {
	if v == nil || v.sdk == nil {
		return Stats{}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.stats
	s.ByKind = maps.Clone(s.ByKind)
	if !v.latest.IsZero() {
		s.Age = time.Since(v.latest)
	}
	return s
}

// run syncs from time to time, one sync after the other.
func (v *View) run() {
	defer close(v.done)
	// Processes that start together do not sync together.
	timer := time.NewTimer(mathrand.N(v.set.interval))
	defer timer.Stop()
	for {
		select {
		case <-v.quit:
			if v.inARow == 0 {
				v.sync()
			}
			return
		case <-timer.C:
		}
		v.sync()
		timer.Reset(v.pause())
	}
}

// pause is the time to the next sync: never longer than the interval while all is well, so that news take two intervals.
func (v *View) pause() time.Duration {
	interval := v.set.interval
	if v.inARow == 0 {
		return interval - mathrand.N(interval/4+1)
	}
	longest := interval
	for range min(v.inARow, 10) {
		if longest < maxPause {
			longest *= 2
		}
	}
	longest = max(interval, min(longest, maxPause))
	return interval/2 + mathrand.N(longest-interval/2+1)
}

// sync makes one sync and counts it.
func (v *View) sync() {
	at := time.Now()
	some, err := v.exchange(at)
	v.count(at, err)
	switch {
	case err == nil:
		v.inARow = 0
		return
	case some:
		v.inARow = 0 // Redis is there; it is one dependency that has a problem
	default:
		v.inARow++
	}
	kind := kindOf(err)
	v.sdk.Warn("fleet:"+kind, "chainbudget: the view of the fleet is missing, each process goes on with its own counts: "+remedies[kind],
		"fleet", v.set.fleet, "kind", kind, "error", err)
}

func (v *View) count(at time.Time, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stats.Lag = time.Since(at)
	if err == nil {
		v.stats.Syncs++
		v.latest = at
		return
	}
	v.stats.Failures++
	v.stats.ByKind[kindOf(err)]++
	v.stats.LastErr = err
}

// exchange sends what is new and takes what came of it, for all dependencies in one round trip. some = for one of them it
// came about.
func (v *View) exchange(at time.Time) (some bool, err error) {
	defer func() {
		// Not ours: the client may be of the user's own making. A view is not worth a process.
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	tallies := v.sdk.Tallies()
	if len(tallies) == 0 {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), v.limit)
	defer cancel()
	v.ordinal++
	asked := make([]*journal, len(tallies))
	calls := make([]call, len(tallies))
	for i, t := range tallies {
		j := v.journals[t]
		if j == nil {
			j = newJournal(t)
			v.journals[t] = j
		}
		asked[i] = j
		calls[i].keys, calls[i].args = j.prepare(at, v.set.prefix, v.set.fleet, v.instance, v.ordinal)
	}
	v.store.run(ctx, calls)
	for i := range calls {
		problem := calls[i].err
		if problem == nil {
			problem = asked[i].accept(at, calls[i].reply)
		}
		some = some || problem == nil
		if problem == nil {
			continue
		}
		if err == nil {
			err = problem
		}
		asked[i].miss(at)
		if at.Sub(asked[i].heard) > aloneAfter*v.set.interval {
			asked[i].alone()
		}
	}
	return some, err
}
