package budgetgrpc_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

var down = status.Error(codes.Unavailable, "down")

// TestRegression_A118_a_stream_is_repeated_until_its_first_message
func TestRegression_A118_a_stream_is_repeated_until_its_first_message(t *testing.T) {
	for name, c := range map[string]struct {
		before func(grpc.ServerStream) error // the first attempt
		want   []string
		code   codes.Code
		calls  int64
		reason ownership.Reason
	}{
		"fails_before_the_headers":  {func(grpc.ServerStream) error { return down }, []string{"1", "2", "3"}, codes.OK, 2, ownership.ReasonAllowed},
		"fails_after_the_headers":   {func(s grpc.ServerStream) error { return sendHeader(s, down) }, []string{"1", "2", "3"}, codes.OK, 2, ownership.ReasonAllowed},
		"fails_after_one_message":   {func(s grpc.ServerStream) error { return first(s, down) }, []string{"0"}, codes.Unavailable, 1, ownership.ReasonNotReplayable},
		"fails_for_good":            {func(grpc.ServerStream) error { return status.Error(codes.NotFound, "no") }, nil, codes.NotFound, 1, 0},
		"has_nothing_to_say":        {func(grpc.ServerStream) error { return nil }, nil, codes.OK, 1, 0},
		"says_something_and_leaves": {func(s grpc.ServerStream) error { return first(s, nil) }, []string{"0"}, codes.OK, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			h := &handlers{list: func(m *text, s grpc.ServerStream) error {
				assert.Equal(t, "x", m.GetValue(), "the request is sent again")
				if calls.Add(1) == 1 {
					return c.before(s)
				}
				for i := 1; i <= 3; i++ {
					if err := s.SendMsg(say(fmt.Sprint(i))); err != nil {
						return err
					}
				}
				return nil
			}}
			rec, callee := rpctest.SDK(t, "caller"), rpctest.SDK(t, "callee")
			conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(callee.SDK)...), budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...)
			got, err := list(rpctest.Begin(t, rec), conn)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.code, status.Code(err))
			assert.Equal(t, c.calls, calls.Load())
			if c.code == codes.Unavailable {
				denied := new(chainbudget.DeniedError)
				require.ErrorAs(t, err, &denied)
				assert.Equal(t, c.reason, denied.Reason)
			}
			assert.Zero(t, rec.SDK.Totals().Lost)
		})
	}
}

func sendHeader(s grpc.ServerStream, err error) error {
	if e := s.SendHeader(metadata.Pairs("a", "b")); e != nil {
		return e
	}
	return err
}

func first(s grpc.ServerStream, err error) error {
	if e := s.SendMsg(say("0")); e != nil {
		return e
	}
	return err
}

// TestRegression_A118_headers_that_the_caller_has_seen_are_final
func TestRegression_A118_headers_that_the_caller_has_seen_are_final(t *testing.T) {
	var calls atomic.Int64
	h := &handlers{list: func(_ *text, s grpc.ServerStream) error {
		calls.Add(1)
		return sendHeader(s, down)
	}}
	rec := rpctest.SDK(t, "caller")
	conn := dial(t, serve(t, h), budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...)
	s, err := conn.NewStream(rpctest.Begin(t, rec), &serviceDesc.Streams[0], listMethod)
	require.NoError(t, err)
	require.NoError(t, s.SendMsg(say("x")))
	require.NoError(t, s.CloseSend())
	md, err := s.Header()
	require.NoError(t, err)
	assert.Equal(t, []string{"b"}, md["a"])
	err = s.RecvMsg(new(text))
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Equal(t, err, s.RecvMsg(new(text)), "it stays so")
	assert.EqualValues(t, 1, calls.Load())
}

// TestRegression_A027_a_long_stream_lives_on: the attempt timeout is over with the first message, or with the headers.
func TestRegression_A027_a_long_stream_lives_on(t *testing.T) {
	for name, begins := range map[string]func(grpc.ServerStream) error{
		"a_message": func(s grpc.ServerStream) error { return s.SendMsg(say("0")) },
		"headers":   func(s grpc.ServerStream) error { return s.SendHeader(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			h := &handlers{list: func(_ *text, s grpc.ServerStream) error {
				_, limited := s.Context().Deadline()
				assert.False(t, limited, "grpc-timeout is not the attempt's")
				if err := begins(s); err != nil {
					return err
				}
				tick := time.NewTicker(100 * time.Millisecond)
				defer tick.Stop()
				for range 5 {
					<-tick.C
				}
				return s.SendMsg(say("late"))
			}}
			rec, callee := rpctest.SDK(t, "caller"), rpctest.SDK(t, "callee")
			conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(callee.SDK)...), budgetgrpc.DialOptions(rec.Dependency("callee", "hasty"), every)...)
			got, err := list(rpctest.Begin(t, rec), conn)
			require.NoError(t, err)
			assert.Equal(t, "late", got[len(got)-1])
			assert.EqualValues(t, 1, rec.SDK.Totals().Dependencies["callee"].Attempts)
		})
	}
	t.Run("nothing", func(t *testing.T) {
		var calls atomic.Int64
		h := &handlers{list: func(_ *text, s grpc.ServerStream) error {
			if calls.Add(1) > 1 {
				return s.SendMsg(say("0"))
			}
			<-s.Context().Done()
			return s.Context().Err()
		}}
		rec := rpctest.SDK(t, "caller")
		conn := dial(t, serve(t, h), budgetgrpc.DialOptions(rec.Dependency("callee", "hasty"), every)...)
		got, err := list(rpctest.Begin(t, rec), conn)
		assert.NoError(t, err)
		assert.Equal(t, []string{"0"}, got)
		assert.EqualValues(t, 2, calls.Load(), "a stream that does not begin in time is another attempt")
	})
}

// TestRegression_A120_what_a_client_streams_is_sent_once
func TestRegression_A120_what_a_client_streams_is_sent_once(t *testing.T) {
	for name, method := range map[string]string{"upload": uploadMethod, "chat": chatMethod} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			read := func(s grpc.ServerStream) error {
				calls.Add(1)
				if err := s.RecvMsg(new(text)); err != nil {
					return err
				}
				return down
			}
			rec, callee := rpctest.SDK(t, "caller"), rpctest.SDK(t, "callee")
			conn := dial(t, serve(t, &handlers{upload: read, chat: read}, budgetgrpc.ServerOptions(callee.SDK)...), budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...)
			desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: name == "chat"}
			s, err := conn.NewStream(rpctest.Begin(t, rec), desc, method)
			require.NoError(t, err)
			require.NoError(t, s.SendMsg(say("1")))
			err = s.RecvMsg(new(text))
			assert.Equal(t, codes.Unavailable, status.Code(err))
			denied := new(chainbudget.DeniedError)
			require.ErrorAs(t, err, &denied)
			assert.Equal(t, ownership.ReasonNotReplayable, denied.Reason)
			assert.Equal(t, ownership.ClaimClaimed, denied.Claim, "a caller above may repeat it")
			assert.EqualValues(t, 1, calls.Load())
			assert.Zero(t, rec.SDK.Totals().Lost)
		})
	}
}

// TestRegression_streams_of_all_kinds_work_and_settle
func TestRegression_streams_of_all_kinds_work_and_settle(t *testing.T) {
	h := &handlers{
		upload: func(s grpc.ServerStream) error {
			n := 0
			for {
				if err := s.RecvMsg(new(text)); err == io.EOF {
					return s.SendMsg(say(fmt.Sprint(n)))
				} else if err != nil {
					return err
				}
				n++
			}
		},
		chat: func(s grpc.ServerStream) error {
			for {
				m := new(text)
				if err := s.RecvMsg(m); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if err := s.SendMsg(m); err != nil {
					return err
				}
			}
		},
	}
	rec, callee := rpctest.SDK(t, "caller"), rpctest.SDK(t, "callee")
	conn := dial(t, serve(t, h, budgetgrpc.ServerOptions(callee.SDK)...), budgetgrpc.DialOptions(rec.Dependency("callee", "hasty"))...)
	ctx := rpctest.Begin(t, rec)

	up, err := conn.NewStream(ctx, &serviceDesc.Streams[1], uploadMethod)
	require.NoError(t, err)
	for range 10 {
		require.NoError(t, up.SendMsg(say("x")))
	}
	require.NoError(t, up.CloseSend())
	sum := new(text)
	require.NoError(t, up.RecvMsg(sum))
	assert.Equal(t, "10", sum.GetValue())
	assert.NotContains(t, up.Trailer(), otelprop.ReturnHeader)

	chat, err := conn.NewStream(ctx, &serviceDesc.Streams[2], chatMethod)
	require.NoError(t, err)
	sent := make(chan error, 1)
	go func() {
		for i := range 100 {
			if err := chat.SendMsg(say(fmt.Sprint(i))); err != nil {
				sent <- err
				return
			}
		}
		sent <- chat.CloseSend()
	}()
	for i := range 100 {
		m := new(text)
		require.NoError(t, chat.RecvMsg(m))
		assert.Equal(t, fmt.Sprint(i), m.GetValue())
	}
	assert.Equal(t, io.EOF, chat.RecvMsg(new(text)))
	assert.NoError(t, <-sent)
	d := rec.SDK.Totals().Dependencies["callee"]
	assert.Positive(t, d.Lent)
	assert.Equal(t, d.Lent, d.Home)
}

// TestRegression_a_stream_that_its_caller_leaves_is_settled, without a read that would tell.
func TestRegression_a_stream_that_its_caller_leaves_is_settled(t *testing.T) {
	h := &handlers{list: func(_ *text, s grpc.ServerStream) error {
		if err := s.SendMsg(say("0")); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}}
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(rpctest.Catalog+"  narrow: {extends: test, breaker: {max_in_flight: 1}}\n"))
	conn := dial(t, serve(t, h), budgetgrpc.DialOptions(rec.Dependency("callee", "narrow"))...)
	for range 20 {
		ctx, cancel := context.WithCancel(rpctest.Begin(t, rec))
		s, err := conn.NewStream(ctx, &serviceDesc.Streams[0], listMethod)
		require.NoError(t, err)
		require.NoError(t, s.SendMsg(say("x")))
		require.NoError(t, s.CloseSend())
		require.NoError(t, s.RecvMsg(new(text)))
		cancel()
		require.Equal(t, codes.Canceled, status.Code(s.RecvMsg(new(text))))
	}
	abandoned, cancel := context.WithCancel(rpctest.Begin(t, rec))
	s, err := conn.NewStream(abandoned, &serviceDesc.Streams[0], listMethod)
	require.NoError(t, err)
	require.NoError(t, s.SendMsg(say("x")))
	lost := rec.SDK.Totals().Lost
	cancel()
	for end := time.Now().Add(5 * time.Second); rec.SDK.Totals().Lost == lost && time.Now().Before(end); {
		runtime.Gosched()
	}
	assert.Greater(t, rec.SDK.Totals().Lost, lost)
}

// TestRegression_A021_streams_that_never_open_leave_nothing_behind
func TestRegression_A021_streams_that_never_open_leave_nothing_behind(t *testing.T) {
	rec := rpctest.SDK(t, "caller")
	conn := dial(t, nowhere, budgetgrpc.DialOptions(rec.Dependency("callee", "test"))...)
	open := func() {
		ctx, end := chainbudget.Start(context.Background(), rec.SDK)
		defer end()
		_, err := conn.NewStream(ctx, &serviceDesc.Streams[2], chatMethod)
		assert.Equal(t, codes.Unavailable, status.Code(err))
	}
	open()
	before := runtime.NumGoroutine()
	for range 1000 {
		open()
	}
	assert.Less(t, runtime.NumGoroutine(), before+20)
	d := rec.SDK.Totals().Dependencies["callee"]
	assert.Equal(t, d.Lent, d.Home, "nothing left")
	assert.Equal(t, d.Calls*4, d.Attempts, "a stream that did not open may be opened again")
}

// TestRegression_a_stream_holds_no_place_in_the_breaker_once_it_has_begun
func TestRegression_a_stream_holds_no_place_in_the_breaker_once_it_has_begun(t *testing.T) {
	h := &handlers{list: func(_ *text, s grpc.ServerStream) error {
		if err := s.SendMsg(say("0")); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}}
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(rpctest.Catalog+"  narrow: {extends: test, breaker: {max_in_flight: 1}}\n"))
	conn := dial(t, serve(t, h), budgetgrpc.DialOptions(rec.Dependency("callee", "narrow"))...)
	ctx, cancel := context.WithCancel(rpctest.Begin(t, rec))
	defer cancel()
	s, err := conn.NewStream(ctx, &serviceDesc.Streams[0], listMethod)
	require.NoError(t, err)
	require.NoError(t, s.SendMsg(say("x")))
	require.NoError(t, s.CloseSend())
	require.NoError(t, s.RecvMsg(new(text)))
	assert.NoError(t, ask(rpctest.Begin(t, rec), conn))
	cancel()
	assert.Equal(t, codes.Canceled, status.Code(s.RecvMsg(new(text))))
}
