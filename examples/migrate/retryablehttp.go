package migrate

import (
	"net/http"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

func clientWithRetryablehttp(base http.RoundTripper) *http.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{Transport: base}
	client.RetryMax = 3
	client.Logger = nil
	return client.StandardClient()
}

func clientAfterRetryablehttp(base http.RoundTripper, sdk *chainbudget.SDK) (*http.Client, error) {
	search, err := sdk.Dependency("search", "search-reads")
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: budgethttp.NewTransport(base, search)}, nil
}
