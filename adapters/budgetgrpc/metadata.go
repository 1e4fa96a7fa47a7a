package budgetgrpc

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/baggage"
	"google.golang.org/grpc/metadata"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// The keys under which gRPC looks for incoming metadata, and OpenTelemetry for baggage.
var (
	incomingKey = keyOf(func(ctx context.Context) { metadata.FromIncomingContext(ctx) })
	baggageKey  = keyOf(func(ctx context.Context) { baggage.FromContext(ctx) })
)

// keyOf returns the key that ask looks for.
func keyOf(ask func(context.Context)) any {
	var probe keyProbe
	ask(&probe)
	return probe.key
}

// keyProbe is a context that remembers what it was asked for.
type keyProbe struct {
	context.Context
	key any
}

func (p *keyProbe) Value(key any) any {
	p.key = key
	return nil
}

// incoming returns the metadata of an inbound request, which is not copied and must not be written.
func incoming(ctx context.Context) metadata.MD {
	md, _ := ctx.Value(incomingKey).(metadata.MD)
	return md
}

// stripped returns a copy of metadata of requests without anything of ours. I6: it is what keeps a grant from leaving
// other than through an adapter. The values are shared.
func stripped(md metadata.MD) metadata.MD {
	to := make(metadata.MD, len(md))
	for k, v := range md {
		switch canonical(k) {
		case otelprop.RequestHeader, otelprop.ReturnHeader:
			continue
		case otelprop.BaggageHeader:
			if v, _ = otelprop.StripBaggage(v); len(v) == 0 {
				continue
			}
		}
		to[k] = v
	}
	return to
}

// canonical returns the spelling of a key that an adapter reads or writes, and any other key as it is. Metadata that came
// over a connection is in lower case; what somebody put into a context need not be.
func canonical(k string) string {
	for _, own := range [...]string{otelprop.RequestHeader, otelprop.ReturnHeader, otelprop.BaggageHeader} {
		if len(k) == len(own) && strings.EqualFold(k, own) {
			return own
		}
	}
	return k
}

// stripContext takes our member out of the context's baggage.
func stripContext(ctx context.Context) context.Context {
	bag := baggage.FromContext(ctx)
	if bag.Len() == 0 || bag.Member(otelprop.MemberKey).Key() == "" {
		return ctx
	}
	return baggage.ContextWithBaggage(ctx, bag.DeleteMember(otelprop.MemberKey))
}

// withMember returns a context with the attempt's member in its baggage, where instrumentation below would otherwise write
// a baggage entry without it. It is made when somebody below asks.
func withMember(ctx context.Context, member string) context.Context {
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

// above reports whether any of the values is a number greater than limit. What is no number counts as none.
func above(values []string, limit int) bool {
	for _, v := range values {
		n := 0
		for i := range len(v) {
			if v[i] < '0' || v[i] > '9' {
				n = 0
				break
			}
			n = min(n*10+int(v[i]-'0'), 1000)
		}
		if n > limit {
			return true
		}
	}
	return false
}

// probe reports whether a method is asked by machines that only want to know whether the service is there.
func probe(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.Health/") }
