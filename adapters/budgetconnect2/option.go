package budgetconnect2

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

// sum adds options up.
func sum(options []Option) (s Option) {
	for _, o := range options {
		s.Entry = s.Entry || o.Entry
		s.Idempotent = append(s.Idempotent, o.Idempotent...)
	}
	return s
}
