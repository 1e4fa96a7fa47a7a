//go:build !race

package tables

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/testnet"
)

// fanRun is an entry that makes k calls in parallel, all of which it needs: to a leaf, or with two levels to a service
// that makes one call to a leaf. Each attempt on the leaf fails with p. It runs in virtual time, with backoffs.
type fanRun struct {
	rules     rules
	k         int
	p         float64
	requests  int
	latency   time.Duration // of each hop
	twoLevels bool          // over testnet; one level goes through a pipe
	// stall is how likely an attempt on the leaf succeeds only after a hundred hops' time, so that the lease above it is
	// not home when somebody waits for it.
	stall float64
}

// fanResult is what came of a fanRun.
type fanResult struct {
	success  float64
	requests int
	retries  int // the most that any request made
	// unlike counts the requests that one pool of tokens would have decided otherwise, with the same draws, after the
	// SDK has learned what a leaf is. It has a meaning only on one level.
	unlike int
	// held is the longest time that a failed call was held back before its retry, or before its failure was returned;
	// over is by how much any call was held longer than it may be, 0 if none was.
	held, over time.Duration
	// inVain counts the calls that were held as long as they may be and failed all the same.
	inVain int
}

func (f fanRun) run(t *testing.T, name string, seed uint64) fanResult {
	t.Helper()
	var mu sync.Mutex
	var good int
	var result fanResult
	per := f.requests / shards
	t.Run(name, func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprintf("shard_%d", shard), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := &fanShard{fanRun: f, seed: seed + uint64(shard)*1_000_003, arrivals: make([]atomic.Int32, f.k)}
					n := s.good(t, per)
					mu.Lock()
					defer mu.Unlock()
					good += n
					result.requests += per
					result.unlike += s.unlike
					result.retries = max(result.retries, s.most)
					result.held = max(result.held, s.waits.longest)
					result.over = max(result.over, s.waits.over)
					result.inVain += s.waits.inVain
				})
			})
		}
	})
	result.success = float64(good) / float64(result.requests)
	return result
}

// fanShard is the part of a fanRun that runs in one bubble, with one set of fresh SDKs, one request after the other.
type fanShard struct {
	fanRun
	seed     uint64
	request  uint64
	arrivals []atomic.Int32 // at the leaf, of each call of the present request
	most     int
	unlike   int
	waits    waits
	work     chan func()
}

// good makes n requests and returns how many succeed.
func (s *fanShard) good(t *testing.T, n int) int {
	base := func(_ string, h http.Handler) http.RoundTripper { return pipe{h} }
	if s.twoLevels {
		network := testnet.New(func(*http.Request) testnet.Fault {
			return testnet.Fault{Before: s.latency / 2, After: s.latency / 2}
		})
		defer network.Close()
		base = func(host string, h http.Handler) http.RoundTripper {
			network.Handle(host, h)
			return network
		}
	}
	next := "leaf"
	below := base(next, budgethttp.NewHandler(http.HandlerFunc(s.leaf), s.rules.service(t, next, true, s.seed).sdk))
	if s.twoLevels {
		middle := s.rules.service(t, "middle", true, s.seed)
		forward := s.caller(middle, next, below)
		next = middle.name
		below = base(next, budgethttp.NewHandler(wrapped(func(r *http.Request) error {
			return forward(r.Context(), r.URL.Path)
		}), middle.sdk))
	}
	entry := s.rules.service(t, "entry", true, s.seed)
	forward := s.caller(entry, next, below)
	ask := pipe{budgethttp.NewHandler(wrapped(func(r *http.Request) error {
		failures := make([]error, s.k)
		var calls sync.WaitGroup
		for i := range s.k {
			calls.Add(1)
			s.work <- func() {
				defer calls.Done()
				failures[i] = forward(r.Context(), "/"+strconv.Itoa(i))
			}
		}
		calls.Wait()
		return errors.Join(failures...)
	}), entry.sdk, budgethttp.Entry())}
	// One goroutine for each call in parallel, used again: a third of the time would go into growing new ones' stacks.
	s.work = make(chan func())
	defer close(s.work)
	for range s.k {
		go func() {
			for f := range s.work {
				f()
			}
		}()
	}
	good := 0
	for range n {
		s.request++
		ok := call(t.Context(), ask, "http://entry/") == nil
		if ok {
			good++
		}
		if s.request > learning && ok != s.pool() {
			s.unlike++
		}
		s.most = max(s.most, s.retries())
	}
	return good
}

// learning is the number of requests after which every dependency is known: a leaf is one after 16 returns.
const learning = 16

// pool reports whether the request succeeds when every call can use every token: when all failures together are no more
// than the tokens.
func (s *fanShard) pool() bool {
	failures := 0
	for i := range uint64(s.k) {
		for n := uint64(1); uniform(s.seed, s.request, i, n) < s.p; n++ {
			if failures++; failures > s.rules.budget {
				return false
			}
		}
	}
	return true
}

// leaf fails with p. What it draws is a matter of the request, the call and how often that has come, not of the order in
// which calls come, so that a seed means the same in every run.
func (s *fanShard) leaf(w http.ResponseWriter, r *http.Request) {
	if !s.twoLevels {
		time.Sleep(s.latency)
	}
	i, err := strconv.Atoi(r.URL.Path[1:])
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	n := s.arrivals[i].Add(1)
	if uniform(s.seed, s.request, uint64(i), uint64(n)) < s.p {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if s.stall > 0 && uniform(^s.seed, s.request, uint64(i), uint64(n)) < s.stall {
		time.Sleep(100 * s.latency)
	}
}

// retries returns how many retries the request made, and forgets them. A retry at the first level ends in an attempt at
// the leaf as one at the second does, so the leaf has seen all of them.
func (s *fanShard) retries() int {
	attempts := 0
	for i := range s.arrivals {
		attempts += int(s.arrivals[i].Swap(0))
	}
	return attempts - s.k
}

// caller returns a function that makes one call of a service, and watches how long it is held back.
func (s *fanShard) caller(from *service, to string, below http.RoundTripper) func(ctx context.Context, path string) error {
	dep, err := from.sdk.Dependency(to, "table")
	if err != nil {
		from.t.Fatal(err)
	}
	client := from.transport(to, s.waits.watch(below, (*engine.Dependency)(dep)))
	return func(ctx context.Context, path string) error {
		p := new(pendingCall)
		err := call(context.WithValue(ctx, pendingKey{}, p), client, "http://"+to+path)
		s.waits.released(p, err != nil)
		return err
	}
}

// waits measures how long failed calls are held back.
type waits struct {
	mu            sync.Mutex
	longest, over time.Duration
	inVain        int
}

// pendingCall is one call. It belongs to the goroutine that makes the call.
type pendingCall struct {
	dep     *engine.Dependency
	failed  time.Time     // when its latest attempt did; zero = it did not
	typical time.Duration // of the dependency at that time
}

type pendingKey struct{}

// watch stands below the SDK and sees every attempt.
func (w *waits) watch(base http.RoundTripper, dep *engine.Dependency) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		p := req.Context().Value(pendingKey{}).(*pendingCall)
		w.released(p, false)
		resp, err := base.RoundTrip(req)
		if failed(resp, err) {
			*p = pendingCall{dep: dep, failed: time.Now(), typical: dep.Typical()}
		}
		return resp, err
	})
}

// released is called when a call goes on: with a retry, or back to the handler. It may have been held for the ceiling of
// its backoff, or for twice the typical attempt of the slowest dependency that holds a lease, whichever is longer; here
// a service has one dependency. gaveUp says that no retry follows.
func (w *waits) released(p *pendingCall, gaveUp bool) {
	if p.failed.IsZero() {
		return
	}
	held := time.Since(p.failed)
	allowed := max(p.dep.Policy().Profile().Backoff.Cap, 2*max(p.typical, p.dep.Typical()))
	p.failed = time.Time{}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = max(w.longest, held)
	w.over = max(w.over, held-allowed)
	if gaveUp && held > p.dep.Policy().Profile().Backoff.Cap && held >= 2*min(p.typical, p.dep.Typical()) {
		w.inVain++
	}
}

// uniform returns a number in [0, 1) that belongs to its arguments.
func uniform(seed, request, call, arrival uint64) float64 {
	h := mix(mix(mix(seed)^request)^call) ^ arrival
	return float64(mix(h)>>11) / (1 << 53)
}

// mix is the output function of the generator SplitMix64 (Steele, Lea and Flood 2014).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
