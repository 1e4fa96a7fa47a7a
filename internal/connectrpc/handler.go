package connectrpc

import (
	"context"
	"iter"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// Inbound is the state of one request.
type Inbound struct {
	engine.Inbound
	Procedure string
	Protocol  string
	Unary     bool
	Status    int
	value     [1]string // backing of the return's header
}

// Operation names the route.
func (in *Inbound) Operation() string { return in.Procedure }

// Outer returns the request that something further out has opened the purse of, or nil.
func Outer(ctx context.Context, sdk *engine.SDK, header member.Headers) *engine.Inbound {
	// The outermost has stripped the request: one that brings a header was sent since, by a call within this process.
	if outer := engine.FromContext(ctx); outer != nil && outer.SDK() == sdk && len(header.Values(otelprop.HTTPRequestHeader)) == 0 {
		return outer
	}
	return nil
}

// Arrive opens the purse of a request, takes what is ours off its headers, and returns its context.
func (in *Inbound) Arrive(ctx context.Context, s *rpc.Server, g *engine.Generation, method string, header member.Headers) (context.Context, context.CancelFunc) {
	ctx, cancel := s.Arrive(ctx, &in.Inbound, g, &rpc.Request{
		Method:    method,
		Procedure: in.Procedure,
		Host:      header.Values("Host"),
		Header:    header.Values(otelprop.HTTPRequestHeader),
		Baggage:   header.Values(otelprop.HTTPBaggageHeader),
		Envoy:     header.Values("X-Envoy-Attempt-Count"),
		GRPC:      header.Values("Grpc-Previous-Rpc-Attempts"),
	})
	in.Route = in
	member.StripHeaders(header)
	return in.Context(ctx), cancel
}

// GRPC reports whether the caller speaks gRPC or gRPC-Web: what is about a call comes in a trailer then, and its clients know
// pushback.
func (in *Inbound) GRPC() bool {
	return in.Protocol == ProtocolGRPC || in.Protocol == protocolGRPCWeb
}

// Conclude closes the purse, once the status is known.
func (in *Inbound) Conclude(ctx context.Context) rpc.Conclusion {
	c := rpc.Conclude(ctx, &in.Inbound, in.Status)
	c.Never = c.Never && in.GRPC()
	return c
}

// Fail notes the code of a handler's error, and what caused it, before Conclude.
func (in *Inbound) Fail(ctx context.Context, code uint32, err error) {
	in.Status = rpc.MeaningOf(code).Status
	if rpc.Answer(&in.Inbound, in.Status).Failed {
		rpc.Blame(ctx, &in.Inbound, err)
	}
}

// Tell sets the return, in place of what the handler may have copied from a callee. I6.
func (in *Inbound) Tell(c rpc.Conclusion, header, trailer member.Headers) {
	header.Delete(otelprop.HTTPReturnHeader)
	trailer.Delete(otelprop.HTTPReturnHeader)
	if c.Others {
		header.Delete(PushbackHeader)
		trailer.Delete(PushbackHeader)
	}
	to := trailer
	if in.Unary && !in.GRPC() {
		to = header
	}
	if c.Line != "" {
		in.value[0] = c.Line
		to.SetValues(otelprop.HTTPReturnHeader, in.value[:])
	}
	if c.Never {
		to.SetValues(PushbackHeader, noRetry)
	}
}

var noRetry = []string{rpc.NoRetry}

const (
	// headerList is the smallest limit of a header list that gRPC clients have: gRPC's announced default. A list beyond a
	// client's limit is no answer at all: it sees internal in place of the error.
	headerList = 8 << 10
	// headerSlack is kept free for what interceptors further out and the transport add.
	headerSlack = 256
	// fieldSize is what HTTP/2 counts for a field beside its name and value.
	fieldSize = 32
)

// Size is what an answer takes in a header list beside what this hop adds: size of its error, and its metadata.
func Size(size int, metadata ...iter.Seq2[string, []string]) int {
	size += headerSlack
	for _, fields := range metadata {
		for k, values := range fields {
			for _, v := range values {
				size += len(k) + len(v) + fieldSize
			}
		}
	}
	return size
}

// Fits reports whether an answer of a size has room in a gRPC client's header list, with what this hop adds.
func Fits(size int, c rpc.Conclusion) bool {
	if c.Line != "" {
		size += len(otelprop.HTTPReturnHeader) + len(c.Line) + fieldSize
	}
	if c.Never {
		size += len(rpc.PushbackKey) + len(rpc.NoRetry) + fieldSize
	}
	return size <= headerList
}

// ErrorSize is at least what an error's own trailers take. details is the sum of DetailSize.
func ErrorSize(message string, details int) int {
	size := len("grpc-status16grpc-message") + 2*fieldSize
	for i := range len(message) {
		if c := message[i]; c >= ' ' && c <= '~' && c != '%' {
			size++
		} else {
			size += len("%00")
		}
	}
	if details == 0 {
		return size
	}
	details += len(message) + len("......")
	return size + len("grpc-status-details-bin") + (details*4+2)/3 + fieldSize
}

// DetailSize is what a detail of a type takes among others.
func DetailSize(name string, value []byte) int {
	return len("type.googleapis.com/") + len(name) + len(value) + len("........")
}
