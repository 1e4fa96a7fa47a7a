package budgetgrpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// incomingKey is the key under which gRPC looks for incoming metadata.
var incomingKey = ctxkey.Of(func(ctx context.Context) { metadata.FromIncomingContext(ctx) })

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
