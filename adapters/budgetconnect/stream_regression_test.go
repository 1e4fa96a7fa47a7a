package budgetconnect_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// TestRegression_F020_a_stream_is_repeated_until_its_first_message, and what came with the message is whole.
func TestRegression_F020_a_stream_is_repeated_until_its_first_message(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		for name, c := range map[string]struct {
			before int // messages before the first attempt fails
			want   []string
			calls  int64
			fails  bool
		}{
			"before": {0, []string{"a", "b"}, 2, false},
			"after":  {1, []string{"a"}, 1, true},
		} {
			t.Run(name, func(t *testing.T) {
				var calls atomic.Int64
				callee := rpctest.SDK(t, "callee")
				url := server(t, &procedures{list: func(_ context.Context, _ *connect.Request[text], stream *connect.ServerStream[text]) error {
					n := calls.Add(1)
					for i, m := range []string{"a", "b"} {
						if n == 1 && i == c.before {
							return errDown
						}
						if err := stream.Send(say(m)); err != nil {
							return err
						}
					}
					return nil
				}}, callee)
				rec := rpctest.SDK(t, "caller")
				ctx := rpctest.Begin(t, rec)
				got, err := list(ctx, p.client(t, url, listProcedure, with(rec.Dependency("callee", "test"), every)))
				assert.Equal(t, c.want, got)
				assert.Equal(t, c.calls, calls.Load())
				assert.Equal(t, c.fails, err != nil, "%v", err)
				if c.fails {
					denied, ok := errors.AsType[*chainbudget.DeniedError](err)
					require.True(t, ok, "%v", err)
					assert.Equal(t, ownership.ReasonNotReplayable, denied.Reason)
					assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
				}
				assert.Zero(t, rec.SDK.Totals().Lost, "every attempt has brought its lease home")
			})
		}
	})
}

// TestRegression_what_a_client_streams_is_never_kept: one attempt, and the claim passes up, because this hop could not.
func TestRegression_what_a_client_streams_is_never_kept(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		var calls atomic.Int64
		callee := rpctest.SDK(t, "callee")
		url := server(t, &procedures{
			upload: func(_ context.Context, stream *connect.ClientStream[text]) (*connect.Response[text], error) {
				for stream.Receive() {
				}
				if calls.Add(1) == 1 {
					return nil, errDown
				}
				return connect.NewResponse(say("done")), stream.Err()
			},
		}, callee)
		rec := rpctest.SDK(t, "caller")
		client := p.client(t, url, uploadProcedure, with(rec.Dependency("callee", "test"), every))
		stream := client.CallClientStream(rpctest.Begin(t, rec))
		require.NoError(t, stream.Send(say("part")))
		_, err := stream.CloseAndReceive()
		denied, ok := errors.AsType[*chainbudget.DeniedError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, ownership.ReasonNotReplayable, denied.Reason)
		assert.Equal(t, ownership.ClaimClaimed, denied.Claim)
		assert.EqualValues(t, 1, calls.Load())

		stream = client.CallClientStream(rpctest.Begin(t, rec))
		require.NoError(t, stream.Send(say("part")))
		resp, err := stream.CloseAndReceive()
		require.NoError(t, err)
		assert.Equal(t, "done", resp.Msg.GetValue())
		assert.NotContains(t, resp.Header(), otelprop.HTTPReturnHeader)
		assert.NotContains(t, resp.Trailer(), otelprop.HTTPReturnHeader, "I6")
		assert.Zero(t, rec.SDK.Totals().Lost)
	})
}

// TestRegression_a_conversation: messages go both ways, its end is the end, and the tokens come home with it.
func TestRegression_a_conversation(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		if !p.http2 {
			return
		}
		callee := rpctest.SDK(t, "callee")
		url := server(t, &procedures{chat: func(_ context.Context, stream *connect.BidiStream[text, text]) error {
			for {
				m, err := stream.Receive()
				if errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				if err := stream.Send(m); err != nil {
					return err
				}
			}
		}}, callee)
		rec := rpctest.SDK(t, "caller")
		stream := p.client(t, url, chatProcedure, with(rec.Dependency("callee", "test"), every)).CallBidiStream(rpctest.Begin(t, rec))
		for range 3 {
			require.NoError(t, stream.Send(say("hello")))
			m, err := stream.Receive()
			require.NoError(t, err)
			assert.Equal(t, "hello", m.GetValue())
		}
		require.NoError(t, stream.CloseRequest())
		for range 2 {
			_, err := stream.Receive()
			assert.ErrorIs(t, err, io.EOF)
		}
		require.NoError(t, stream.CloseResponse())
		totals := rec.SDK.Totals()
		assert.Zero(t, totals.Lost)
		assert.Positive(t, totals.Dependencies["callee"].Home)
		assert.NotContains(t, stream.ResponseTrailer(), otelprop.HTTPReturnHeader)
	})
}

// TestRegression_a_stream_that_its_caller_leaves is no failure of the callee, whoever ends it: closing, or canceling.
func TestRegression_a_stream_that_its_caller_leaves(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		for _, how := range []string{"closes", "cancels", "never_sends"} {
			t.Run(how, func(t *testing.T) {
				url := server(t, &procedures{list: func(ctx context.Context, _ *connect.Request[text], stream *connect.ServerStream[text]) error {
					if err := stream.Send(say("a")); err != nil {
						return err
					}
					<-ctx.Done()
					return ctx.Err()
				}, upload: func(context.Context, *connect.ClientStream[text]) (*connect.Response[text], error) {
					return nil, errDown
				}}, rpctest.SDK(t, "callee"))
				rec := rpctest.SDK(t, "caller")
				dep := with(rec.Dependency("callee", "test"), every)
				ctx, cancel := context.WithCancel(rpctest.Begin(t, rec))
				defer cancel()
				if how == "never_sends" {
					p.client(t, url, uploadProcedure, dep).CallClientStream(ctx)
					assert.Zero(t, rec.SDK.Totals().Dependencies["callee"].Attempts)
					return
				}
				stream, err := p.client(t, url, listProcedure, dep).CallServerStream(ctx, connect.NewRequest(say("x")))
				require.NoError(t, err)
				require.True(t, stream.Receive())
				if how == "cancels" {
					cancel()
					assert.False(t, stream.Receive())
					assert.Equal(t, connect.CodeCanceled, connect.CodeOf(stream.Err()), "%v", stream.Err())
				}
				stream.Close()
				assert.Empty(t, rec.SDK.Totals().Dependencies["callee"].Claims)
				assert.EqualValues(t, 1, rec.SDK.Totals().Dependencies["callee"].Attempts)
				assert.Zero(t, rec.SDK.Totals().Dependencies["callee"].Retries)
			})
		}
	})
}

// TestRegression_an_open_breaker_refuses_streams: sending, or receiving, says so, and nothing goes out.
func TestRegression_an_open_breaker_refuses_streams(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		var calls atomic.Int64
		url := rpctest.Serve(t, unavailable(&calls).mux())
		rec := rpctest.SDK(t, "caller")
		client := p.client(t, url, listProcedure, with(rec.Dependency("callee", "brittle"), every))
		for range 3 {
			_, err := list(rpctest.Begin(t, rec), client)
			assert.Error(t, err)
		}
		before := calls.Load()
		_, err := list(rpctest.Begin(t, rec), client)
		denied, ok := errors.AsType[*chainbudget.DeniedError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, ownership.ReasonBreakerOpen, denied.Reason)
		assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
		assert.Equal(t, before, calls.Load())
	})
}

// roundTrips counts requests, and fails them.
type roundTrips struct{ n atomic.Int64 }

func (r *roundTrips) RoundTrip(*http.Request) (*http.Response, error) {
	r.n.Add(1)
	return nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
}

// TestRegression_a_refused_stream_sends_nothing: connect sends a request when a stream that was never used is closed.
func TestRegression_a_refused_stream_sends_nothing(t *testing.T) {
	use := map[string]func(context.Context, *connect.Client[text, text]) error{
		"server stream": func(ctx context.Context, c *connect.Client[text, text]) error {
			_, err := list(ctx, c)
			return err
		},
		"client stream": func(ctx context.Context, c *connect.Client[text, text]) error {
			_, err := c.CallClientStream(ctx).CloseAndReceive()
			return err
		},
		"both": func(ctx context.Context, c *connect.Client[text, text]) error {
			stream := c.CallBidiStream(ctx)
			_ = stream.CloseRequest()
			_, err := stream.Receive()
			_ = stream.CloseResponse()
			return err
		},
	}
	eachProtocol(t, func(t *testing.T, p protocol) {
		for name, call := range use {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var sent roundTrips
					rec := rpctest.SDK(t, "caller")
					dep := with(rec.Dependency("callee", "brittle"), every)
					client := connect.NewClient[text, text](&http.Client{Transport: &sent}, "http://callee"+listProcedure, append(p.options, dep)...)
					for range 3 {
						assert.Error(t, call(rpctest.Begin(t, rec), client))
					}
					synctest.Wait()
					before := sent.n.Load()
					require.NotZero(t, before)
					denied, ok := errors.AsType[*chainbudget.DeniedError](call(rpctest.Begin(t, rec), client))
					require.True(t, ok)
					assert.Equal(t, ownership.ReasonBreakerOpen, denied.Reason)
					synctest.Wait()
					assert.Equal(t, before, sent.n.Load())
				})
			})
		}
	})
}

// TestRegression_a_key_makes_a_stream_repeatable, as it does a unary call.
func TestRegression_a_key_makes_a_stream_repeatable(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		var calls atomic.Int64
		url := rpctest.Serve(t, unavailable(&calls).mux())
		rec := rpctest.SDK(t, "caller")
		client := p.client(t, url, listProcedure, with(rec.Dependency("callee", "twice")))
		for want, key := range []string{"", "k"} {
			calls.Store(0)
			req := connect.NewRequest(say("x"))
			if key != "" {
				req.Header().Set("Idempotency-Key", key)
			}
			stream, err := client.CallServerStream(rpctest.Begin(t, rec), req)
			require.NoError(t, err)
			assert.False(t, stream.Receive())
			stream.Close()
			assert.EqualValues(t, want+1, calls.Load(), "key %q", key)
		}
	})
}
