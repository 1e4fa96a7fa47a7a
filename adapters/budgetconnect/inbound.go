package budgetconnect

import (
	"context"
	"maps"
	"net/http"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// inbound is the state of one request.
type inbound struct {
	connectrpc.Inbound
	answers answers // nil where connect has none for the request
}

// answers is where connect takes the metadata of an answer from, beside what is in a response or an error.
type answers interface {
	ResponseHeader() http.Header
	ResponseTrailer() http.Header
}

// succeed closes the purse and sets the return beside a response.
func (in *inbound) succeed(ctx context.Context, resp connect.AnyResponse) connect.AnyResponse {
	in.Status = http.StatusOK
	in.tell(in.Conclude(ctx))
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

// tell sets the return.
func (in *inbound) tell(c rpc.Conclusion) {
	if in.answers != nil {
		in.Tell(c, member.HTTP(in.answers.ResponseHeader()), member.HTTP(in.answers.ResponseTrailer()))
	}
}

// answer closes the purse, sets the return, and returns the error to answer with.
func (in *inbound) answer(ctx context.Context, err error) error {
	if err == nil || connect.IsNotModifiedError(err) {
		in.Status = http.StatusOK
		in.tell(in.Conclude(ctx))
		return err
	}
	e := asError(err)
	if e == nil {
		e = kinds.New(connectrpc.ContextCode(err), err)
	}
	in.Fail(ctx, uint32(e.Code()), err)
	c := in.Conclude(ctx)
	out, bare := in.rewrite(e, c)
	// An answer that is beyond a client's limit by itself goes to one that has another.
	if in.GRPC() && in.answers != nil && in.fits(bare, rpc.Conclusion{}) && !in.fits(out, c) {
		if out = bare; !in.fits(out, c) {
			c.Line, c.Never = "", false
		}
	}
	in.tell(c)
	return connectrpc.Answered(err, out)
}

// fits reports whether an error has room in a gRPC client's header list beside what the handler sends, with what this hop
// adds.
func (in *inbound) fits(e *connect.Error, c rpc.Conclusion) bool {
	details := 0
	for _, d := range e.Details() {
		details += connectrpc.DetailSize(d.Type(), d.Bytes())
	}
	size := connectrpc.ErrorSize(e.Message(), details)
	return connectrpc.Fits(connectrpc.Size(size, maps.All(in.answers.ResponseTrailer()), maps.All(e.Meta())), c)
}

// panicked answers for a handler that panicked: an interceptor further out may recover and answer internal.
func (in *inbound) panicked(ctx context.Context) {
	ownership.Own(ctx)
	in.Status = http.StatusInternalServerError
	in.tell(in.Conclude(ctx))
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
