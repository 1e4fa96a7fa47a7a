package budgetgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/rpctest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// answers is a callee that gives its attempts the answers one after the other, and then none but nil.
func answers(calls *atomic.Int64, list ...error) *handlers {
	return &handlers{call: func(_ context.Context, m *text) (*text, error) {
		if n := int(calls.Add(1)); n <= len(list) && list[n-1] != nil {
			return nil, list[n-1]
		}
		return m, nil
	}}
}

// retryAfter is a status that says when to ask again.
func retryAfter(c codes.Code, d time.Duration) error {
	st, err := status.New(c, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		return err
	}
	return st.Err()
}

// TestRegression_codes_mean_what_their_statuses_mean: which codes are repeated at all, and by which statuses of a profile.
func TestRegression_codes_mean_what_their_statuses_mean(t *testing.T) {
	yaml := rpctest.Catalog + "  wide: {extends: test, retry: {statuses: [408, 409, 429, 499, 500, 501, 502, 503, 504]}}\n"
	for c := codes.Code(1); c <= 17; c++ {
		repeatable := map[string]bool{
			"test": c == codes.Unavailable || c == codes.DeadlineExceeded,
			"wide": c == codes.Unavailable || c == codes.DeadlineExceeded || c == codes.Aborted || c == codes.Unknown || c == codes.Internal || c > 16,
		}
		for profile, repeats := range repeatable {
			t.Run(fmt.Sprintf("%s/%v", profile, c), func(t *testing.T) {
				var calls atomic.Int64
				rec := chainbudgettest.New(t, chainbudgettest.Catalog(yaml))
				conn := dial(t, serve(t, answers(&calls, status.Error(c, "once"))), budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...)
				if profile == "wide" {
					conn = dial(t, conn.Target()[len("passthrough:///"):], budgetgrpc.DialOptions(rec.Dependency("wide", "wide"), every)...)
				}
				ctx, cancel := context.WithTimeout(rpctest.Begin(t, rec), 10*time.Second)
				defer cancel()
				err := ask(ctx, conn)
				if repeats {
					assert.NoError(t, err)
					assert.EqualValues(t, 2, calls.Load())
				} else {
					assert.Equal(t, c, status.Code(err))
					assert.EqualValues(t, 1, calls.Load())
				}
			})
		}
	}
}

// TestRegression_an_exhausted_callee_is_asked_again_only_when_it_says_when
func TestRegression_an_exhausted_callee_is_asked_again_only_when_it_says_when(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		calls int64
	}{
		"says_nothing": {status.Error(codes.ResourceExhausted, "quota"), 1},
		"says_when":    {retryAfter(codes.ResourceExhausted, time.Millisecond), 2},
		"says_now":     {retryAfter(codes.ResourceExhausted, 0), 2},
		"says_never":   {retryAfter(codes.ResourceExhausted, time.Hour), 1},
		"says_before":  {retryAfter(codes.ResourceExhausted, -time.Second), 1},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			rec := rpctest.SDK(t, "caller")
			_ = ask(rpctest.Begin(t, rec), dial(t, serve(t, answers(&calls, c.err)), budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...))
			assert.Equal(t, c.calls, calls.Load())
		})
	}
}

// TestRegression_A119_pushback: a number is a lower bound, whatever else is no retry, and what is longer counts.
func TestRegression_A119_pushback(t *testing.T) {
	type pushed struct {
		trailer []string
		info    time.Duration // < 0 = none
	}
	for name, c := range map[string]struct {
		pushed
		retried bool
		least   time.Duration
		reason  ownership.Reason
	}{
		"none":              {pushed{nil, -1}, true, 0, 0},
		"0":                 {pushed{[]string{"0"}, -1}, true, 0, 0},
		"100":               {pushed{[]string{"100"}, -1}, true, 100 * time.Millisecond, 0},
		"-1":                {pushed{[]string{"-1"}, -1}, false, 0, ownership.ReasonPushback},
		"abc":               {pushed{[]string{"abc"}, -1}, false, 0, ownership.ReasonPushback},
		"empty":             {pushed{[]string{""}, -1}, false, 0, ownership.ReasonPushback},
		"1.5":               {pushed{[]string{"1.5"}, -1}, false, 0, ownership.ReasonPushback},
		"two":               {pushed{[]string{"1", "1"}, -1}, false, 0, ownership.ReasonPushback},
		"huge":              {pushed{[]string{"9223372036854775807"}, -1}, false, 0, ownership.ReasonPushback},
		"no_int64":          {pushed{[]string{"99999999999999999999999"}, -1}, false, 0, ownership.ReasonPushback},
		"beyond_the_cap":    {pushed{[]string{"1001"}, -1}, false, 0, ownership.ReasonPushback},
		"info_is_longer":    {pushed{[]string{"10"}, 100 * time.Millisecond}, true, 100 * time.Millisecond, 0},
		"trailer_is_longer": {pushed{[]string{"100"}, 10 * time.Millisecond}, true, 100 * time.Millisecond, 0},
		"-1_and_info":       {pushed{[]string{"-1"}, time.Millisecond}, false, 0, ownership.ReasonPushback},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			h := &handlers{call: func(ctx context.Context, m *text) (*text, error) {
				if calls.Add(1) > 1 {
					return m, nil
				}
				for _, v := range c.trailer {
					require.NoError(t, grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", v)))
				}
				if c.info >= 0 {
					return nil, retryAfter(codes.Unavailable, c.info)
				}
				return nil, status.Error(codes.Unavailable, "down")
			}}
			rec := rpctest.SDK(t, "caller", chainbudgettest.Sleep())
			began := time.Now()
			err := ask(rpctest.Begin(t, rec), dial(t, serve(t, h), budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...))
			if c.retried {
				assert.NoError(t, err)
				assert.GreaterOrEqual(t, time.Since(began), c.least)
				return
			}
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.EqualValues(t, 1, calls.Load())
			assert.Equal(t, []ownership.Reason{c.reason}, rec.Reasons())
		})
	}
}

// TestRegression_A025_each_attempt_announces_its_own_time: grpc-timeout and the header's timeout shrink from attempt to
// attempt, and neither is longer than the attempt's limit.
func TestRegression_A025_each_attempt_announces_its_own_time(t *testing.T) {
	var (
		mu   sync.Mutex
		left []time.Duration
		said []int
	)
	h := &handlers{call: func(ctx context.Context, _ *text) (*text, error) {
		deadline, ok := ctx.Deadline()
		assert.True(t, ok)
		md, _ := metadata.FromIncomingContext(ctx)
		require.Len(t, md[otelprop.RequestHeader], 1)
		request, _ := otelprop.ReadRequest(nil, md[otelprop.RequestHeader], 99)
		mu.Lock()
		left, said = append(left, time.Until(deadline)), append(said, int(request.Timeout.Milliseconds()))
		n := len(left)
		mu.Unlock()
		if n == 1 {
			wait := time.NewTimer(150 * time.Millisecond)
			defer wait.Stop()
			<-wait.C
		}
		return nil, status.Error(codes.Unavailable, "down")
	}}
	rec := rpctest.SDK(t, "caller")
	conn := dial(t, serve(t, h), budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...)
	ctx, cancel := context.WithTimeout(rpctest.Begin(t, rec), 400*time.Millisecond)
	defer cancel()
	assert.Error(t, ask(ctx, conn))
	require.GreaterOrEqual(t, len(left), 2)
	assert.LessOrEqual(t, left[0], 400*time.Millisecond)
	assert.LessOrEqual(t, left[1], 250*time.Millisecond)
	assert.LessOrEqual(t, said[1], 250)
	assert.Positive(t, said[1])

	left, said = nil, nil
	hasty := dial(t, conn.Target()[len("passthrough:///"):], budgetgrpc.DialOptions(rec.Dependency("hasty", "hasty"), every)...)
	assert.NotNil(t, ask(rpctest.Begin(t, rec), hasty))
	require.NotEmpty(t, left)
	assert.LessOrEqual(t, left[0], 200*time.Millisecond)
	assert.Equal(t, 200, said[0])
}

// TestRegression_an_attempt_timeout_is_a_deadline: the caller sees DEADLINE_EXCEEDED, however the time ran out.
func TestRegression_an_attempt_timeout_is_a_deadline(t *testing.T) {
	var calls atomic.Int64
	h := &handlers{call: func(ctx context.Context, _ *text) (*text, error) {
		calls.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	rec := rpctest.SDK(t, "caller")
	err := ask(rpctest.Begin(t, rec), dial(t, serve(t, h), budgetgrpc.DialOptions(rec.Dependency("callee", "hasty"), every)...))
	assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.EqualValues(t, 2, calls.Load(), "the entry keeps one token, and every lease is lost: %v", rec.Reasons())
}

// TestRegression_A032_the_timeout_of_a_service_config_spans_all_attempts, as it does in gRPC.
func TestRegression_A032_the_timeout_of_a_service_config_spans_all_attempts(t *testing.T) {
	var calls atomic.Int64
	h := &handlers{call: func(ctx context.Context, _ *text) (*text, error) {
		calls.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	rec := rpctest.SDK(t, "caller")
	config := grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "timeout": "0.2s"}]}`)
	conn := dial(t, serve(t, h), append(budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every), config)...)
	for range 2 { // at the first call of a connection the config is not known yet
		calls.Store(0)
		began := time.Now()
		err := ask(rpctest.Begin(t, rec), conn)
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
		assert.EqualValues(t, 1, calls.Load())
		assert.Less(t, time.Since(began), 2*time.Second)
	}
}

// TestRegression_A035_canceled_is_never_retried and is no failure of the callee.
func TestRegression_A035_canceled_is_never_retried(t *testing.T) {
	yaml := rpctest.Catalog + "  watched: {extends: test, breaker: {min_requests: 1, failure_ratio: 1%}}\n"
	t.Run("by_the_caller", func(t *testing.T) {
		rec := chainbudgettest.New(t, chainbudgettest.Catalog(yaml))
		var calls atomic.Int64
		ctx, cancel := context.WithCancel(rpctest.Begin(t, rec))
		h := &handlers{call: func(ctx context.Context, m *text) (*text, error) {
			if calls.Add(1) > 1 {
				return m, nil
			}
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		conn := dial(t, serve(t, h), budgetgrpc.DialOptions(rec.Dependency("callee", "watched"), every)...)
		err := ask(ctx, conn)
		assert.Equal(t, codes.Canceled, status.Code(err))
		assert.ErrorIs(t, err, context.Canceled)
		assert.EqualValues(t, 1, calls.Load())
		assert.Equal(t, []ownership.Reason{ownership.ReasonCanceled}, rec.Reasons())
		assert.NoError(t, ask(rpctest.Begin(t, rec), conn), "no breaker opens")
	})
	t.Run("by_the_callee", func(t *testing.T) {
		rec := chainbudgettest.New(t, chainbudgettest.Catalog(yaml))
		var calls atomic.Int64
		conn := dial(t, serve(t, answers(&calls, status.Error(codes.Canceled, "gone"), nil)), budgetgrpc.DialOptions(rec.Dependency("callee", "watched"), every)...)
		assert.Equal(t, codes.Canceled, status.Code(ask(rpctest.Begin(t, rec), conn)))
		assert.EqualValues(t, 1, calls.Load())
		assert.NoError(t, ask(rpctest.Begin(t, rec), conn), "no breaker opens")
		assert.Empty(t, rec.SDK.Totals().Dependencies["callee"].Claims)
	})
	t.Run("before_the_call", func(t *testing.T) {
		rec := rpctest.SDK(t, "caller")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var calls atomic.Int64
		err := ask(ctx, dial(t, serve(t, answers(&calls)), budgetgrpc.DialOptions(rec.Dependency("callee", "test"))...))
		assert.Equal(t, codes.Canceled, status.Code(err))
		assert.Zero(t, calls.Load())
	})
}

// TestRegression_what_may_have_run_is_repeated_only_if_it_may_run_twice
func TestRegression_what_may_have_run_is_repeated_only_if_it_may_run_twice(t *testing.T) {
	for pattern, calls := range map[string]int64{
		"":                   1,
		"/test.Chain/*":      4,
		"test.Chain/Call":    4,
		"test.Chain/C*":      4,
		"test.Chain/List":    1,
		"*":                  1, // a star stands for no slash
		"*/*":                4,
		"/other.Chain/*":     1,
		"/test.Chain/[A-D]*": 4,
	} {
		t.Run(pattern, func(t *testing.T) {
			var got atomic.Int64
			down := status.Error(codes.Unavailable, "down")
			// Each answer is a foreign one, whose lease is lost: the profile lends nothing.
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(rpctest.Catalog+"  kept: {extends: test, retry: {reserve: 9}}\n"))
			var options []budgetgrpc.Option
			if pattern != "" {
				options = append(options, budgetgrpc.Option{Idempotent: []string{pattern}})
			}
			conn := dial(t, serve(t, answers(&got, down, down, down, down)), budgetgrpc.DialOptions(rec.Dependency("callee", "kept"), options...)...)
			assert.Equal(t, codes.Unavailable, status.Code(ask(rpctest.Begin(t, rec), conn)))
			assert.Equal(t, calls, got.Load(), "%v", rec.Reasons())
		})
	}
}

// TestRegression_the_error_is_the_last_attempts: code, message and details as they came, and the decision beside them.
func TestRegression_the_error_is_the_last_attempts(t *testing.T) {
	st, err := status.New(codes.Unavailable, "shard 7 is down").WithDetails(&errdetails.QuotaFailure{}, &errdetails.ErrorInfo{Reason: "SHARD_DOWN", Domain: "shop"})
	require.NoError(t, err)
	var calls atomic.Int64
	rec := rpctest.SDK(t, "caller")
	callee := rpctest.SDK(t, "callee")
	addr := serve(t, answers(&calls, st.Err(), st.Err(), st.Err(), st.Err()), budgetgrpc.ServerOptions(callee.SDK)...)
	err = ask(rpctest.Begin(t, rec), dial(t, addr, budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...))

	got, ok := status.FromError(err)
	assert.True(t, ok)
	assert.Equal(t, codes.Unavailable, got.Code())
	assert.Equal(t, "shard 7 is down", got.Message())
	require.Len(t, got.Details(), 3, "the callee's two, and the return")
	assert.IsType(t, &errdetails.QuotaFailure{}, got.Details()[0])
	assert.Equal(t, "SHARD_DOWN", got.Details()[1].(*errdetails.ErrorInfo).GetReason())
	denied := new(chainbudget.DeniedError)
	require.ErrorAs(t, err, &denied)
	assert.Equal(t, 503, denied.Status)
	assert.Equal(t, int(calls.Load()), denied.Attempts)
	assert.Equal(t, "callee", denied.Owner)
	assert.Equal(t, codes.Unavailable, status.Code(fmt.Errorf("listing: %w", err)), "wrapped, too")
	assert.NotNil(t, errors.Unwrap(err))
}

// TestRegression_an_error_of_the_request_itself_passes_as_it_came
func TestRegression_an_error_of_the_request_itself_passes_as_it_came(t *testing.T) {
	var calls atomic.Int64
	rec := rpctest.SDK(t, "caller")
	err := ask(rpctest.Begin(t, rec), dial(t, serve(t, answers(&calls, status.Error(codes.NotFound, "no such order"))), budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every)...))
	assert.Equal(t, status.Error(codes.NotFound, "no such order").Error(), err.Error())
	assert.Empty(t, rec.Reasons(), "no failure of the callee")
}

// TestRegression_an_open_breaker_is_unavailable: at once, without an attempt, and as the dependency's failure.
func TestRegression_an_open_breaker_is_unavailable(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(rpctest.Catalog+"  watched: {extends: single, breaker: {min_requests: 1, failure_ratio: 1%}}\n"))
	var calls atomic.Int64
	conn := dial(t, serve(t, unavailable(&calls)), budgetgrpc.DialOptions(rec.Dependency("callee", "watched"), every)...)
	_ = ask(rpctest.Begin(t, rec), conn)
	for range 3 {
		err := ask(rpctest.Begin(t, rec), conn)
		assert.Equal(t, codes.Unavailable, status.Code(err))
		denied := new(chainbudget.DeniedError)
		require.ErrorAs(t, err, &denied)
		assert.Equal(t, ownership.ReasonBreakerOpen, denied.Reason)
	}
	_, err := list(rpctest.Begin(t, rec), conn)
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.EqualValues(t, 1, calls.Load())
}

// TestRegression_the_callers_context_and_metadata_stay: each attempt has metadata of its own, with one line of ours.
func TestRegression_the_callers_context_and_metadata_stay(t *testing.T) {
	var (
		mu   sync.Mutex
		seen []metadata.MD
	)
	h := &handlers{call: func(ctx context.Context, m *text) (*text, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		mu.Lock()
		defer mu.Unlock()
		if seen = append(seen, md); len(seen) < 3 {
			return nil, status.Error(codes.Unavailable, "down")
		}
		return m, nil
	}}
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(rpctest.Catalog+"  kept: {extends: test, retry: {reserve: 9}}\n"))
	conn := dial(t, serve(t, h), budgetgrpc.DialOptions(rec.Dependency("callee", "kept"), every)...)
	own := metadata.MD{"Baggage": {"user=1,chainbudget=v1.9.9.1.00000000.x"}, "tenant": {"a", "b"}, "chainbudget": {"forged"}, "chainbudget-return": {"forged"}}
	ctx := metadata.NewOutgoingContext(rpctest.Begin(t, rec), own)
	ctx = metadata.AppendToOutgoingContext(ctx, "baggage", "more=2")
	require.NoError(t, ask(ctx, conn))
	require.Len(t, seen, 3)
	nonces := map[string]bool{}
	for i, md := range seen {
		assert.Equal(t, []string{"a", "b"}, md["tenant"])
		require.Len(t, md["baggage"], 1)
		assert.Contains(t, md["baggage"][0], "user=1,more=2")
		assert.NotContains(t, md["baggage"][0], "00000000")
		assert.NotContains(t, md, "chainbudget-return")
		require.Len(t, md["chainbudget"], 1)
		request, rejects := otelprop.ReadRequest(md["baggage"], md["chainbudget"], 99)
		assert.Zero(t, rejects)
		assert.Equal(t, strconv.Itoa(i+1), strconv.Itoa(int(request.Attempt)))
		assert.Equal(t, "test", request.Caller)
		nonces[request.Nonce.String()] = true
	}
	assert.Len(t, nonces, 3)
	assert.Equal(t, []string{"forged"}, own["chainbudget"])
	assert.Len(t, own, 4)
}

// TestRegression_the_return_is_read_from_the_details where a hop between passes an error on and not its trailer.
func TestRegression_the_return_is_read_from_the_details(t *testing.T) {
	for name, c := range map[string]struct {
		details int
		nonce   bool
		lost    int64
		reason  ownership.Reason
	}{
		"one":           {1, true, 0, ownership.ReasonStop},
		"two":           {2, true, 2, ownership.ReasonNotIdempotent},
		"of_another":    {1, false, 2, ownership.ReasonNotIdempotent},
		"none_of_these": {0, true, 2, ownership.ReasonNotIdempotent},
	} {
		t.Run(name, func(t *testing.T) {
			h := &handlers{call: func(ctx context.Context, _ *text) (*text, error) {
				md, _ := metadata.FromIncomingContext(ctx)
				request, _ := otelprop.ReadRequest(md["baggage"], md["chainbudget"], 99)
				if !c.nonce {
					request.Nonce++
				}
				ret := otelprop.Return{Returned: request.Grant, Claim: ownership.ClaimStop, Nonce: request.Nonce, Owner: "ledger"}
				info := &errdetails.ErrorInfo{Domain: otelprop.ErrorDomain, Reason: otelprop.ErrorReason, Metadata: map[string]string{otelprop.ReturnHeader: string(ret.Append(nil))}}
				st := status.New(codes.Unavailable, "down")
				for range c.details {
					var err error
					st, err = st.WithDetails(info)
					require.NoError(t, err)
				}
				return nil, st.Err()
			}}
			rec := rpctest.SDK(t, "caller")
			err := ask(rpctest.Begin(t, rec), dial(t, serve(t, h), budgetgrpc.DialOptions(rec.Dependency("callee", "test"))...))
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.Equal(t, []ownership.Reason{c.reason}, rec.Reasons())
			assert.Equal(t, c.lost, rec.SDK.Totals().Lost)
		})
	}
}

// TestRegression_A032_a_second_attempt_has_what_is_left_of_a_service_configs_timeout
func TestRegression_A032_a_second_attempt_has_what_is_left_of_a_service_configs_timeout(t *testing.T) {
	var (
		mu   sync.Mutex
		left []time.Duration
	)
	h := &handlers{call: func(ctx context.Context, m *text) (*text, error) {
		deadline, _ := ctx.Deadline()
		mu.Lock()
		left = append(left, time.Until(deadline))
		n := len(left)
		mu.Unlock()
		if n != 2 { // the first call makes the config known
			return m, nil
		}
		wait := time.NewTimer(300 * time.Millisecond)
		defer wait.Stop()
		<-wait.C
		return nil, status.Error(codes.Unavailable, "down")
	}}
	rec := rpctest.SDK(t, "caller")
	config := grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "timeout": "2s"}]}`)
	conn := dial(t, serve(t, h), append(budgetgrpc.DialOptions(rec.Dependency("callee", "test"), every), config)...)
	require.NoError(t, ask(rpctest.Begin(t, rec), conn))
	require.NoError(t, ask(rpctest.Begin(t, rec), conn))
	require.Len(t, left, 3)
	assert.LessOrEqual(t, left[2], 1700*time.Millisecond)
}

// TestRegression_a_callee_that_ends_a_stream_at_its_deadline_is_late: the callee is told its time, and its reset may be here before
// the attempt's own timer has gone off. gRPC then makes up the status.
func TestRegression_a_callee_that_ends_a_stream_at_its_deadline_is_late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := rpctest.SDK(t, "caller")
		call := budgetgrpc.UnaryClientInterceptor(rec.Dependency("callee", "hasty"), every)
		for range 100 { // the timer comes first in some
			err := call(rpctest.Begin(t, rec), "/test/Call", new(text), new(text), nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
				deadline, _ := ctx.Deadline()
				time.Sleep(time.Until(deadline))
				return status.Error(codes.DeadlineExceeded, "stream terminated by RST_STREAM with error code: CANCEL")
			})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
		}
	})
}
