package budgetconnect2

import (
	"context"
	"net/http"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// inbound is the state of one request.
type inbound struct {
	connectrpc.Inbound
	info      *connect.CallInfo
	concluded bool // the purse is closed, and the return is set
	begun     bool // headers have gone out
}

// clean takes out of the headers that go out what a handler may have copied from a callee. I6.
func (in *inbound) clean() {
	if !in.begun {
		in.begun = true
		in.info.ResponseHeader().Delete(otelprop.HTTPReturnHeader)
	}
}

// tell sets the return.
func (in *inbound) tell(c rpc.Conclusion) {
	in.concluded = true
	in.Tell(c, in.info.ResponseHeader(), in.info.ResponseTrailer())
}

// succeed closes the purse and sets the return beside a response.
func (in *inbound) succeed(ctx context.Context) {
	if !in.concluded {
		in.Status = http.StatusOK
		in.tell(in.Conclude(ctx))
	}
}

// answer closes the purse, sets the return, and returns the error to answer with.
func (in *inbound) answer(ctx context.Context, err error) error {
	if in.concluded {
		return err // it could not be sent
	}
	if err == nil || connecthttp.IsNotModifiedError(err) {
		in.succeed(ctx)
		return err
	}
	e := own(err)
	in.Fail(ctx, uint32(e.Code()), err)
	c := in.Conclude(ctx)
	out, bare := rewrite(e, c)
	// An answer that is beyond a client's limit by itself goes to one that has another.
	if in.GRPC() && in.fits(bare, rpc.Conclusion{}) && !in.fits(out, c) {
		if out = bare; !in.fits(out, c) {
			c.Line, c.Never = "", false
		}
	}
	in.tell(c)
	return connectrpc.Answered(err, out)
}

// own is what connect answers an error with: one that a handler has made, as it is; of any other nothing but a code. What a
// callee said is internal.
func own(err error) *connect.Error {
	e := asError(err)
	switch {
	case e == nil:
		return connect.NewError(connect.Code(connectrpc.ContextCode(err)), "")
	case e.IsRemote():
		return connect.NewError(connect.CodeInternal, "")
	default:
		return e
	}
}

// fits reports whether an error has room in a gRPC client's header list beside what the handler sends, with what this hop
// adds.
func (in *inbound) fits(e *connect.Error, c rpc.Conclusion) bool {
	details := 0
	for _, d := range e.Details() {
		details += connectrpc.DetailSize(d.Type, d.Value)
	}
	return connectrpc.Fits(connectrpc.Size(connectrpc.ErrorSize(e.Message(), details), in.info.ResponseTrailer().All()), c)
}

// panicked answers for a handler that panicked: an interceptor further out may recover and answer internal.
func (in *inbound) panicked(ctx context.Context) {
	if in.concluded {
		return
	}
	ownership.Own(ctx)
	in.Status = http.StatusInternalServerError
	in.tell(in.Conclude(ctx))
}

// rewrite makes the error that goes out: with the code, message and details of the handler's own, without what this hop does
// not own, and with the return among the details. bare is the same without the return. The handler's error may be one of
// many requests, and is not written.
func rewrite(e *connect.Error, c rpc.Conclusion) (out, bare *connect.Error) {
	// A callee's return came from a callee, whatever the handler did with it.
	others := c.Others || len(returnLines(e)) > 0
	bare = connect.NewError(e.Code(), e.Message()).WithCause(e.Unwrap())
	for _, d := range e.Details() {
		if ours(d) == nil && (!others || d.Type != retryInfoType) {
			bare = bare.WithDetail(d)
		}
	}
	if c.Line == "" {
		return bare, bare
	}
	d, err := returnDetail(c.Line)
	if err != nil {
		return bare, bare
	}
	return bare.WithDetail(d), bare
}
