package migrate

import (
	"context"

	"github.com/cenkalti/backoff/v7"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

func rateWithBackoff(ctx context.Context, fetch func(context.Context) (float64, error)) (float64, error) {
	return backoff.Retry(ctx, func() (float64, error) {
		return fetch(ctx)
	}, backoff.WithMaxTries(3))
}

func rateAfterBackoff(ctx context.Context, rates *chainbudget.Dependency, fetch func(context.Context) (float64, error)) (float64, error) {
	return chainbudget.Call(ctx, rates, fetch, chainbudget.Idempotent())
}
