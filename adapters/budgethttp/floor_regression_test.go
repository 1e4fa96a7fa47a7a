package budgethttp_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// What the dependency has nothing to do with does not count against its availability: here the caller's own body fails.
func TestRegression_a_body_that_fails_is_not_the_dependencys_unavailability(t *testing.T) {
	gets := script(answer(http.StatusServiceUnavailable, ""), answer(http.StatusOK, ""))
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			gets.ServeHTTP(w, r)
		}
	}))
	c := newCaller(t, roomy, catalog(3, "availability_floor: 60%"))
	transport := c.transport(t, nil)
	for range 30 { // more than the floor's least number of samples
		req := request(t, c.chain(t), http.MethodPut, server.URL, failingReader{errors.New("disk")})
		if _, err := transport.RoundTrip(req); err == nil {
			t.Fatal("the request succeeds")
		}
	}
	status, _ := send(t, &http.Client{Transport: transport}, request(t, c.chain(t), http.MethodGet, server.URL, nil))
	reasons := c.Reasons()
	if last := reasons[len(reasons)-1]; status != http.StatusOK || last != ownership.ReasonAllowed {
		t.Errorf("status %d, the last decision is %v; want the retry to be allowed and to succeed", status, last)
	}
}
