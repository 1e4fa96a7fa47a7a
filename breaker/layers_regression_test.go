package breaker_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// Faults that the layers above could bring back, by their number in the survey.

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// client returns a client of the dependency "payments", whose breaker opens after half of 10 attempts, over a base that
// answers with status.
func client(t *testing.T, status int) (_ *http.Client, sent *int) {
	sdk := chainbudgettest.New(t, chainbudgettest.Catalog("version: 1\nprofiles: {brittle: {extends: no-retry, availability_floor: 0%, "+
		"breaker: {min_requests: 10, failure_ratio: 50%, open_for: 1h, max_in_flight: 10}}}\n"))
	payments := sdk.Dependency("payments", "brittle")
	sent = new(int)
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		*sent++
		return &http.Response{
			StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
			Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")),
		}, nil
	})
	return &http.Client{Transport: budgethttp.NewTransport(base, payments)}, sent
}

func get(t *testing.T, c *http.Client, url string) error {
	t.Helper()
	response, err := c.Get(url)
	if err == nil {
		require.NoError(t, response.Body.Close())
	}
	return err
}

// A breaker that only sees errors takes ten times 500 for ten successes.
func TestRegression_P047_an_answer_of_500_is_a_failure(t *testing.T) {
	for status, opens := range map[int]bool{200: false, 404: false, 429: false, 500: true, 503: true} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			c, sent := client(t, status)
			for range 10 {
				require.NoError(t, get(t, c, "http://payments.internal/"))
			}
			err := get(t, c, "http://payments.internal/")
			if !opens {
				require.NoError(t, err)
				require.Equal(t, 11, *sent)
				return
			}
			require.Equal(t, 10, *sent)
			var refused *breaker.OpenError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "payments", refused.Name)
			require.NotZero(t, refused.RetryIn())
		})
	}
}

// A refusal is no answer of the server. Whoever makes one of it, as a proxy does, says 502 or 503: a 429 without Retry-After,
// which is what failsafe-go answers, is repeated at once by clients that retry it.
func TestRegression_P048_a_refusal_is_an_error_and_not_a_429(t *testing.T) {
	c, _ := client(t, 503)
	for range 10 {
		require.NoError(t, get(t, c, "http://payments.internal/"))
	}
	err := get(t, c, "http://payments.internal/")
	denied, ok := errors.AsType[*ownership.DeniedError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, ownership.ReasonBreakerOpen, denied.Reason)
	require.NotZero(t, denied.RetryAfter)

	target, err := url.Parse("http://payments.internal/")
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:    c.Transport,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	answer := httptest.NewRecorder()
	proxy.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Equal(t, http.StatusBadGateway, answer.Code)
}

// A breaker for each URL or host grows without bound, and each sees too little to open.
func TestRegression_P050_one_breaker_whatever_the_hosts_and_paths(t *testing.T) {
	c, sent := client(t, 503)
	for i := range 1000 {
		err := get(t, c, fmt.Sprintf("http://host-%d.internal/path/%d", i, i))
		require.Equal(t, i >= 10, err != nil, "request %d", i)
	}
	require.Equal(t, 10, *sent)
}
