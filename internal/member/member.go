package member

import (
	"context"

	"go.opentelemetry.io/otel/baggage"

	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// Key is the key under which OpenTelemetry looks for baggage in a context.
var Key = ctxkey.Of(func(ctx context.Context) { baggage.FromContext(ctx) })

// Line is our member in the context's baggage, as a line of a baggage header, or nil.
func Line(ctx context.Context) []string {
	if m := baggage.FromContext(ctx).Member(otelprop.MemberKey); m.Key() != "" {
		return []string{otelprop.MemberKey + "=" + m.Value()}
	}
	return nil
}

// Strip takes our member out of the context's baggage.
func Strip(ctx context.Context) context.Context {
	bag := baggage.FromContext(ctx)
	if bag.Len() == 0 || bag.Member(otelprop.MemberKey).Key() == "" {
		return ctx
	}
	return baggage.ContextWithBaggage(ctx, bag.DeleteMember(otelprop.MemberKey))
}

// With returns a context with an attempt's member, which is a "key=value", in its baggage, if that has others.
func With(ctx context.Context, member string) context.Context {
	bag := baggage.FromContext(ctx)
	if n := bag.Len(); n == 0 || n >= otelprop.MaxBaggageMembers && bag.Member(otelprop.MemberKey).Key() == "" {
		return ctx
	}
	m, err := baggage.NewMemberRaw(otelprop.MemberKey, member[len(otelprop.MemberKey)+1:])
	if err != nil {
		return ctx
	}
	if bag, err = bag.SetMember(m); err != nil {
		return ctx
	}
	return baggage.ContextWithBaggage(ctx, bag)
}
