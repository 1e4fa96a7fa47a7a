package budgetconnect_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// shape is how the suite's calls are made over a protocol: unary, or as server streams. What can be sent only once is a
// client stream in either.
type shape struct {
	protocol
	streams bool
}

func TestConformance(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		t.Run("unary", func(t *testing.T) { chainbudgettest.Conform(t, shape{protocol: p}.adapter()) })
		if p.name == "connect_http2" {
			return // its streams are like gRPC's
		}
		t.Run("server_stream", func(t *testing.T) { chainbudgettest.Conform(t, shape{protocol: p, streams: true}.adapter()) })
	})
}

// inHeader reports whether returns go out with the headers of an answer.
func (s shape) inHeader() bool { return !s.streams && strings.HasPrefix(s.name, "connect") }

func (s shape) adapter() chainbudgettest.Adapter {
	lacks := map[chainbudgettest.Capability]string{
		chainbudgettest.NetHTTP:  "its interceptors see no *http.Request",
		chainbudgettest.Upgrades: "connect has none",
		chainbudgettest.Bases:    "connect itself answers for what is below",
		chainbudgettest.Bodies:   "an error has a message and details",
	}
	name := "unary"
	if s.streams {
		name = "server streams"
	} else {
		lacks[chainbudgettest.Streams] = "unary calls have one message"
	}
	if s.inHeader() {
		lacks[chainbudgettest.ReturnsInTrailer] = "a unary answer of the Connect protocol has headers only"
	} else {
		lacks[chainbudgettest.ReturnsInHeader] = "what is about a call comes at its end"
	}
	return chainbudgettest.Adapter{
		Name: "budgetconnect over " + s.name + ", " + name, Lacks: lacks, Spell: http.CanonicalHeaderKey, Serve: s.serve, Dial: s.dial,
	}
}

// The suite's operations are procedures of these services, and whether they may run twice is in their names.
const (
	readPrefix  = "/suite.Read/"
	writePrefix = "/suite.Write/"
	oncePrefix  = "/suite.Once/"
	probeName   = "/grpc.health.v1.Health/Check"
)

func (s shape) serve(t testing.TB, srv chainbudgettest.Server) (address string) {
	options := []connect.HandlerOption{connect.WithRecover(func(context.Context, connect.Spec, http.Header, any) error {
		return connect.NewError(connect.CodeInternal, errors.New("panicked"))
	})}
	if srv.Outside != nil {
		options = append(options, connect.WithInterceptors(outside(srv.Outside)))
	}
	if srv.SDK != nil {
		for range srv.Layers + 1 {
			options = append(options, connect.WithInterceptors(budgetconnect.NewHandlerInterceptor(srv.SDK, budgetconnect.Option{Entry: srv.Entry})))
		}
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handler(srv, r.URL.Path, options).ServeHTTP(w, r)
	})
	return strings.TrimPrefix(rpctest.Serve(t, h), "http://")
}

// handler makes the handler of one procedure: the suite makes up names as it goes.
func (s shape) handler(srv chainbudgettest.Server, procedure string, options []connect.HandlerOption) http.Handler {
	switch {
	case strings.HasPrefix(procedure, oncePrefix):
		return connect.NewClientStreamHandler(procedure, func(ctx context.Context, stream *connect.ClientStream[text]) (*connect.Response[text], error) {
			var body strings.Builder
			for stream.Receive() {
				body.WriteString(stream.Msg().GetValue())
			}
			if err := stream.Err(); err != nil {
				return nil, err
			}
			return s.answer(ctx, srv, stream.RequestHeader(), body.String(), stream.Conn().ResponseHeader(), stream.Conn().ResponseTrailer(), nil)
		}, options...)
	case s.streams && procedure != probeName:
		return connect.NewServerStreamHandler(procedure, func(ctx context.Context, req *connect.Request[text], stream *connect.ServerStream[text]) error {
			_, err := s.answer(ctx, srv, req.Header(), req.Msg.GetValue(), stream.ResponseHeader(), stream.ResponseTrailer(), stream)
			return err
		}, options...)
	default:
		return connect.NewUnaryHandler(procedure, func(ctx context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
			info, _ := connect.CallInfoForHandlerContext(ctx)
			return s.answer(ctx, srv, req.Header(), req.Msg.GetValue(), info.ResponseHeader(), info.ResponseTrailer(), nil)
		}, options...)
	}
}

// answer lets the suite answer.
func (s shape) answer(ctx context.Context, srv chainbudgettest.Server, received http.Header, body string, header, trailer http.Header, stream *connect.ServerStream[text]) (*connect.Response[text], error) {
	var message string
	returns := trailer
	if stream == nil && s.inHeader() && !strings.HasPrefix(callerOf(ctx), oncePrefix) {
		returns = header
	}
	err := srv.Handle(ctx, chainbudgettest.Received{Header: received, Body: body}, chainbudgettest.Reply{
		Header: func(name, value string) { header.Add(name, value) },
		Return: func(line string) { returns.Add(otelprop.ReturnHeader, line) },
		Send: func(m string) error {
			if stream == nil {
				message = m
				return nil
			}
			return stream.Send(say(m))
		},
	})
	if failure, ok := err.(*chainbudgettest.Failure); ok {
		return nil, coded(failure)
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(say(message)), nil
}

// callerOf is the procedure of a request.
func callerOf(ctx context.Context) string {
	info, _ := connect.CallInfoForHandlerContext(ctx)
	return info.Spec().Procedure
}

// codes are those that count as a status.
var codes = map[int]connect.Code{
	http.StatusBadRequest: connect.CodeInvalidArgument, http.StatusForbidden: connect.CodePermissionDenied,
	http.StatusNotFound: connect.CodeNotFound, http.StatusConflict: connect.CodeAborted,
	http.StatusTooManyRequests: connect.CodeResourceExhausted, http.StatusInternalServerError: connect.CodeInternal,
	http.StatusNotImplemented: connect.CodeUnimplemented, http.StatusServiceUnavailable: connect.CodeUnavailable,
	http.StatusGatewayTimeout: connect.CodeDeadlineExceeded, http.StatusUnauthorized: connect.CodeUnauthenticated,
}

func coded(f *chainbudgettest.Failure) error {
	code, ok := codes[f.Status]
	if !ok {
		code = connect.CodeUnknown
	}
	e := connect.NewError(code, errors.New(f.Text))
	if f.After > 0 {
		if d, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(f.After) * time.Second)}); err == nil {
			e.AddDetail(d)
		}
	}
	return e
}

// outside is the instrumentation that users install.
type outside func(context.Context, http.Header) context.Context

func (o outside) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		return next(o(ctx, req.Header()), req)
	}
}

func (o outside) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (o outside) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(o(ctx, conn.RequestHeader()), conn)
	}
}

func (s shape) dial(t testing.TB, l chainbudgettest.Link) chainbudgettest.Client {
	client := rpctest.Client(t, s.http2)
	options := s.options
	if l.Dependency != nil {
		for range l.Layers + 1 {
			options = append(options[:len(options):len(options)], with(l.Dependency, budgetconnect.Option{Idempotent: []string{readPrefix + "*", oncePrefix + "*"}}))
		}
	}
	return func(ctx context.Context, r chainbudgettest.Request) chainbudgettest.Answer {
		prefix := readPrefix
		switch {
		case r.Once:
			prefix = oncePrefix
		case r.Write:
			prefix = writePrefix
		}
		procedure := prefix + "Call" + strings.Trim(r.Operation, "/")
		if r.Probe {
			procedure = probeName
		}
		c := connect.NewClient[text, text](client, "http://"+l.Address+procedure, options...)
		switch {
		case r.Once:
			return s.upload(ctx, c, r)
		case s.streams && !r.Probe:
			return s.list(ctx, c, r)
		default:
			return s.ask(ctx, c, r)
		}
	}
}

func give(to, from http.Header) {
	for k, v := range from {
		to[k] = v
	}
}

func (s shape) ask(ctx context.Context, c *connect.Client[text, text], r chainbudgettest.Request) (a chainbudgettest.Answer) {
	req := connect.NewRequest(say(r.Body))
	give(req.Header(), r.Header)
	resp, err := c.CallUnary(ctx, req)
	if err != nil {
		return failed(err)
	}
	return succeeded(resp, r)
}

func succeeded(resp *connect.Response[text], r chainbudgettest.Request) (a chainbudgettest.Answer) {
	a.Responded, a.Status, a.Body = true, http.StatusOK, resp.Msg.GetValue()
	a.Header = resp.Header().Clone()
	for k, v := range resp.Trailer() {
		a.Header[k] = append(a.Header[k], v...)
	}
	if r.Each != nil {
		r.Each(a.Body)
	}
	return a
}

func (s shape) upload(ctx context.Context, c *connect.Client[text, text], r chainbudgettest.Request) chainbudgettest.Answer {
	stream := c.CallClientStream(ctx)
	give(stream.RequestHeader(), r.Header)
	if err := stream.Send(say(r.Body)); err != nil && !errors.Is(err, io.EOF) {
		return failed(err)
	}
	resp, err := stream.CloseAndReceive()
	if err != nil {
		return failed(err)
	}
	return succeeded(resp, r)
}

func (s shape) list(ctx context.Context, c *connect.Client[text, text], r chainbudgettest.Request) (a chainbudgettest.Answer) {
	req := connect.NewRequest(say(r.Body))
	give(req.Header(), r.Header)
	stream, err := c.CallServerStream(ctx, req)
	if err != nil {
		return failed(err)
	}
	defer stream.Close()
	var body string
	for stream.Receive() {
		body += stream.Msg().GetValue()
		if r.Each != nil {
			r.Each(stream.Msg().GetValue())
		}
	}
	if err := stream.Err(); err != nil {
		a = failed(err)
		if a.Status == 0 || body != "" {
			a.Body = body
		}
		return a
	}
	a = chainbudgettest.Answer{Responded: true, Status: http.StatusOK, Body: body, Header: stream.ResponseHeader().Clone()}
	for k, v := range stream.ResponseTrailer() {
		a.Header[k] = append(a.Header[k], v...)
	}
	return a
}

// failed is the answer that an error is about.
func failed(err error) (a chainbudgettest.Answer) {
	a.Err = err
	a.Denied, _ = errors.AsType[*chainbudget.DeniedError](err)
	e, ok := errors.AsType[*connect.Error](err)
	if !ok || !connect.IsWireError(err) {
		return a
	}
	a.Header, a.Body = e.Meta(), e.Message()
	a.Status = http.StatusInternalServerError
	for status, code := range codes {
		if code == e.Code() {
			a.Status = status
		}
	}
	return a
}
