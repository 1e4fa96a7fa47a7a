//go:build !race

package tables

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// What NUMBERS fixes of the incident. The rate, and how long it lasts, are free.
const (
	paymentRate  = 200 // the baseline, payments a second
	ledgerPace   = 20 * time.Millisecond
	ledgerQueue  = 50
	faultTimes   = 10
	ledgerSlots  = paymentRate * 125 / 100 / 50 // each serves 50 a second: 1.25 times the baseline
	grabRetries  = 5
	healthyTime  = 10 * time.Second
	faultTime    = 15 * time.Second
	recoveryTime = 15 * time.Second
	settleTime   = 2 * time.Second
)

// ledgerCatalog pins one profile for both services, as the team that runs the ledger would. Its queue at its worst is 2.2 s
// long: whoever gives up earlier asks again for what is still queued.
const ledgerCatalog = `
version: 1
chain: {budget: 3}
profiles:
  ledger-payment:
    extends: write-path
    retry: {max_attempts: 2, attempt_timeout: 3s}
    breaker: {window: 2s, failure_ratio: 50%, min_requests: 20, open_for: 500ms, probes: 8}
dependencies:
  ledger: {profile: ledger-payment, owner: team-ledger, on_failure: closed}
`

// TestT23 has two services pay through one ledger, which for a while takes ten times as long and fails half of what it does:
// first each by its own rules, then both on one profile and one budget for each chain. What the SDK does depends on whether
// the payments have an idempotency key: without one it repeats nothing that the ledger may have written. With one, the
// failures of the fault's first moments are repeated, and those retries that come before the queue is full take a place in it.
func TestT23_grab_and_go_NoRace(t *testing.T) {
	const runs = 5
	tab := newTable(t, "T23", "two services and one payment ledger, before and with the SDK; loads as multiples of the baseline",
		fmt.Sprintf("%d runs of 40 s of virtual time at 200 payments a second, seeds 1 to %d, the worst of them in each row", runs, runs))
	defer tab.print()
	var before, alone, after, keyed [runs]payments
	inParallel(t, runs, func(t *testing.T, i int) {
		seed := uint64(i + 1)
		before[i] = pay(t, seed, false, (*incident).before)
		alone[i] = pay(t, seed, false, (*incident).beforeWithoutBreaker)
		after[i] = pay(t, seed, false, (*incident).after)
		keyed[i] = pay(t, seed, true, (*incident).after)
	})
	least := func(of [runs]payments, f func(payments) float64) float64 {
		v := math.Inf(1)
		for _, p := range of {
			v = min(v, f(p))
		}
		return v
	}
	most := func(of [runs]payments, f func(payments) float64) float64 {
		return -least(of, func(p payments) float64 { return -f(p) })
	}
	full := (ledgerQueue * ledgerPace * faultTimes / ledgerSlots).Seconds()
	tab.loose = true
	tab.atLeast("before, load in the busiest second, Go without its breaker", "about 4", 3.8, least(alone, payments.peak))
	tab.atLeast("before, load in the busiest second", "about 4", 3.5, least(before, payments.peak))
	tab.atLeast("before, p95 of all payments in the fault, s", "> 2 s", full, least(before, payments.p95InFault))
	tab.atLeast("before, longest queue", "full", ledgerQueue, least(before, func(p payments) float64 { return float64(p.queue) }))
	tab.report("before, writes rejected because of a retry", "-", least(before, func(p payments) float64 { return float64(p.rejectedForRetry) }))
	for _, side := range []struct {
		name string
		runs [runs]payments
	}{{"after", after}, {"after, payments with a key", keyed}} {
		tab.below(side.name+", load in the busiest second", "≤ 1.2", 1.2, most(side.runs, payments.peak))
		tab.below(side.name+", p95 of successes, from 2 s after the fault, by the healthy one", "≤ 1.5", 1.5,
			most(side.runs, func(p payments) float64 { return p.p95After() / p.p95Healthy() }))
		tab.below(side.name+", second after the fault that is first as fast as before", "≤ 2", 2, most(side.runs, payments.recoveredIn))
	}
	tab.below("after, writes rejected because of a retry", "0", 0, most(after, func(p payments) float64 { return float64(p.rejectedForRetry) }))
	tab.report("after, payments with a key, retries that the ledger took in", "-", most(keyed, func(p payments) float64 { return float64(p.retriesIn) }))
}

// The headers of a payment: the second only where the SDK may repeat it.
const (
	paymentID  = "Payment"
	paymentKey = "Idempotency-Key"
)

// payments is what came of one run.
type payments struct {
	asked     []payment
	arrivals  []time.Duration // at the ledger
	retriesIn int             // retries among them that were not rejected
	queue     int             // the most that waited
	// rejectedForRetry is the first attempts rejected while, since the ledger was last idle, it had taken in a retry: no fewer
	// than would have found room without retries.
	rejectedForRetry int
}

type payment struct {
	at, took time.Duration
	ok       bool
}

// incident is one run in its bubble.
type incident struct {
	t     *testing.T
	start time.Time

	mu      sync.Mutex
	came    payments
	seen    map[string]bool
	free    []time.Duration // when each slot of the ledger is
	starts  []time.Duration // of those that wait
	inside  int
	tainted bool // a retry was taken in since the ledger was idle
	random  *rand.Rand
}

// pay plays the load against both services as the policy makes them.
func pay(t *testing.T, seed uint64, key bool, policy func(*incident) (grab, goes http.RoundTripper)) (came payments) {
	synctest.Test(t, func(t *testing.T) {
		in := &incident{t: t, start: time.Now(), seen: map[string]bool{}, free: make([]time.Duration, ledgerSlots), random: rand.New(rand.NewPCG(seed, 23))}
		grab, goes := policy(in)
		arrivals := rand.New(rand.NewPCG(seed, 0))
		const slot = time.Second / paymentRate
		var users sync.WaitGroup
		for i := range int((healthyTime + faultTime + recoveryTime) / slot) {
			at := time.Duration(i)*slot + time.Duration(arrivals.Int64N(int64(slot/2)))
			client, host := goes, "go"
			if arrivals.Float64() < .6 {
				client, host = grab, "grab"
			}
			time.Sleep(time.Until(in.start.Add(at)))
			users.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+host+"/", nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set(paymentID, strconv.Itoa(i))
				if key {
					req.Header.Set(paymentKey, strconv.Itoa(i))
				}
				resp, err := client.RoundTrip(req)
				in.mu.Lock()
				defer in.mu.Unlock()
				in.came.asked = append(in.came.asked, payment{at, time.Since(in.start) - at, !failed(resp, err)})
			})
		}
		users.Wait()
		came = in.came
	})
	slices.SortFunc(came.asked, func(a, b payment) int { return cmp.Compare(a.at, b.at) })
	return came
}

func inFault(at time.Duration) bool { return at >= healthyTime && at < healthyTime+faultTime }

// ServeHTTP is the ledger.
func (in *incident) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	done, ok := in.accept(r.Header.Get(paymentID))
	if done > 0 {
		time.Sleep(time.Until(in.start.Add(done)))
		in.mu.Lock()
		in.inside--
		in.tainted = in.tainted && in.inside > 0
		in.mu.Unlock()
	}
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// accept returns when a request that comes now is done, 0 if the queue is full, and whether it will have succeeded.
func (in *incident) accept(id string) (done time.Duration, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	now := time.Since(in.start)
	in.came.arrivals = append(in.came.arrivals, now)
	retry := in.seen[id]
	in.seen[id] = true
	for len(in.starts) > 0 && in.starts[0] <= now {
		in.starts = in.starts[1:]
	}
	slot := 0
	for i := range in.free {
		if in.free[i] < in.free[slot] {
			slot = i
		}
	}
	begins := max(now, in.free[slot])
	if begins > now {
		if len(in.starts) >= ledgerQueue {
			if in.tainted && !retry {
				in.came.rejectedForRetry++
			}
			return 0, false
		}
		in.starts = append(in.starts, begins)
		in.came.queue = max(in.came.queue, len(in.starts))
	}
	in.inside++
	if retry {
		in.tainted = true
		in.came.retriesIn++
	}
	takes, ok := ledgerPace, true
	if inFault(begins) {
		takes, ok = faultTimes*ledgerPace, in.random.IntN(2) == 0
	}
	in.free[slot] = begins + takes
	return in.free[slot], ok
}

func (in *incident) beforeWithoutBreaker() (grab, goes http.RoundTripper) {
	ledger := pipe{in}
	return impatient{grabRetries, ledgerPace}.transport(ledger), ledger
}

func (in *incident) before() (grab, goes http.RoundTripper) {
	grab, ledger := in.beforeWithoutBreaker()
	breaker := &countBreaker{failures: 3 * (1 + grabRetries), window: 10 * time.Second, openFor: time.Second}
	var mu sync.Mutex
	return grab, roundTripFunc(func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		allowed := breaker.allows(time.Now())
		mu.Unlock()
		if !allowed {
			return nil, errOwn
		}
		resp, err := ledger.RoundTrip(req)
		if failed(resp, err) {
			mu.Lock()
			breaker.failed(time.Now())
			mu.Unlock()
		}
		return resp, err
	})
}

func (in *incident) after() (grab, goes http.RoundTripper) {
	catalog, err := profiles.Load([]byte(ledgerCatalog), "ledger")
	if err != nil {
		in.t.Fatal(err)
	}
	sdk := func(name string) *chainbudget.SDK {
		random := rand.New(rand.NewPCG(in.random.Uint64(), 0))
		var mu sync.Mutex
		e := new(engine.SDK)
		e.Init(engine.Config{Service: name, Catalog: catalog, Random: func(n int64) int64 {
			mu.Lock()
			defer mu.Unlock()
			return random.Int64N(n)
		}})
		return (*chainbudget.SDK)(e)
	}
	ledger := pipe{budgethttp.NewHandler(in, sdk("ledger"))}
	service := func(name string, named profiles.Name) http.RoundTripper {
		s := sdk(name)
		dep, err := s.Dependency("ledger", named) // each team names what it finds right; the catalog decides
		if err != nil {
			in.t.Fatal(err)
		}
		client := budgethttp.NewTransport(ledger, dep)
		return pipe{budgethttp.NewHandler(budgethttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
			req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://ledger/", nil)
			if err != nil {
				return err
			}
			req.Header.Set(paymentID, r.Header.Get(paymentID))
			if key := r.Header.Get(paymentKey); key != "" {
				req.Header.Set(paymentKey, key)
			}
			return outcome(client.RoundTrip(req))
		}), s, budgethttp.Entry())}
	}
	return service("grab", profiles.ReadHeavy), service("go", profiles.LatencyCritical)
}

// peak is the load of the busiest second.
func (p payments) peak() float64 {
	most, first := 0, 0
	for i, at := range p.arrivals {
		for at-p.arrivals[first] >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return float64(most) / paymentRate
}

// p95 is that of the payments asked for from one moment until another.
func (p payments) p95(from, until time.Duration, all bool) float64 {
	var took []time.Duration
	for _, one := range p.asked {
		if one.at >= from && one.at < until && (all || one.ok) {
			took = append(took, one.took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[(len(took)*95+99)/100-1].Seconds()
}

func (p payments) p95Healthy() float64 { return p.p95(0, healthyTime, false) }
func (p payments) p95InFault() float64 { return p.p95(healthyTime, healthyTime+faultTime, true) }
func (p payments) p95After() float64 {
	return p.p95(healthyTime+faultTime+settleTime, math.MaxInt64, false)
}

// recoveredIn is how many whole seconds after the fault the first one began in which nine of ten payments succeeded, about
// as fast as before.
func (p payments) recoveredIn() float64 {
	for s := time.Duration(0); s < recoveryTime; s += time.Second {
		from := healthyTime + faultTime + s
		asked, good := 0, 0
		for _, one := range p.asked {
			if one.at >= from && one.at < from+time.Second {
				asked++
				if one.ok {
					good++
				}
			}
		}
		if float64(good) >= .9*float64(asked) && p.p95(from, from+time.Second, false) <= 1.5*p.p95Healthy() {
			return s.Seconds()
		}
	}
	return math.Inf(1)
}
