package incident

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/chainbudget/chainbudget-go/examples/storm/loopback"
)

// arrival is one payment that a user asks for.
type arrival struct {
	at   time.Duration
	id   string
	grab bool
}

// arrivals draws the whole load beforehand, so that both runs get the same: one payment in each slot of 1/rate, at a
// random moment of its first half, 60 % of them at Grab.
func arrivals(s Settings) []arrival {
	random := rand.New(rand.NewPCG(s.Seed, 0))
	slot := time.Second / time.Duration(s.Rate)
	list := make([]arrival, 0, int(s.Duration/slot))
	for at := time.Duration(0); at < s.Duration; at += slot {
		list = append(list, arrival{
			at: at + time.Duration(random.Int64N(int64(slot)/2)), id: fmt.Sprintf("payment-%d", len(list)), grab: random.Float64() < grabShare,
		})
	}
	return list
}

// patience is how long a user waits, and how long the last ones may take once the load has ended.
const patience = 10 * time.Second

// send plays the load against a world: open loop, nobody waits for an answer before the next one asks. It returns once
// every user has an answer or ctx has ended. late is how late the latest of them asked.
func send(ctx context.Context, w *world, list []arrival, start time.Time) (late time.Duration) {
	base := loopback.NewBase(idlePerServer)
	defer base.CloseIdleConnections()
	users := &http.Client{Transport: base, Timeout: patience}
	var asking sync.WaitGroup
	defer asking.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, a := range list {
		timer.Reset(time.Until(start.Add(a.at)))
		select {
		case <-ctx.Done():
			return late
		case <-timer.C:
		}
		late = max(late, time.Since(start)-a.at)
		url := w.goAt
		if a.grab {
			url = w.grabAt
		}
		asking.Go(func() { pay(ctx, users, url, a.id) })
	}
	return late
}

// pay is one user. What comes of it is counted by the servers; a user who got no answer has nothing to add.
func pay(ctx context.Context, users *http.Client, url, id string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return
	}
	req.Header.Set(paymentHeader, id)
	if resp, err := users.Do(req); err == nil {
		loopback.Discard(resp)
	}
}
