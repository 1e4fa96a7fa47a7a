package budgethttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A layer below may make requests of its own with the attempt's context: it fetches a token, or answers a challenge. They
// are not replays of net/http, and nothing of them is stopped.
func TestRegression_a_layer_below_may_make_requests_of_its_own(t *testing.T) {
	protocols(t, func(t *testing.T, serveCallee func(testing.TB, http.Handler) *httptest.Server) {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
			t.Run("token/"+method, func(t *testing.T) {
				tokens := new(tap)
				tokenServer := serve(t, tokens.watch(answer(200, "token")))
				server, arrived := callee(t, serveCallee, answer(200, "done"))
				c := newCaller(t, roomy, catalog(3))
				pool := newPool(t)
				base := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
					fetch(t, pool, request(t, r.Context(), http.MethodGet, tokenServer.URL, nil))
					resp, err := pool.RoundTrip(r)
					fetch(t, pool, request(t, r.Context(), http.MethodGet, tokenServer.URL, nil)) // and something after it
					return resp, err
				})
				status, body := send(t, c.client(t, base), request(t, c.chain(t), method, server.URL, strings.NewReader("x")))
				if status != 200 || body != "done" || len(tokens.all()) != 2 || len(arrived.all()) != 1 {
					t.Errorf("status %d %q, %d tokens fetched, %d requests arrived; want 200, 2 and 1", status, body, len(tokens.all()), len(arrived.all()))
				}
				if got := c.SDK.Totals(); got.HiddenRepeats != 0 || got.Lost != 0 {
					t.Errorf("%d hidden repeats and %d tokens lost, want none", got.HiddenRepeats, got.Lost)
				}
			})
			t.Run("challenge/"+method, func(t *testing.T) {
				server, arrived := callee(t, serveCallee, func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Authorization") == "" {
						w.WriteHeader(http.StatusUnauthorized)
						return
					}
					io.WriteString(w, "done")
				})
				c := newCaller(t, roomy, catalog(3))
				pool := newPool(t)
				base := roundTripperFunc(func(r *http.Request) (*http.Response, error) {
					resp, err := pool.RoundTrip(r)
					if err != nil || resp.StatusCode != 401 {
						return resp, err
					}
					read(t, resp)
					again := r.Clone(r.Context())
					if again.Body, err = r.GetBody(); err != nil {
						return nil, err
					}
					again.Header.Set("Authorization", "me")
					return pool.RoundTrip(again)
				})
				status, body := send(t, c.client(t, base), request(t, c.chain(t), method, server.URL, strings.NewReader("x")))
				if status != 200 || body != "done" || len(arrived.all()) != 2 {
					t.Errorf("status %d %q, %d requests arrived; want 200 and 2", status, body, len(arrived.all()))
				}
			})
		}
	})
}

func fetch(t *testing.T, rt http.RoundTripper, req *http.Request) {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Errorf("the layer's own request failed: %v", err)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}
