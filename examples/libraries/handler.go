package libraries

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
)

// price answers with a price, by the library.
func price(rates *Client) http.Handler {
	return budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		rate, err := rates.Rate(r.Context(), "CHF")
		var failed *StatusError
		if errors.As(err, &failed) {
			if denied := budgethttp.Denied(failed.Response); denied != nil {
				return errors.Join(err, denied) // this call is the cause of our own failure
			}
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, 100*rate)
		return err
	})
}
