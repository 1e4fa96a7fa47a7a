package budgetgrpc_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/internal/sabotage"
)

func TestConformance_finds_every_sabotage(t *testing.T) {
	sabotage.Find(t, func(s sabotage.Sabotage, streams bool) chainbudgettest.Adapter {
		return shape{stream: streams, broken: s}.adapter()
	})
}

// canonical are metadata under the keys of HTTP/1.
type canonical metadata.MD

func (h canonical) Values(key string) []string            { return h[strings.ToLower(key)] }
func (h canonical) SetValues(key string, values []string) { h[strings.ToLower(key)] = values }
func (h canonical) Delete(key string)                     { delete(h, strings.ToLower(key)) }

// changed is a copy of metadata with a change.
func changed(md metadata.MD, change func(member.Headers)) metadata.MD {
	md = md.Copy()
	if change != nil {
		change(canonical(md))
	}
	return md
}

// sabotaged stands below the client side.
func sabotaged(s sabotage.Sabotage) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		md, _ := metadata.FromOutgoingContext(ctx)
		md = changed(md, s.Sent)
		send := func(ctx context.Context) error {
			return invoke(metadata.NewOutgoingContext(ctx, md), method, req, reply, cc, opts...)
		}
		var err error
		if s.Attempt != nil { // and nobody watches what is sent
			opts = slices.DeleteFunc(slices.Clone(opts), func(o grpc.CallOption) bool { _, watch := o.(grpc.PerRPCCredsCallOption); return watch })
			err = s.Attempt(ctx, send)
		} else {
			err = send(ctx)
		}
		for _, o := range opts {
			if trailer, ok := o.(grpc.TrailerCallOption); ok {
				*trailer.TrailerAddr = changed(*trailer.TrailerAddr, s.Got)
			}
		}
		return err
	}
}

// sabotagedServer stands outside the server side.
func sabotagedServer(s sabotage.Sabotage) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		ctx = metadata.NewIncomingContext(ctx, changed(md, s.Came))
		if transport := grpc.ServerTransportStreamFromContext(ctx); s.Told != nil {
			ctx = grpc.NewContextWithServerTransportStream(ctx, toldTransport{transport, s.Told})
		}
		return handle(ctx, req)
	}
}

type toldTransport struct {
	grpc.ServerTransportStream
	told func(member.Headers)
}

func (t toldTransport) SetTrailer(md metadata.MD) error {
	return t.ServerTransportStream.SetTrailer(changed(md, t.told))
}
