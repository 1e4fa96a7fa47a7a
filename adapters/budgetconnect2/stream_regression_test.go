package budgetconnect2_test

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

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// roundTrip answers requests by itself.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// roundTrips counts requests, and fails them.
type roundTrips struct{ n atomic.Int64 }

func (r *roundTrips) RoundTrip(*http.Request) (*http.Response, error) {
	r.n.Add(1)
	return nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
}

// upload streams one message and asks for the answer.
func upload(ctx context.Context, c *connect.Client) (string, error) {
	stream, err := c.CallClientStream(ctx, uploadSpec)
	if err != nil {
		return "", err
	}
	if err := stream.Send(say("part")); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	var res text
	// As generated code does: the stream is not closed.
	return res.GetValue(), errors.Join(stream.CloseSend(), stream.Receive(&res))
}

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
				url := serve(t, &procedures{list: func(_ context.Context, _ *text, stream connect.ServerStream) error {
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
				}}, rpctest.SDK(t, "callee"))
				rec := rpctest.SDK(t, "caller")
				ctx, info := connect.NewClientContext(rpctest.Begin(t, rec))
				got, err := list(ctx, p.client(t, url, with(rec.Dependency("callee", "test"), every)))
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
				assert.False(t, info.ResponseTrailer().Has(otelprop.ReturnHeader), "I6")
			})
		}
	})
}

// TestRegression_what_a_client_streams_is_never_kept: one attempt, and the claim passes up, because this hop could not.
func TestRegression_what_a_client_streams_is_never_kept(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		var calls atomic.Int64
		url := serve(t, &procedures{upload: func(_ context.Context, stream connect.ServerStream) (*text, error) {
			var m text
			for stream.Receive(&m) == nil {
			}
			if calls.Add(1) == 1 {
				return nil, errDown
			}
			return say("done"), nil
		}}, rpctest.SDK(t, "callee"))
		rec := rpctest.SDK(t, "caller")
		client := p.client(t, url, with(rec.Dependency("callee", "test"), every))
		_, err := upload(rpctest.Begin(t, rec), client)
		denied, ok := errors.AsType[*chainbudget.DeniedError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, ownership.ReasonNotReplayable, denied.Reason)
		assert.Equal(t, ownership.ClaimClaimed, denied.Claim)
		assert.EqualValues(t, 1, calls.Load())

		home := rec.SDK.Totals().Dependencies["callee"].Home
		ctx, info := connect.NewClientContext(rpctest.Begin(t, rec))
		_, err = upload(ctx, client)
		require.NoError(t, err)
		assert.False(t, info.ResponseHeader().Has(otelprop.ReturnHeader))
		assert.False(t, info.ResponseTrailer().Has(otelprop.ReturnHeader), "I6")
		assert.Zero(t, rec.SDK.Totals().Lost)
		assert.Greater(t, rec.SDK.Totals().Dependencies["callee"].Home, home, "the tokens are home with the answer, although nobody closes the stream")
	})
}

// TestRegression_a_conversation: messages go both ways, its end is the end, and the tokens come home with it.
func TestRegression_a_conversation(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		if !p.http2 {
			return
		}
		url := serve(t, &procedures{chat: func(_ context.Context, stream connect.ServerStream) error {
			for {
				var m text
				if err := stream.Receive(&m); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				if err := stream.Send(&m); err != nil {
					return err
				}
			}
		}}, rpctest.SDK(t, "callee"))
		rec := rpctest.SDK(t, "caller")
		ctx, info := connect.NewClientContext(rpctest.Begin(t, rec))
		stream, err := p.client(t, url, with(rec.Dependency("callee", "test"), every)).CallClientStream(ctx, chatSpec)
		require.NoError(t, err)
		require.NoError(t, stream.SendHeaders())
		for range 3 {
			require.NoError(t, stream.Send(say("hello")))
			var m text
			require.NoError(t, stream.Receive(&m))
			assert.Equal(t, "hello", m.GetValue())
		}
		require.NoError(t, stream.CloseSend())
		for range 2 {
			assert.ErrorIs(t, stream.Receive(new(text)), io.EOF)
		}
		assert.ErrorIs(t, stream.Send(say("too late")), io.EOF)
		totals := rec.SDK.Totals()
		assert.Zero(t, totals.Lost)
		assert.Positive(t, totals.Dependencies["callee"].Home)
		assert.False(t, info.ResponseTrailer().Has(otelprop.ReturnHeader))
		require.NoError(t, stream.Close())
	})
}

// TestRegression_a_stream_that_its_caller_leaves is no failure of the callee, whoever ends it: closing, or canceling.
func TestRegression_a_stream_that_its_caller_leaves(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p protocol) {
		for _, how := range []string{"closes", "cancels"} {
			t.Run(how, func(t *testing.T) {
				url := serve(t, &procedures{list: func(ctx context.Context, _ *text, stream connect.ServerStream) error {
					if err := stream.Send(say("a")); err != nil {
						return err
					}
					<-ctx.Done()
					return ctx.Err()
				}}, rpctest.SDK(t, "callee"))
				rec := rpctest.SDK(t, "caller")
				ctx, cancel := context.WithCancel(rpctest.Begin(t, rec))
				defer cancel()
				stream, err := p.client(t, url, with(rec.Dependency("callee", "test"), every)).CallServerStream(ctx, listSpec, say("x"))
				require.NoError(t, err)
				require.NoError(t, stream.Receive(new(text)))
				waiting := make(chan error)
				go func() { waiting <- stream.Receive(new(text)) }()
				if how == "cancels" {
					cancel()
				} else {
					stream.Close()
				}
				err = <-waiting
				assert.Equal(t, connect.CodeCanceled, connect.CodeOf(err), "%v", err)
				stream.Close()
				assert.Empty(t, rec.SDK.Totals().Dependencies["callee"].Claims)
				assert.EqualValues(t, 1, rec.SDK.Totals().Dependencies["callee"].Attempts)
				assert.Zero(t, rec.SDK.Totals().Dependencies["callee"].Retries)
			})
		}
	})
}

// TestRegression_a_refused_call_sends_nothing: connect sends a request when a stream that was never used is closed.
func TestRegression_a_refused_call_sends_nothing(t *testing.T) {
	use := map[string]func(context.Context, *connect.Client) error{
		"unary": func(ctx context.Context, c *connect.Client) error {
			_, err := ask(ctx, c)
			return err
		},
		"server stream": func(ctx context.Context, c *connect.Client) error {
			_, err := list(ctx, c)
			return err
		},
		"client stream": func(ctx context.Context, c *connect.Client) error {
			_, err := upload(ctx, c)
			return err
		},
	}
	eachProtocol(t, func(t *testing.T, p protocol) {
		for name, call := range use {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var sent roundTrips
					rec := rpctest.SDK(t, "caller")
					client := connect.NewClient(connecthttp.NewTransport(&http.Client{Transport: &sent}, "http://callee", p.options...),
						with(rec.Dependency("callee", "brittle"), every))
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
		client := p.client(t, url, with(rec.Dependency("callee", "twice")))
		for want, key := range []string{"", "k"} {
			calls.Store(0)
			ctx, info := connect.NewClientContext(rpctest.Begin(t, rec))
			if key != "" {
				info.RequestHeader().Set("Idempotency-Key", key)
			}
			_, err := list(ctx, client)
			assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
			assert.EqualValues(t, want+1, calls.Load(), "key %q", key)
		}
	})
}
