package libraries

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/redis/go-redis/v9"
	"github.com/stripe/stripe-go/v85"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

func redisWithoutRetries(options redis.Options) *redis.Client {
	options.MaxRetries = -1   // 0 means 3
	options.DialerRetries = 1 // 0 means 5
	return redis.NewClient(&options)
}

func redisGet(ctx context.Context, cache *chainbudget.Dependency, client *redis.Client, key string) (string, error) {
	return chainbudget.Call(ctx, cache, func(ctx context.Context) (string, error) {
		return client.Get(ctx, key).Result()
	}, chainbudget.Idempotent())
}

func awsWithoutRetries(config aws.Config, dep *chainbudget.Dependency) aws.Config {
	config.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	config.HTTPClient = &http.Client{Transport: budgethttp.NewTransport(nil, dep)}
	return config
}

func stripeWithoutRetries(key string, base http.RoundTripper, dep *chainbudget.Dependency) *stripe.Client {
	return stripe.NewClient(key, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		MaxNetworkRetries: stripe.Int64(0), // nil means 2
		HTTPClient:        &http.Client{Transport: budgethttp.NewTransport(base, dep)},
	})))
}

func sqlWithoutRetries(ctx context.Context, db *sql.DB, dep *chainbudget.Dependency, query string) error {
	return chainbudget.Do(ctx, dep, func(ctx context.Context) error {
		conn, err := db.Conn(ctx) // statements on a *sql.Conn are sent once
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.ExecContext(ctx, query)
		return err
	}, chainbudget.CallOption{
		MayRepeat: true, // of this query, not of every one
		Classify:  func(err error) bool { return errors.Is(err, driver.ErrBadConn) },
	})
}
