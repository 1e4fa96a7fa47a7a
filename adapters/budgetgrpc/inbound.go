package budgetgrpc

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// inbound is the state of one request.
type inbound struct {
	engine.Inbound
	method   string
	mark     requestContext
	code     codes.Code
	received metadata.MD // as it came; not written

	once  sync.Once
	clean metadata.MD // received without what is ours; made when somebody asks
}

// requestContext is the context that a handler gets. It hides what the request brought of ours, and tells an interceptor
// further in that this request has one.
type requestContext struct {
	context.Context
	in *inbound
}

type nestedKey struct{}

// Value implements [context.Context].
func (c *requestContext) Value(key any) any {
	if _, ok := key.(nestedKey); ok {
		return c.in
	}
	if key == incomingKey && c.in.received != nil {
		c.in.once.Do(func() { c.in.clean = stripped(c.in.received) })
		return c.in.clean // I6
	}
	value := c.Context.Value(key)
	if key == streamKey {
		if stream, ok := value.(grpc.ServerTransportStream); ok && settingTrailer() {
			return ownTrailers{stream}
		}
	}
	return value
}

// Operation names the route.
func (in *inbound) Operation() string { return in.method }

// status describes the answer as HTTP does.
func (in *inbound) status() int { return rpc.MeaningOf(uint32(in.code)).Status }

// answer closes the purse, sets the trailer, and returns the error to answer with. trailer is what the handler has set
// itself.
func (in *inbound) answer(ctx context.Context, err error, trailer metadata.MD, set func(metadata.MD)) error {
	st, own := statusOf(err)
	in.code = st.Code()
	if rpc.Answer(&in.Inbound, in.status()).Failed {
		rpc.Blame(ctx, &in.Inbound, err)
	}
	c := rpc.Conclude(ctx, &in.Inbound, in.status())
	// What somebody else's trailer said about when to ask again is about that call. Two values mean never.
	r := reply{line: c.Line, never: c.Never || c.Others && len(trailer[rpc.PushbackKey]) > 0}
	if st.Code() != codes.OK {
		r.status = cleaned(st.Proto(), c.Others)
		r.bare = r.status
		r.addDetail()
	}
	r.fit(trailer)
	if md := r.trailer(); md != nil {
		set(md)
	}
	if st.Code() == codes.OK || own && proto.Equal(r.status, st.Proto()) {
		return err
	}
	return &answeredError{error: err, status: status.FromProto(r.status)}
}

// panicked answers for a handler that panicked: an interceptor further out may recover and answer Internal.
func (in *inbound) panicked(ctx context.Context, set func(metadata.MD)) {
	ownership.Own(ctx)
	in.answer(ctx, errPanicked, nil, set)
}

var errPanicked = status.Error(codes.Internal, "chainbudget: the handler panicked")

// statusOf returns the status to answer an error with: what gRPC makes of it, but that a failed call which came without a
// status, of HTTP or of a function, is not UNKNOWN. own is false where gRPC would answer otherwise by itself.
func statusOf(err error) (st *status.Status, own bool) {
	st, ok := status.FromError(err)
	if ok {
		return st, true
	}
	st = status.FromContextError(err)
	f, failed := errors.AsType[*chainbudget.DeniedError](err)
	if st.Code() != codes.Unknown || !failed || f == nil {
		return st, true
	}
	if f.Timeout() || f.Status == http.StatusGatewayTimeout {
		return status.New(codes.DeadlineExceeded, st.Message()), false
	}
	return status.New(codes.Unavailable, st.Message()), false
}

// cleaned takes from a status what this hop does not own: a callee's return, and a delay that somebody else asked for.
// Whether it is worth asking again is known next to the cause. p is the caller's own copy.
func cleaned(p *spb.Status, others bool) *spb.Status {
	for _, d := range p.GetDetails() {
		others = others || ours(d) != nil // it came from a callee, whatever the handler did with it
	}
	p.Details = slices.DeleteFunc(p.GetDetails(), func(d *anypb.Any) bool {
		return ours(d) != nil || others && d.MessageIs((*errdetails.RetryInfo)(nil))
	})
	return p
}

// answeredError is the handler's error with the details that this hop answers with.
type answeredError struct {
	error
	status *status.Status
}

// Unwrap returns the handler's error, for interceptors further out.
func (e *answeredError) Unwrap() error { return e.error }

// GRPCStatus is what the server looks for.
func (e *answeredError) GRPCStatus() *status.Status { return e.status }

// reply is what goes out beside, and in, a handler's own answer.
type reply struct {
	status *spb.Status // as it goes out; nil = a success
	bare   *spb.Status // without the detail
	line   string      // the return; "" = none is owed
	never  bool        // nobody should retry
}

// addDetail repeats the return among the status's details.
func (r *reply) addDetail() {
	if r.line == "" {
		return
	}
	d, err := returnDetail(r.line)
	if err != nil {
		return
	}
	r.status = &spb.Status{Code: r.bare.GetCode(), Message: r.bare.GetMessage(), Details: append(slices.Clip(r.bare.GetDetails()), d)}
}

func (r *reply) trailer() metadata.MD {
	if r.line == "" && !r.never {
		return nil
	}
	md := make(metadata.MD, 2)
	if r.line != "" {
		md[otelprop.ReturnHeader] = []string{r.line}
	}
	if r.never {
		md[rpc.PushbackKey] = []string{rpc.NoRetry}
	}
	return md
}

const (
	// headerList is the smallest limit of a header list that clients have: gRPC's announced default. A list beyond a
	// client's limit is no answer at all: it sees INTERNAL in place of the status.
	headerList = 8 << 10
	// headerSlack is kept free for what interceptors further out and the transport add.
	headerSlack = 256
	// fieldSize is what HTTP/2 counts for a field beside its name and value.
	fieldSize = 32
)

// fit leaves out of the reply what would push it over the limit: first the detail, which repeats the trailer, then the
// rest. An answer that is beyond the limit by itself goes to a client that has another.
func (r *reply) fit(trailer metadata.MD) {
	size := headerSlack
	for k, values := range trailer {
		for _, v := range values {
			size += len(k) + encoded(k, len(v)) + fieldSize
		}
	}
	if size+statusSize(r.bare) > headerList+2*headerSlack { // sizes are estimated: near the limit nothing is added
		return
	}
	extra := 0
	for k, values := range r.trailer() {
		extra += len(k) + len(values[0]) + fieldSize
	}
	if size+statusSize(r.status)+extra > headerList {
		r.status = r.bare
	}
	if size+statusSize(r.status)+extra > headerList {
		r.line, r.never = "", false
	}
}

// statusSize is at least what a status takes in a header list.
func statusSize(p *spb.Status) int {
	size := 2*(fieldSize+len(":status")) + len("200application/grpcgrpc-status16") + 2*fieldSize
	message := 0
	for i := range len(p.GetMessage()) {
		if c := p.GetMessage()[i]; c >= ' ' && c <= '~' && c != '%' {
			message++
		} else {
			message += len("%00")
		}
	}
	size += len("grpc-message") + message
	if len(p.GetDetails()) > 0 {
		size += len("grpc-status-details-bin") + encoded("-bin", proto.Size(p)) + fieldSize
	}
	return size
}

// encoded is how long a value of n bytes is on the wire.
func encoded(key string, n int) int {
	if len(key) >= 4 && key[len(key)-4:] == "-bin" {
		return (n*4 + 2) / 3
	}
	return n
}
