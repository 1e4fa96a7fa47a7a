package budgetconnect

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// inbound is the state of one request.
type inbound struct {
	engine.Inbound
	procedure string
	peer      connect.Peer
	unary     bool
	answers   answers // nil where connect has none for the request
	status    int
	value     [1]string // backing of the return's header
}

// answers is where connect takes the metadata of an answer from, beside what is in a response or an error.
type answers interface {
	ResponseHeader() http.Header
	ResponseTrailer() http.Header
}

// Operation names the route.
func (in *inbound) Operation() string { return in.procedure }

// grpc reports whether the caller speaks gRPC or gRPC-Web: what is about a call comes in a trailer then, and its clients
// know pushback.
func (in *inbound) grpc() bool {
	return in.peer.Protocol == connect.ProtocolGRPC || in.peer.Protocol == connect.ProtocolGRPCWeb
}

// succeed closes the purse and sets the return beside a response.
func (in *inbound) succeed(ctx context.Context, resp connect.AnyResponse) connect.AnyResponse {
	in.status = http.StatusOK
	in.tell(in.conclude(ctx))
	if resp == nil || len(resp.Header()[otelprop.HTTPReturnHeader]) == 0 && len(resp.Trailer()[otelprop.HTTPReturnHeader]) == 0 {
		return resp
	}
	// I6: the handler passes a callee's response on. It may be somebody else's, too.
	return &cleanResponse{AnyResponse: resp, header: without(resp.Header()), trailer: without(resp.Trailer())}
}

// cleanResponse is a response without what came from a callee.
type cleanResponse struct {
	connect.AnyResponse
	header, trailer http.Header
}

func (r *cleanResponse) Header() http.Header  { return r.header }
func (r *cleanResponse) Trailer() http.Header { return r.trailer }

func without(h http.Header) http.Header {
	h = h.Clone()
	delete(h, otelprop.HTTPReturnHeader)
	return h
}

// conclude closes the purse, once the status is known.
func (in *inbound) conclude(ctx context.Context) rpc.Conclusion {
	c := rpc.Conclude(ctx, &in.Inbound, in.status)
	c.Never = c.Never && in.grpc()
	return c
}

// tell sets the return, in place of what the handler may have copied from a callee.
func (in *inbound) tell(c rpc.Conclusion) {
	if in.answers == nil {
		return
	}
	header, trailer := in.answers.ResponseHeader(), in.answers.ResponseTrailer()
	delete(header, otelprop.HTTPReturnHeader)
	delete(trailer, otelprop.HTTPReturnHeader)
	if c.Others {
		delete(header, connectrpc.PushbackHeader)
		delete(trailer, connectrpc.PushbackHeader)
	}
	to := trailer
	if in.unary && !in.grpc() {
		to = header
	}
	if c.Line != "" {
		in.value[0] = c.Line
		to[otelprop.HTTPReturnHeader] = in.value[:]
	}
	if c.Never {
		to[connectrpc.PushbackHeader] = noRetry
	}
}

var noRetry = []string{rpc.NoRetry}

// answer closes the purse, sets the return, and returns the error to answer with.
func (in *inbound) answer(ctx context.Context, err error) error {
	if err == nil || connect.IsNotModifiedError(err) {
		in.status = http.StatusOK
		in.tell(in.conclude(ctx))
		return err
	}
	e := asError(err)
	if e == nil {
		e = connect.NewError(codeOf(err), err)
	}
	in.status = rpc.MeaningOf(uint32(e.Code())).Status
	if rpc.Answer(&in.Inbound, in.status).Failed {
		rpc.Blame(ctx, &in.Inbound, err)
	}
	c := in.conclude(ctx)
	out, bare := in.rewrite(e, c)
	// An answer that is beyond a client's limit by itself goes to one that has another.
	if in.grpc() && in.answers != nil && in.fits(bare, rpc.Conclusion{}) && !in.fits(out, c) {
		if out = bare; !in.fits(out, c) {
			c.Line, c.Never = "", false
		}
	}
	in.tell(c)
	return &answeredError{error: err, out: out}
}

// codeOf is the code that connect gives to an error without one.
func codeOf(err error) connect.Code {
	switch {
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded
	}
	return connect.CodeUnknown
}

// panicked answers for a handler that panicked: an interceptor further out may recover and answer internal.
func (in *inbound) panicked(ctx context.Context) {
	ownership.Own(ctx)
	in.status = http.StatusInternalServerError
	in.tell(in.conclude(ctx))
}

// rewrite makes the error that goes out: with the code, message, metadata and details of the handler's own, without what
// this hop does not own, and with the return among the details. bare is the same without the return. The handler's error
// may be one of many requests, and is not written.
func (in *inbound) rewrite(e *connect.Error, c rpc.Conclusion) (out, bare *connect.Error) {
	// A callee's return came from a callee, whatever the handler did with it.
	others := c.Others || len(returnLines(e)) > 0
	wire := connect.IsWireError(e)
	if wire {
		bare = connect.NewWireError(e.Code(), e.Unwrap()) // connect keeps its metadata from going up
	} else {
		bare = connect.NewError(e.Code(), e.Unwrap())
	}
	for _, d := range e.Details() {
		if ours(d) == nil && (!others || d.Type() != retryInfoType) {
			bare.AddDetail(d)
		}
	}
	if !wire {
		own := *e // Meta writes where there is none
		for k, v := range own.Meta() {
			if k == otelprop.HTTPReturnHeader || others && k == connectrpc.PushbackHeader {
				continue
			}
			bare.Meta()[k] = v
		}
	}
	if c.Line == "" {
		return bare, bare
	}
	d, err := returnDetail(c.Line)
	if err != nil {
		return bare, bare
	}
	with := *bare
	out = &with
	out.AddDetail(d)
	return out, bare
}

// answeredError is the handler's error, which connect answers with the error that this hop has made of it.
type answeredError struct {
	error
	out *connect.Error
}

// Unwrap returns the handler's error, for interceptors further out.
func (e *answeredError) Unwrap() error { return e.error }

// As is what connect finds the error with that goes out.
func (e *answeredError) As(target any) bool { return asConnect(e.out, target) }
