package budgetconnect

import (
	"errors"

	"github.com/chainbudget/chainbudget-go/internal/rpc"
)

// Option says what is special about a client or a handler. The zero value says nothing; several add up.
type Option struct {
	// Entry makes chains begin at the handler: it ignores whatever budget, timeout, claim and counter a request brings, mints
	// the catalog's budget (of the route, or of the chain), and sends no return. Use it where the fleet's outside begins.
	// Clients ignore it.
	Entry bool
	// Idempotent lists procedures that may run twice, beside those whose idempotency level says so: full names or patterns
	// as of path.Match, such as "/shop.Catalog/*" or "shop.Catalog/Get*". A pattern that cannot be read is left out and
	// warned of once; under chainbudget.WithStrict every call then fails with the same text. Handlers ignore it.
	Idempotent []string
}

// patterns adds the options' Idempotent up. The error lists everything that could not be read.
func patterns(options []Option) (read []string, err error) {
	var problems []error
	for _, o := range options {
		for _, text := range o.Idempotent {
			p, err := rpc.Pattern(text)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			read = append(read, p)
		}
	}
	return read, errors.Join(problems...)
}
