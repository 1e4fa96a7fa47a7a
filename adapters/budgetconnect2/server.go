package budgetconnect2

import (
	"context"
	"net/http"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// NewServerInterceptor makes a server's handlers take part in chains:
//
//	connect.NewServer(budgetconnect2.NewServerInterceptor(sdk))
//
// Interceptors after it run inside. With a nil or zero sdk requests pass as they are. Within another of the same request and
// SDK it does nothing either: the outermost decides.
func NewServerInterceptor(sdk *chainbudget.SDK, options ...Option) connect.ServerInterceptor {
	s := server{rpc.NewServer((*engine.SDK)(sdk), sum(options).Entry)}
	return func(next connect.ServerFunc) connect.ServerFunc {
		if s.SDK == nil {
			return next
		}
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			return s.serve(ctx, spec, stream, next)
		}
	}
}

// server is what the interceptor of a server needs.
type server struct{ rpc.Server }

// unknownProcedure is the route of what no procedure of the server is: its name is whatever a client calls it.
const unknownProcedure = "another procedure"

func (s *server) serve(ctx context.Context, spec connect.Spec, stream connect.ServerStream, next connect.ServerFunc) error {
	info, _ := connect.CallInfoForServerContext(ctx)
	if info == nil {
		info = new(connect.CallInfo) // not connect's own server: nothing came along
	}
	header := info.RequestHeader()
	if outer := connectrpc.Outer(ctx, s.SDK, header); outer != nil {
		err := next(ctx, spec, stream)
		if err != nil {
			rpc.Blame(ctx, outer, err)
		}
		return err
	}
	generation := s.SDK.Generation()
	if rpc.Probe(spec.Procedure) || generation.Mode() == profiles.ModeBypass {
		member.StripHeaders(header)
		return next(member.Strip(ctx), spec, stream)
	}
	in := &inbound{info: info}
	in.Procedure, in.Protocol = spec.Procedure, info.Protocol
	if spec.Schema == nil && spec.StreamType == connect.StreamTypeBidi {
		in.Procedure = unknownProcedure
	}
	in.Unary = spec.StreamType == connect.StreamTypeUnary || info.Spec.Procedure != "" && info.Spec.StreamType == connect.StreamTypeUnary
	method := http.MethodPost
	if over, ok := info.TransportInfo.(*connecthttp.ServerInfo); ok {
		method = over.HTTPMethod()
	}
	ctx, cancel := in.Arrive(ctx, &s.Server, generation, method, header)
	defer cancel()
	done := false
	defer func() {
		if !done {
			in.panicked(ctx)
		}
		rpc.Finish(&in.Inbound.Inbound, in.Status)
	}()
	err := next(ctx, spec, &answers{ServerStream: stream, ctx: ctx, in: in})
	done = true
	return in.answer(ctx, err)
}

// answers is the stream that a handler answers on.
type answers struct {
	connect.ServerStream
	ctx context.Context
	in  *inbound
}

// SendHeaders implements [connect.ServerStream].
func (s *answers) SendHeaders() error {
	s.in.clean()
	return s.ServerStream.SendHeaders()
}

// Send implements [connect.ServerStream]. The message of a unary procedure is its whole answer: connect writes what goes
// beside it with it, and nothing after it.
func (s *answers) Send(msg any) error {
	if s.in.Unary {
		s.in.succeed(s.ctx)
	} else {
		s.in.clean()
	}
	return s.ServerStream.Send(msg)
}
