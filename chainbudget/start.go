package chainbudget

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// ScopeName names the SDK's instrumentation scope.
const ScopeName = "github.com/chainbudget/chainbudget-go/chainbudget"

// Version is the SDK's version, and that of its instrumentation.
const Version = "0.1.0"

// Start begins a chain of its own, for work that no request asked for or that outlives the one that did: cron,
// background work, each message of a consumer. It mints the catalog's chain budget. The new chain has a trace of its
// own, linked to the span in ctx. Call end when the work is done; tokens are then gone. Start does not detach ctx from
// its cancellation: pass context.WithoutCancel(ctx) for work that outlives a request.
func Start(ctx context.Context, sdk *SDK) (chain context.Context, end func()) {
	if !sdk.engine().Usable() {
		return ctx, func() {}
	}
	options := []trace.SpanStartOption{trace.WithNewRoot()}
	if trace.SpanContextFromContext(ctx).IsValid() {
		options = append(options, trace.WithLinks(trace.LinkFromContext(ctx)))
	}
	ctx, span := otel.Tracer(ScopeName).Start(ctx, "chainbudget.chain", options...)
	in, chain := sdk.engine().Start(ctx)
	return chain, func() {
		in.End()
		span.End()
	}
}

// Keep sets up to n tokens of the request that ctx belongs to aside for retries after its response's headers have gone
// out, and returns how many. Kept tokens are reported to the caller as not returned. Without a request it returns 0.
func Keep(ctx context.Context, n int) int {
	if in := engine.FromContext(ctx); in != nil {
		return in.Keep(n)
	}
	return 0
}
