package migrate

import (
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

func clientWithFailsafe(base http.RoundTripper) *http.Client {
	retries := failsafehttp.NewRetryPolicyBuilder().
		WithMaxAttempts(3).
		WithBackoff(50*time.Millisecond, 5*time.Second).
		Build()
	breaker := circuitbreaker.NewBuilder[*http.Response]().
		HandleIf(func(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }).
		WithFailureRateThreshold(0.5, 20, 10*time.Second).
		WithDelay(5 * time.Second).
		Build()
	return &http.Client{Transport: failsafehttp.NewRoundTripper(base, retries, breaker)}
}

func clientAfterFailsafe(base http.RoundTripper, sdk *chainbudget.SDK) (*http.Client, error) {
	search, err := sdk.Dependency("search", "search-reads")
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: budgethttp.NewTransport(base, search)}, nil
}
