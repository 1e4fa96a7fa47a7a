package subject

import (
	"context"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// layer is one library's way to send requests: what it puts around a RoundTripper, and the context that each worker's
// requests have.
type layer struct {
	wrap    func(base http.RoundTripper) http.RoundTripper
	context func() context.Context
}

func (s *stage) bare() layer {
	return layer{wrap: func(base http.RoundTripper) http.RoundTripper { return base }, context: s.serverContext}
}

// sdk wraps with the SDK, in requests whose purse pays for the attempts.
func (s *stage) sdk(profile profiles.Name) layer { return s.sdkOf(newSDK(catalog), profile) }

func (s *stage) sdkOf(sdk *engine.SDK, profile profiles.Name) layer {
	dep := (*chainbudget.Dependency)(dependency(sdk, profile))
	return layer{
		wrap:    func(base http.RoundTripper) http.RoundTripper { return budgethttp.NewTransport(base, dep) },
		context: func() context.Context { return s.inRequest(sdk) },
	}
}

// roomyBudget is failsafe's retry budget with room for every retry: by default a few concurrent ones exceed it, and what a
// refusal costs is not what is measured.
func roomyBudget() budget.Budget { return budget.NewBuilder().WithMaxRate(1).Build() }

// failsafe wraps with retries, a retry budget and a breaker, and with a limit for each attempt if there is one.
func (s *stage) failsafe(ratio float64, limit time.Duration) layer {
	retry := failsafehttp.NewRetryPolicyBuilder().WithMaxAttempts(3).WithBudget(roomyBudget()).Build()
	breaker := circuitbreaker.NewBuilder[*http.Response]().HandleIf(func(r *http.Response, err error) bool {
		return err != nil || r.StatusCode >= 500
	}).WithFailureRateThreshold(ratio, 20, 10*time.Second).WithDelay(5 * time.Second).Build()
	policies := []failsafe.Policy[*http.Response]{retry, breaker}
	if limit > 0 {
		policies = append(policies, timeout.New[*http.Response](limit))
	}
	executor := failsafe.With(policies...)
	return layer{
		wrap: func(base http.RoundTripper) http.RoundTripper {
			return failsafehttp.NewRoundTripperWithExecutor(base, executor)
		},
		context: s.serverContext,
	}
}

// retryable wraps with go-retryablehttp, which has neither breaker nor budget.
func (s *stage) retryable() layer {
	return layer{
		wrap: func(base http.RoundTripper) http.RoundTripper {
			client := retryablehttp.NewClient()
			client.HTTPClient = &http.Client{Transport: base}
			client.Logger = nil
			client.RetryMax = 2
			client.RetryWaitMin, client.RetryWaitMax = 0, 0
			return &retryablehttp.RoundTripper{Client: client}
		},
		context: s.serverContext,
	}
}

// otel wraps with an instrumented transport: a sampled span, trace context, and the given baggage, which is already in
// the context.
func (s *stage) otel(baggage baggage.Baggage) layer {
	options := otelOptions()
	return layer{
		wrap:    func(base http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(base, options...) },
		context: func() context.Context { return withBaggage(s.serverContext(), baggage) },
	}
}

func otelOptions() []otelhttp.Option {
	return []otelhttp.Option{
		otelhttp.WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(discard{}))),
		otelhttp.WithMeterProvider(noop.NewMeterProvider()),
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})),
	}
}

// discard is a span processor that keeps nothing.
type discard struct{}

func (discard) OnStart(context.Context, trace.ReadWriteSpan) {}
func (discard) OnEnd(trace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error               { return nil }
func (discard) ForceFlush(context.Context) error             { return nil }

// byHand wraps with what a careful team writes itself: cenkalti/backoff around sony/gobreaker.
func (s *stage) byHand() layer {
	breaker := newGoBreaker[*http.Response]()
	return layer{
		wrap: func(base http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				return backoff.Retry(req.Context(), func() (*http.Response, error) {
					return breaker.Execute(func() (*http.Response, error) { return base.RoundTrip(req) })
				}, backoff.WithBackOff(newBackOff()), backoff.WithMaxTries(3))
			})
		},
		context: s.serverContext,
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func newGoBreaker[T any]() *gobreaker.CircuitBreaker[T] {
	return gobreaker.NewCircuitBreaker[T](gobreaker.Settings{
		Interval: 10 * time.Second, BucketPeriod: time.Second, Timeout: 5 * time.Second,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= 20 && float64(c.TotalFailures)/float64(c.Requests) >= 0.5
		},
	})
}

func newBackOff() backoff.BackOff {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = 50*time.Millisecond, 5*time.Second
	return policy
}
