package subject

import (
	"context"

	"go.opentelemetry.io/otel/baggage"
)

const (
	oneMember    = "tenant=acme"
	threeMembers = "tenant=acme,region=eu-west-1,experiment=blue"
)

func parseBaggage(s string) baggage.Baggage {
	b, err := baggage.Parse(s)
	if err != nil {
		panic(err) // the constants above are wrong
	}
	return b
}

func withBaggage(ctx context.Context, b baggage.Baggage) context.Context {
	if b.Len() == 0 {
		return ctx
	}
	return baggage.ContextWithBaggage(ctx, b)
}
