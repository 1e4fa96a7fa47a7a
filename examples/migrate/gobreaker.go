package migrate

import (
	"context"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

func breakerOfRates() *gobreaker.CircuitBreaker[float64] {
	return gobreaker.NewCircuitBreaker[float64](gobreaker.Settings{
		Name:         "rates",
		Interval:     10 * time.Second,
		BucketPeriod: time.Second,
		Timeout:      5 * time.Second,
		MaxRequests:  3,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= 20 && float64(c.TotalFailures) >= 0.5*float64(c.Requests)
		},
	})
}

func rateWithGobreaker(ctx context.Context, breaker *gobreaker.CircuitBreaker[float64], fetch func(context.Context) (float64, error)) (float64, error) {
	return breaker.Execute(func() (float64, error) {
		return fetch(ctx)
	})
}

func rateAfterGobreaker(ctx context.Context, rates *chainbudget.Dependency, fetch func(context.Context) (float64, error)) (float64, error) {
	return chainbudget.Call(ctx, rates, fetch)
}
