package metrics

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

type base func(*http.Request) (*http.Response, error)

func (f base) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A121, A122: callers, entries, owners, hosts and paths are anybody's to choose, and none becomes a label that nobody has
// declared. Somebody collects all the while.
func TestRegression_A121_A122_hostile_names_make_no_series_NoRace(t *testing.T) {
	const warmUp = 20_000
	declared := []string{"shop", "ledger", "checkout"}
	s := newStage(t, catalog("", "retry: {max_attempts: 3}\n    availability_floor: 0%\n    budget: {burst: 1000, ratio: 100%, fund: requests}", "")+"  checkout: {serves: [ledger]}\n", fine)
	name := func(r *rand.Rand) string {
		if r.IntN(3) == 0 {
			return declared[r.IntN(len(declared))]
		}
		return fmt.Sprintf("evil-%x", r.Uint64())
	}
	client := budgethttp.NewTransport(base(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		switch n := rand.IntN(5); n {
		case 0:
			w.WriteHeader(http.StatusOK)
		case 4: // and says nothing
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			returns(w, r, ownership.ClaimClaimed+ownership.Claim(n-1), name(rand.New(rand.NewPCG(rand.Uint64(), 1))))
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return w.Result(), nil
	}), s.ledger)
	handler := budgethttp.NewHandler(budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		out, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.Path, nil)
		if err != nil {
			return err
		}
		resp, err := client.RoundTrip(out)
		if err != nil {
			return err
		}
		return denied(resp)
	}), s.sdk)
	send := func(r *rand.Rand) {
		method := http.MethodGet
		if r.IntN(4) == 0 {
			method = http.MethodPost
		}
		in := httptest.NewRequest(method, fmt.Sprintf("http://evil-%x.internal/%x", r.Uint64(), r.Uint64()), nil)
		q := otelprop.Request{
			Grant: uint8(r.IntN(4)), Limit: 3, Hop: uint8(1 + r.IntN(3)), Nonce: otelprop.Nonce(r.Uint32()), Entry: otelprop.Slug(name(r), otelprop.MaxEntry),
			Caller: otelprop.Slug(name(r), otelprop.MaxCaller), Attempt: uint8(1 + r.IntN(3)), Profile: name(r), Digest: fmt.Sprintf("%08x", r.Uint32()), Timeout: time.Minute,
		}
		if r.IntN(10) > 0 {
			in.Header.Set(otelprop.RequestHeader, q.Header())
		}
		if r.IntN(10) > 0 {
			in.Header.Set(otelprop.BaggageHeader, q.Member())
		}
		handler.ServeHTTP(httptest.NewRecorder(), in)
	}
	run := func(requests int, seed uint64) {
		var left atomic.Int64
		left.Store(int64(requests))
		var senders sync.WaitGroup
		for i := range uint64(32) {
			senders.Go(func() {
				r := rand.New(rand.NewPCG(seed, i))
				for left.Add(-1) >= 0 {
					send(r)
				}
			})
		}
		senders.Wait()
	}

	run(warmUp, 1) // until everything that is declared has occurred
	before := collect(t, s.reader, "checkout")
	ctx, stop := context.WithCancel(context.Background())
	var collector sync.WaitGroup
	collector.Go(func() {
		last := before
		often := time.NewTicker(10 * time.Millisecond)
		defer often.Stop()
		for ctx.Err() == nil {
			<-often.C
			now := collect(t, s.reader, "checkout")
			for key, v := range now {
				if v < last[key] && !standing.MatchString(key) {
					t.Errorf("%s went from %v to %v", key, last[key], v)
				}
			}
			last = now
		}
	})
	run(hostileRequests, 2)
	stop()
	collector.Wait()
	after := collect(t, s.reader, "checkout")
	if had, has := slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)); !slices.Equal(had, has) {
		t.Errorf("%d series before, and %d after %d requests", len(had), len(has), hostileRequests)
		for _, key := range has {
			if _, there := before[key]; !there {
				t.Error(key)
			}
		}
	}
	// docs/metrics.md: with one dependency, and the names other, empty, and the three.
	const names = 5
	const most = 124 + 7*names + 48 + 24*names
	t.Logf("%d series, at most %d", len(after), most)
	if len(after) > most {
		t.Errorf("%d series, want at most %d", len(after), most)
	}
	for _, key := range []string{
		"retries{dependency=ledger,entry=other,kind=retry,profile=p}", "claims.received{claim=claimed,dependency=ledger,owner=other,profile=p}",
		"claims.sent{claim=unclaimed,owner=other}", "profile.mismatches{caller=other,kind=divergent}",
		"retries{dependency=ledger,entry=shop,kind=retry,profile=p}", "profile.mismatches{caller=shop,kind=divergent}",
	} {
		if after[key] == 0 {
			t.Errorf("%s is 0: the test proves nothing", key)
		}
	}
	if n := after["calls{dependency=ledger,profile=p}"]; n != hostileRequests+warmUp {
		t.Errorf("%v calls were counted, want %d", n, hostileRequests+warmUp)
	}
	sound(t, after)
	agrees(t, after, s.sdk.Totals())
}

// denied is the failure that a response is, or nil.
func denied(resp *http.Response) error {
	_ = resp.Body.Close()
	if d := budgethttp.Denied(resp); d != nil {
		return d
	}
	return nil
}
