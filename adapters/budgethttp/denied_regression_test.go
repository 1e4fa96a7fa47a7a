package budgethttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// In bypass, and with a nil dependency, Denied knows of nothing. A handler that wraps what it returns still answers a
// failure.
func TestRegression_wrapping_what_Denied_returns_is_a_failure_in_every_mode(t *testing.T) {
	for _, mode := range []profiles.Mode{profiles.ModeBypass, profiles.ModeObserve, profiles.ModeEnforce} {
		for name, wrap := range map[string]func(error) error{
			"errorf": func(denied error) error { return fmt.Errorf("payments: %w", denied) },
			"join":   func(denied error) error { return errors.Join(errors.New("payments"), denied) },
		} {
			t.Run(mode.String()+"/"+name, func(t *testing.T) {
				server := serve(t, answer(http.StatusServiceUnavailable, ""))
				c := newCaller(t, roomy, catalog(0), chainbudgettest.Mode(mode))
				client := c.client(t, nil)
				h := budgethttp.NewHandler(budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
					resp, err := client.Do(request(t, r.Context(), http.MethodPost, server.URL, nil))
					if err != nil {
						return err
					}
					read(t, resp)
					return wrap(budgethttp.Denied(resp))
				}), c.SDK)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, request(t, context.Background(), http.MethodGet, "/", nil))
				if w.Code != http.StatusBadGateway {
					t.Errorf("status %d, want 502", w.Code)
				}
			})
		}
	}
}
