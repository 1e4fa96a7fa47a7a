package work

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// accept answers at once, and does the work afterwards. The request's own tokens go back with the response.
func accept(sdk *chainbudget.SDK, running *sync.WaitGroup, work func(context.Context)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithoutCancel(r.Context()) // its values without its end
		running.Go(func() {
			ctx, end := chainbudget.Start(ctx, sdk)
			defer end()
			ctx, cancel := context.WithTimeout(ctx, time.Minute) // nobody waits: it needs an end of its own
			defer cancel()
			work(ctx)
		})
		w.WriteHeader(http.StatusAccepted)
	})
}

// every runs a job again and again until ctx ends. Each run has a budget of its own, and ends before the next is due.
func every(ctx context.Context, sdk *chainbudget.SDK, period time.Duration, job func(context.Context)) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			once(ctx, sdk, period, job)
		}
	}
}

func once(ctx context.Context, sdk *chainbudget.SDK, limit time.Duration, job func(context.Context)) {
	ctx, end := chainbudget.Start(ctx, sdk)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	job(ctx)
}
