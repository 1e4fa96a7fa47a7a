package budgetconnect2_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect2"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/internal/sabotage"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// shape is how the suite's calls are made over a protocol: unary, or as server streams. What can be sent only once is a
// client stream in either.
type shape struct {
	protocol
	streams bool
	broken  sabotage.Sabotage // nothing, but in the tests of the suite itself
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
		Name: "budgetconnect2 over " + s.name + ", " + name, Lacks: lacks, Spell: http.CanonicalHeaderKey, Serve: s.serve, Dial: s.dial,
	}
}

// The suite's operations are procedures of these services, and whether they may run twice is in their names.
const (
	readPrefix  = "/suite.Read/"
	writePrefix = "/suite.Write/"
	oncePrefix  = "/suite.Once/"
	probeName   = "/grpc.health.v1.Health/Check"
)

// spec is that of one procedure: the suite makes up names as it goes.
func (s shape) spec(procedure string) connect.Spec {
	spec := connect.Spec{Procedure: procedure}
	switch {
	case strings.HasPrefix(procedure, oncePrefix):
		spec.StreamType = connect.StreamTypeClient
	case s.streams && procedure != probeName:
		spec.StreamType = connect.StreamTypeServer
	}
	return spec
}

// recovers answers for a handler that panicked.
func recovers(next connect.ServerFunc) connect.ServerFunc {
	return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = connect.NewError(connect.CodeInternal, "panicked")
			}
		}()
		return next(ctx, spec, stream)
	}
}

func (s shape) serve(t testing.TB, srv chainbudgettest.Server) (address string) {
	interceptors := []connect.ServerInterceptor{recovers}
	if srv.Outside != nil {
		interceptors = append(interceptors, outside(srv.Outside))
	}
	if srv.SDK != nil {
		interceptors = append(interceptors, sabotagedServer(s.broken))
		for range srv.Layers + 1 {
			interceptors = append(interceptors, budgetconnect2.NewServerInterceptor(srv.SDK, budgetconnect2.Option{Entry: srv.Entry}))
		}
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server := connect.NewServer(interceptors...)
		server.Register(connect.Method{Spec: s.spec(r.URL.Path), Handler: s.handler(srv)})
		mux := http.NewServeMux()
		connecthttp.Mount(mux, server)
		mux.ServeHTTP(w, r)
	})
	return strings.TrimPrefix(rpctest.Serve(t, h), "http://")
}

// headers are those of net/http.
func headers(h *connect.Header) http.Header {
	to := make(http.Header, h.Len())
	for k, v := range h.All() {
		to[k] = v
	}
	return to
}

// handler lets the suite answer.
func (s shape) handler(srv chainbudgettest.Server) connect.ServerFunc {
	return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
		var body strings.Builder
		for {
			var m text
			err := stream.Receive(&m)
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
			body.WriteString(m.GetValue())
			if spec.StreamType&connect.StreamTypeClient == 0 {
				break
			}
		}
		info, _ := connect.CallInfoForServerContext(ctx)
		returns := info.ResponseTrailer()
		if spec.StreamType == connect.StreamTypeUnary && strings.HasPrefix(s.name, "connect") {
			returns = info.ResponseHeader()
		}
		var message string
		err := srv.Handle(ctx, chainbudgettest.Received{Header: headers(info.RequestHeader()), Body: body.String()}, chainbudgettest.Reply{
			Header: func(name, value string) { info.ResponseHeader().Add(name, value) },
			Return: func(line string) { returns.Add(otelprop.ReturnHeader, line) },
			Send: func(m string) error {
				if spec.StreamType != connect.StreamTypeServer {
					message = m
					return nil
				}
				return stream.Send(say(m))
			},
		})
		if failure, ok := err.(*chainbudgettest.Failure); ok {
			return coded(failure)
		}
		if err == nil && spec.StreamType != connect.StreamTypeServer {
			err = stream.Send(say(message))
		}
		return hop(err)
	}
}

// hop is what a hop makes of an error that it got: connect answers a callee's own with internal.
func hop(err error) error {
	if e, ok := errors.AsType[*connect.Error](err); ok && e != nil {
		return connect.NewError(e.Code(), e.Message()).WithCause(err)
	}
	return err
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
	e := connect.NewError(code, f.Text)
	if f.After > 0 {
		if d, err := connectproto.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(f.After) * time.Second)}); err == nil {
			e = e.WithDetail(d)
		}
	}
	return e
}

// outside is the instrumentation that users install.
func outside(o func(context.Context, http.Header) context.Context) connect.ServerInterceptor {
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			info, _ := connect.CallInfoForServerContext(ctx)
			return next(o(ctx, headers(info.RequestHeader())), spec, stream)
		}
	}
}

func (s shape) dial(t testing.TB, l chainbudgettest.Link) chainbudgettest.Client {
	var interceptors []connect.ClientInterceptor
	if l.Dependency != nil {
		for range l.Layers + 1 {
			interceptors = append(interceptors, with(l.Dependency, budgetconnect2.Option{Idempotent: []string{readPrefix + "*", oncePrefix + "*"}}))
		}
	}
	interceptors = append(interceptors, sabotaged(s.broken))
	c := s.client(t, "http://"+l.Address, interceptors...)
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
		ctx, info := connect.NewClientContext(ctx)
		for k, v := range r.Header {
			info.RequestHeader().SetValues(k, v)
		}
		before := headers(info.RequestHeader())
		a := s.call(ctx, c, s.spec(procedure), r)
		if after := headers(info.RequestHeader()); len(after) != len(before) {
			t.Errorf("the caller's headers were %v and are %v", before, after)
		}
		if a.Status != 0 {
			a.Header = headers(info.ResponseHeader())
			for k, v := range info.ResponseTrailer().All() {
				if !slices.Equal(a.Header[k], v) { // connect has what came without a message in both
					a.Header[k] = append(a.Header[k][:len(a.Header[k]):len(a.Header[k])], v...)
				}
			}
		}
		return a
	}
}

// call makes a call, and reads its answer but for the headers.
func (s shape) call(ctx context.Context, c *connect.Client, spec connect.Spec, r chainbudgettest.Request) chainbudgettest.Answer {
	switch spec.StreamType {
	case connect.StreamTypeUnary:
		var res text
		if err := c.CallUnary(ctx, spec, say(r.Body), &res); err != nil {
			return failed(err)
		}
		return succeeded(res.GetValue(), r)
	case connect.StreamTypeClient:
		stream, err := c.CallClientStream(ctx, spec)
		if err != nil {
			return failed(err)
		}
		defer stream.Close()
		if err := stream.Send(say(r.Body)); err != nil && !errors.Is(err, io.EOF) {
			return failed(err)
		}
		var res text
		if err := errors.Join(stream.CloseSend(), stream.Receive(&res)); err != nil {
			return failed(err)
		}
		return succeeded(res.GetValue(), r)
	}
	stream, err := c.CallServerStream(ctx, spec, say(r.Body))
	if err != nil {
		return failed(err)
	}
	defer stream.Close()
	var body string
	for {
		var m text
		if err := stream.Receive(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			a := failed(err)
			if a.Status == 0 || body != "" {
				a.Body = body
			}
			return a
		}
		body += m.GetValue()
		if r.Each != nil {
			r.Each(m.GetValue())
		}
	}
	return chainbudgettest.Answer{Responded: true, Status: http.StatusOK, Body: body}
}

func succeeded(body string, r chainbudgettest.Request) chainbudgettest.Answer {
	if r.Each != nil {
		r.Each(body)
	}
	return chainbudgettest.Answer{Responded: true, Status: http.StatusOK, Body: body}
}

// failed is the answer that an error is about.
func failed(err error) (a chainbudgettest.Answer) {
	a.Err = err
	a.Denied, _ = errors.AsType[*chainbudget.DeniedError](err)
	e, ok := errors.AsType[*connect.Error](err)
	if !ok || !e.IsRemote() {
		return a
	}
	a.Body = e.Message()
	a.Status = http.StatusInternalServerError
	for status, code := range codes {
		if code == e.Code() {
			a.Status = status
		}
	}
	return a
}
