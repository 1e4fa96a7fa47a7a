package budgethttp_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// A breaker whose key is shared by requests with different thresholds surprises its users (r-lib/httr2#613): two
// dependencies on one host have each its own, and Explain says whose it is and which rule it has.
func TestRegression_A106_the_key_of_a_breaker_is_the_dependency(t *testing.T) {
	t.Setenv("CHAINBUDGET_MODE", "")
	sdk, err := chainbudget.New("checkout", chainbudget.WithStrict(), chainbudget.WithCatalogFS(fstest.MapFS{"c.yaml": {Data: []byte(`
version: 1
profiles:
  strict: {extends: no-retry, breaker: {min_requests: 2}, availability_floor: 0%}
  patient: {extends: no-retry, breaker: {min_requests: 7}, availability_floor: 0%}
dependencies: {reads: {profile: strict}, writes: {profile: patient}}
`)}}, "c.yaml"))
	require.NoError(t, err)
	defer sdk.Close()
	base := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody, Request: r, Header: http.Header{}}, nil
	})
	for name, opens := range map[string]int{"reads": 2, "writes": 7} {
		dep, err := sdk.Dependency(name, "")
		require.NoError(t, err)
		client := &http.Client{Transport: budgethttp.NewTransport(base, dep)}
		sent := 0
		for range 20 {
			resp, err := client.Get("http://one.internal/" + name)
			if err == nil {
				sent++
				resp.Body.Close()
				continue
			}
			var denied *chainbudget.DeniedError
			require.True(t, errors.As(err, &denied))
			assert.Equal(t, ownership.ReasonBreakerOpen, denied.Reason)
			assert.Equal(t, name, denied.Dependency)
		}
		assert.Equal(t, opens, sent, name)
		text := dep.Explain().String()
		assert.Contains(t, text, name)
		assert.Regexp(t, `breaker\.min_requests +`+map[string]string{"reads": "2", "writes": "7"}[name]+` `, text)
	}
}
