package subject

import (
	"net/http"
	"strconv"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// Spread returns an operation that sends a full hop to a host and a path that it has not used before, through one
// dependency and one handler. end releases what it uses.
func Spread() (op Op, end func()) {
	s := new(stage)
	sdk := newSDK(catalog)
	dep := dependency(sdk, "plain")
	handler := budgethttp.NewHandler(s.served(), (*chainbudget.SDK)(newSDK(catalog)))
	ctx := s.inRequest(sdk)
	rt := newTransport(&wire{ctx: s.serverContext(), handler: handler}, dep)
	n := 0
	op = func() error {
		n++
		number := strconv.Itoa(n)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host-"+number+".internal/v1/"+letters(n), nil)
		if err != nil {
			return err
		}
		return send(rt, req, http.StatusOK)
	}
	return op, (&Run{stage: s}).Close
}

// letters spells a number without digits, so that it does not look like the identifier of one thing.
func letters(n int) string {
	var b []byte
	for ; n > 0; n /= 26 {
		b = append(b, 'a'+byte(n%26))
	}
	return string(b)
}
