package mixed

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

var (
	soakTime    = flag.Duration("soak", 12*time.Second, "how long TestSoak sends requests")
	soakWorkers = flag.Int("workers", 12, "how many requests TestSoak has under way at any time")
)

const (
	faultShare   = 0.05 // of the requests of every hop
	soakBudget   = 3
	soakConns    = 4               // of each hop to the next, where requests share connections
	soakGrace    = 2 * time.Second // an attempt may arrive after its chain has been answered
	heapSlack    = 4 << 20
	minSucceeded = 0.25 // a busy machine with the race detector lets attempts time out, too
)

var soakOrder = order{overHTTP, overGRPC, overConnect, overConnect2, overHTTP}

// The breaker and the dependency's budget are there and count, but stand so low that a busy machine does not close them, and
// there is no floor: what is tested is the chain's budget. A caller waits longer than its callee, so that a hang below leaves
// it the time to hear of it.
const soakCatalog = `
version: 1
chain: {budget: 3, max_budget: 10, orphan_budget: 1}
profiles:
  soak:
    extends: read-heavy
    retry: {max_attempts: 4, attempt_timeout: 250ms}
    backoff: {base: 2ms, throttled_base: 2ms, cap: 20ms}
    budget: {ratio: 90%, burst: 100}
    breaker: {failure_ratio: 90%, open_for: 1s}
    availability_floor: 0%
  hop4: {extends: soak}
  hop3: {extends: soak, retry: {attempt_timeout: 400ms}}
  hop2: {extends: soak, retry: {attempt_timeout: 600ms}}
  hop1: {extends: soak, retry: {attempt_timeout: 800ms}}
`

// TestSoak sends requests down a chain of four protocols, five hops, as fast as the machine carries them, with every kind of fault
// at every hop, and holds the budget against what each hop's listener saw. Short here; make soak takes five minutes, with more
// requests at once.
func TestSoak(t *testing.T) {
	before := goleak.IgnoreCurrent()
	var s *soak
	t.Run("chain", func(t *testing.T) {
		s = newSoak(t)
		s.run(t)
	})
	if t.Failed() {
		return
	}
	if err := goleak.Find(before); err != nil {
		t.Errorf("goroutines are left when the servers are closed: %v", err)
	}
	s.check(t)
}

// soak is one run and what it counts.
type soak struct {
	entry ask
	sdks  []*chainbudget.SDK
	doors []*door

	faults  [faultEnd]atomic.Int64 // done
	faulted atomic.Int64
	handled []atomic.Int64 // by the user's code of each hop

	mu     sync.Mutex
	chains map[uint64]*chain
	ended  []*chain // answered, and not yet audited: the oldest first

	sent, succeeded, abandoned, strays atomic.Int64
	latency                            [400]atomic.Int64 // eight for each doubling of a microsecond

	// Of the chains audited so far; under mu.
	audited, minted, retries, hidden, wireLeases, gone int64
	most                                               int // retries of one chain
	violations                                         []string
	violated                                           int
	heap                                               []uint64 // after a collection, from the first quarter's end
	routines                                           []int
	elapsed                                            time.Duration
	inTime                                             int64 // requests answered by then
}

// chain is one request of the driver, and the visits that the doors saw of it.
type chain struct {
	mu     sync.Mutex
	id     uint64
	visits []*visit
	refs   int // visits that have not been answered, and the driver
	since  time.Time
}

// visit is one request on the wire, as it arrives at a hop.
type visit struct {
	chain         *chain
	hop           int
	index, parent int // in the chain's visits; -1 = the driver
	nonce         otelprop.Nonce
	grant         int
	fault         fault
	passed        bool // the door let it through to the SDK

	mu       sync.Mutex
	answered bool // with a return
	returned int
}

// answer writes down the return that the SDK sends, before anything loses it.
func (v *visit) answer(lines []string) {
	ret, ok, _ := otelprop.ReadReturn(lines, v.nonce, v.grant)
	if !ok {
		return
	}
	v.mu.Lock()
	v.answered, v.returned = true, int(ret.Returned)
	v.mu.Unlock()
}

func newSoak(t *testing.T) *soak {
	hops := len(soakOrder)
	s := &soak{
		chains: make(map[uint64]*chain), handled: make([]atomic.Int64, hops),
		sdks: make([]*chainbudget.SDK, hops), doors: make([]*door, hops),
	}
	files := fstest.MapFS{"catalog.yaml": {Data: []byte(soakCatalog)}}
	var next []ask
	for hop := hops - 1; hop >= 0; hop-- {
		sdk, err := chainbudget.New(fmt.Sprintf("hop%d", hop), chainbudget.WithCatalogFS(files, "catalog.yaml"), chainbudget.WithStrict())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := sdk.Close(); err != nil {
				t.Error(err)
			}
		})
		if hop < hops-1 {
			callee := fmt.Sprintf("hop%d", hop+1)
			dep, err := sdk.Dependency(callee, profiles.Name(callee))
			if err != nil {
				t.Fatal(err)
			}
			address := s.doors[hop+1].address
			for range soakConns {
				next = append(next, soakOrder[hop+1].dial(t, address, dep))
			}
		}
		s.sdks[hop], s.doors[hop] = sdk, &door{soak: s, hop: hop}
		s.doors[hop].address = soakOrder[hop].serve(t, s.doors[hop], sdk, hop == 0, s.handler(hop, next))
		next = nil
	}
	s.entry = overHTTP.dial(t, s.doors[0].address, nil)
	return s
}

// handler is the user's code of a hop: one call of the next hop, if there is one.
func (s *soak) handler(hop int, next []ask) ask {
	return func(ctx context.Context) error {
		s.handled[hop].Add(1)
		v := visitOf(ctx)
		early := rand.IntN(2) == 0
		switch {
		case v.fault == fails:
			return errDown
		case v.fault == panics && (early || len(next) == 0):
			panic("soak")
		case len(next) == 0:
			return nil
		case v.fault == cancels:
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			defer cancel()
			defer time.AfterFunc(rand.N(20*time.Millisecond), cancel).Stop()
		}
		err := next[rand.IntN(len(next))](context.WithValue(ctx, tagKey{}, fmt.Sprintf("%d.%d", v.chain.id, v.index)))
		if v.fault == panics {
			panic("soak")
		}
		return err
	}
}

// arrive adds a visit to its chain. The function is to be called when the visit has been answered.
func (s *soak) arrive(tag string, v *visit) func() {
	number, caller, _ := strings.Cut(tag, ".")
	id, _ := strconv.ParseUint(number, 10, 64) // no chain is number 0
	parent, err := strconv.Atoi(caller)
	s.mu.Lock()
	c := s.chains[id]
	s.mu.Unlock()
	if err != nil || c == nil {
		s.strays.Add(1)
		c, parent = new(chain), -1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v.chain, v.index, v.parent = c, len(c.visits), parent
	c.visits = append(c.visits, v)
	c.refs++
	return c.leave
}

func (c *chain) leave() {
	c.mu.Lock()
	c.refs--
	c.mu.Unlock()
}

// run sends requests until the time is over.
func (s *soak) run(t *testing.T) {
	begun := time.Now()
	ctx, stop := context.WithTimeout(t.Context(), *soakTime)
	defer stop()
	var workers sync.WaitGroup
	var ids atomic.Uint64
	for range *soakWorkers {
		workers.Go(func() {
			for ctx.Err() == nil {
				s.send(ids.Add(1))
				s.retire(time.Now().Add(-soakGrace))
			}
		})
	}
	tick := time.NewTicker(max(*soakTime/100, time.Second/2))
	defer tick.Stop()
	report := begun
	for running := true; running; {
		select {
		case <-ctx.Done():
			running = false
		case <-tick.C:
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if time.Since(begun) > *soakTime/4 {
				s.heap, s.routines = append(s.heap, m.HeapAlloc), append(s.routines, runtime.NumGoroutine())
			}
			if time.Since(report) > 3*time.Second {
				report = time.Now()
				t.Logf("%3.0f s: %d requests, %.1f MiB, %d goroutines", time.Since(begun).Seconds(), s.sent.Load(), mib(m.HeapAlloc), runtime.NumGoroutine())
			}
		}
	}
	s.elapsed, s.inTime = time.Since(begun), s.sent.Load()
	workers.Wait()
	// Handlers that nobody waits for any more end within the time of a hang.
	for deadline := time.Now().Add(30 * time.Second); ; {
		s.retire(time.Now().Add(-soakGrace))
		s.mu.Lock()
		left := len(s.chains)
		s.mu.Unlock()
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d chains have handlers that do not end", left)
		}
		<-tick.C
	}
}

// send is one request of the driver. It must outlive the end of the run, so that each is answered.
func (s *soak) send(id uint64) {
	c := &chain{id: id, refs: 1}
	s.mu.Lock()
	s.chains[id] = c
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), tagKey{}, fmt.Sprintf("%d.-1", id)), 2*time.Second)
	defer cancel()
	abandons := rand.Float64() < faultShare/float64(faultEnd-1)
	if abandons {
		defer time.AfterFunc(rand.N(20*time.Millisecond), cancel).Stop()
	}
	begun := time.Now()
	err := s.entry(ctx)
	bucket := int(8 * math.Log2(float64(max(time.Since(begun).Microseconds(), 1))))
	s.latency[min(bucket, len(s.latency)-1)].Add(1)
	s.sent.Add(1)
	switch {
	case err == nil:
		s.succeeded.Add(1)
	case abandons:
		s.abandoned.Add(1)
	}
	c.mu.Lock()
	c.refs--
	c.since = time.Now()
	c.mu.Unlock()
	s.mu.Lock()
	s.ended = append(s.ended, c)
	s.mu.Unlock()
}

// retire audits the chains that were answered before a moment, and forgets them.
func (s *soak) retire(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.ended); n > 0 && s.ended[0].since.Before(before); n-- {
		c := s.ended[0]
		s.ended = s.ended[1:]
		c.mu.Lock()
		if c.refs > 0 {
			c.since = time.Now()
			s.ended = append(s.ended, c)
		} else {
			delete(s.chains, c.id)
			s.audit(c)
		}
		c.mu.Unlock()
	}
}

func (s *soak) violation(c *chain, format string, args ...any) {
	s.violated++
	if len(s.violations) >= 5 {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, format, args...)
	for _, v := range c.visits {
		fmt.Fprintf(&b, "\n\t%d of %d at hop %d: nonce %s, grant %d, fault %v, passed %t, answered %t, returned %d",
			v.index, v.parent, v.hop, v.nonce, v.grant, v.fault, v.passed, v.answered, v.returned)
	}
	s.violations = append(s.violations, b.String())
}

// audit holds the budget of a chain that is over against what arrived.
func (s *soak) audit(c *chain) {
	minted, retries := 0, 0
	attempts := make([]int, len(soakOrder)) // by hop
	for _, v := range c.visits {
		granted := v.grant
		if v.hop == 0 {
			granted = soakBudget
			minted += granted
			attempts[0]++
			if v.answered {
				s.violation(c, "the entry sent a return")
			}
		}
		// The attempts of this purse's one call. What has one nonce is one attempt, which something below the SDK repeated.
		consumed := make(map[otelprop.Nonce]int)
		for _, a := range c.visits {
			if a.parent != v.index {
				continue
			}
			if a.hop != v.hop+1 {
				s.violation(c, "a call of hop %d came to hop %d", v.hop, a.hop)
			}
			gone := a.grant // what certainly did not come home
			switch {
			case a.answered:
				gone -= a.returned
			case a.passed:
				gone = 0 // unknown
			}
			if least, repeated := consumed[a.nonce]; repeated {
				s.hidden++
				gone = min(gone, least)
			} else {
				attempts[a.hop]++
				s.wireLeases += int64(a.grant)
			}
			consumed[a.nonce] = gone
		}
		// I3 on the wire: what a purse returned, spent on its own retries and saw consumed is no more than what it was given.
		own, below := max(0, len(consumed)-1), 0
		for _, n := range consumed {
			below += n
		}
		retries += own
		s.gone += int64(below)
		if v.returned+own+below > granted {
			s.violation(c, "I3: purse of visit %d was given %d, returned %d, made %d retries, and its callees consumed %d", v.index, granted, v.returned, own, below)
		}
	}
	if retries > minted {
		s.violation(c, "I1: %d retries of %d tokens", retries, minted)
	}
	for hop, n := range attempts {
		if entries := minted / soakBudget; n > entries+minted {
			s.violation(c, "I2: %d attempts at hop %d, %d tokens", n, hop, minted)
		}
	}
	s.audited++
	s.minted += int64(minted)
	s.retries += int64(retries)
	s.most = max(s.most, retries)
}

// check says what the run was, and whether it was right.
func (s *soak) check(t *testing.T) {
	sent, succeeded := s.sent.Load(), s.succeeded.Load()
	var faults []string
	for f := nothing + 1; f < faultEnd; f++ {
		faults = append(faults, fmt.Sprintf("%v %d", f, s.faults[f].Load()))
		if s.faults[f].Load() == 0 {
			t.Errorf("no fault of the kind %v", f)
		}
	}
	half := len(s.heap) / 2
	if half < 3 {
		t.Fatalf("%d readings of the heap: the soak is too short", len(s.heap))
	}
	first, second := slices.Max(s.heap[:half]), slices.Max(s.heap[half:])
	var lent, home, lost, minted, retries, hidden int64
	for hop, sdk := range s.sdks {
		totals := sdk.Totals()
		minted, lost, hidden = minted+totals.Minted, lost+totals.Lost, hidden+totals.HiddenRepeats
		if totals.Orphans+totals.NoPurse+totals.Relayed+totals.Unreadable+totals.Foreign != 0 {
			t.Errorf("hop %d: orphans or requests that lost their budget: %+v", hop, totals)
		}
		if arrived, passed, handled := totals.Entries+totals.Callees, s.doors[hop].passed.Load(), s.handled[hop].Load(); arrived > passed || handled > arrived {
			t.Errorf("hop %d: %d requests passed the door, %d purses, %d handled", hop, passed, arrived, handled)
		}
		for name, d := range totals.Dependencies {
			lent, home, retries = lent+d.Lent, home+d.Home, retries+d.Retries
			if d.Home > d.Lent {
				t.Errorf("hop %d, %s: %d tokens lent, %d came home", hop, name, d.Lent, d.Home)
			}
			t.Logf("hop %d: %d calls, %d attempts, %d retries, %d lent, %d home, denied %v, claims %v", hop, d.Calls, d.Attempts, d.Retries, d.Lent, d.Home, d.Denied, d.Claims)
		}
	}
	t.Logf("%.0f requests/s over %.0f s, %d in all; %.1f %% succeeded, %d given up by the driver; p50 %v, p99 %v",
		float64(s.inTime)/s.elapsed.Seconds(), s.elapsed.Seconds(), sent, 100*float64(succeeded)/float64(sent), s.abandoned.Load(), s.quantile(0.5), s.quantile(0.99))
	t.Logf("faults: %s", strings.Join(faults, ", "))
	t.Logf("%d chains, %d tokens minted, %d retries arrived, at most %d in a chain; the SDKs sent %d, lent %d, got %d home, lost %d; repeats below the SDK: %d arrived, %d stopped",
		s.audited, s.minted, s.retries, s.most, retries, lent, home, lost, s.hidden, hidden)
	t.Logf("heap after collection, from the first quarter's end: at most %.1f MiB, then %.1f MiB; goroutines %d, then %d",
		mib(first), mib(second), slices.Max(s.routines[:half]), slices.Max(s.routines[half:]))
	if s.violated > 0 {
		t.Errorf("%d violations:\n%s", s.violated, strings.Join(s.violations, "\n"))
	}
	if s.audited != sent || s.strays.Load() != 0 {
		t.Errorf("%d requests, %d audited, %d attempts of no known chain", sent, s.audited, s.strays.Load())
	}
	if entries := s.sdks[0].Totals().Entries; minted != soakBudget*entries {
		t.Errorf("%d tokens minted for %d entries", minted, entries)
	}
	if s.wireLeases > lent {
		t.Errorf("leases of %d tokens arrived, %d were lent", s.wireLeases, lent)
	}
	if s.retries > retries {
		t.Errorf("%d retries arrived, the SDKs know of %d", s.retries, retries)
	}
	if s.retries == 0 || s.gone == 0 {
		t.Errorf("%d retries, %d tokens gone: nothing was at stake", s.retries, s.gone)
	}
	if second > first+first/10+heapSlack {
		t.Errorf("the heap grows: at most %.1f MiB in the first half, %.1f MiB in the second", mib(first), mib(second))
	}
	if float64(succeeded) < minSucceeded*float64(sent) {
		t.Errorf("%d of %d requests succeeded", succeeded, sent)
	}
}

func mib(bytes uint64) float64 { return float64(bytes) / (1 << 20) }

// quantile is the upper end of the bucket that holds it, so at most 9 % too long.
func (s *soak) quantile(q float64) time.Duration {
	rank := int64(q * float64(s.sent.Load()))
	for i := range s.latency {
		if rank -= s.latency[i].Load(); rank < 0 {
			return time.Duration(math.Exp2(float64(i+1)/8) * float64(time.Microsecond)).Round(10 * time.Microsecond)
		}
	}
	return 0
}
