package budgetconnect2_test

import (
	"context"
	"testing"

	"connectrpc.com/connect/v2"

	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/internal/sabotage"
)

func TestConformance_finds_every_sabotage(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		sabotage.Find(t, func(s sabotage.Sabotage, streams bool) chainbudgettest.Adapter {
			return shape{protocol: p, streams: streams, broken: s}.adapter()
		})
	})
}

func change(h func(member.Headers), of ...*connect.Header) {
	for _, headers := range of {
		if h != nil {
			h(headers)
		}
	}
}

// sabotaged stands below the client side.
func sabotaged(s sabotage.Sabotage) connect.ClientInterceptor {
	return func(next connect.ClientFunc) connect.ClientFunc {
		return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
			info, _ := connect.CallInfoForClientContext(ctx)
			below, err := next(ctx, spec)
			if err != nil {
				return nil, err
			}
			return &sabotagedStream{ClientStream: below, s: s, ctx: ctx, info: info, open: func(ctx context.Context) (connect.ClientStream, error) {
				inner, own := connect.NewClientContext(ctx)
				for k, v := range info.RequestHeader().All() {
					own.RequestHeader().SetValues(k, v)
				}
				return next(inner, spec)
			}}, nil
		}
	}
}

type sabotagedStream struct {
	connect.ClientStream
	s    sabotage.Sabotage
	ctx  context.Context
	info *connect.CallInfo
	open func(context.Context) (connect.ClientStream, error)
	sent any
}

func (s *sabotagedStream) Send(msg any) error {
	change(s.s.Sent, s.info.RequestHeader())
	s.sent = msg
	if s.s.Attempt != nil {
		return nil
	}
	return s.ClientStream.Send(msg)
}

func (s *sabotagedStream) CloseSend() error {
	if s.s.Attempt != nil {
		return nil
	}
	return s.ClientStream.CloseSend()
}

func (s *sabotagedStream) Receive(msg any) (err error) {
	if s.s.Attempt != nil {
		return s.s.Attempt(s.ctx, func(ctx context.Context) error {
			below, err := s.open(ctx)
			if err != nil {
				return err
			}
			defer below.Close()
			if err := below.Send(s.sent); err != nil {
				return err
			}
			if err := below.CloseSend(); err != nil {
				return err
			}
			return below.Receive(msg)
		})
	}
	err = s.ClientStream.Receive(msg)
	change(s.s.Got, s.info.ResponseHeader(), s.info.ResponseTrailer())
	return err
}

func (s *sabotagedStream) Close() error {
	if s.s.Attempt != nil {
		return nil
	}
	return s.ClientStream.Close()
}

// sabotagedServer stands outside the server side.
func sabotagedServer(s sabotage.Sabotage) connect.ServerInterceptor {
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			info, _ := connect.CallInfoForServerContext(ctx)
			change(s.Came, info.RequestHeader())
			told := func() { change(s.Told, info.ResponseHeader(), info.ResponseTrailer()) }
			err := next(ctx, spec, &toldStream{stream, told})
			if err != nil || spec.StreamType != connect.StreamTypeUnary {
				told()
			}
			return err
		}
	}
}

type toldStream struct {
	connect.ServerStream
	told func()
}

func (s *toldStream) Send(msg any) error {
	s.told()
	return s.ServerStream.Send(msg)
}
