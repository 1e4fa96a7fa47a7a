package subject

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"
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
	s.client = sdk
	dep := (*chainbudget.Dependency)(dependency(sdk, profile))
	return layer{
		wrap:    func(base http.RoundTripper) http.RoundTripper { return budgethttp.NewTransport(base, dep) },
		context: func() context.Context { return s.inRequest(sdk) },
	}
}

// terms are what all libraries are set to for one comparison, as far as each can: three attempts, a retry after an error, a
// 429 and a 5xx other than 501, a breaker that opens at half failures of at least 20 in ten seconds.
type terms struct {
	limit   time.Duration // of each attempt; 0 = none
	fails   bool          // attempts fail here: the breaker counts them without opening, and no retry waits
	refuses bool          // the budget refuses every retry, where the library has one; else there is one attempt
	forbids bool          // a response may say that nobody is to repeat it
}

// threshold returns the share of failures at which a breaker opens, and of how many attempts at least.
func (t terms) threshold() (ratio float64, requests uint) {
	if t.fails {
		return 1, math.MaxInt32
	}
	return 0.5, 20
}

// tries is the number of attempts of a library without a budget.
func (t terms) tries() int {
	if t.refuses {
		return 1
	}
	return 3
}

// budget is failsafe's retry budget. Where it does not refuse, it has room for every retry: by default a few concurrent
// ones exceed it, and what a refusal costs is another comparison.
func (t terms) budget() budget.Budget {
	if t.refuses {
		return budget.NewBuilder().WithMaxRate(-1).WithMinConcurrency(0).Build() // at 0 the first retry would pass
	}
	return budget.NewBuilder().WithMaxRate(1).Build()
}

// failed is the one rule about responses.
func failed(status int) bool {
	return status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented
}

// failsafe wraps with retries, a retry budget and a breaker, and with a limit for each attempt if there is one.
func (s *stage) failsafe(t terms) layer {
	executor, _ := failsafeHTTP(t, 5*time.Second)
	return layer{
		wrap: func(base http.RoundTripper) http.RoundTripper {
			return failsafehttp.NewRoundTripperWithExecutor(base, executor)
		},
		context: s.serverContext,
	}
}

func failsafeHTTP(t terms, openFor time.Duration) (failsafe.Executor[*http.Response], circuitbreaker.CircuitBreaker[*http.Response]) {
	retry := failsafehttp.NewRetryPolicyBuilder().WithMaxAttempts(3).WithBudget(t.budget()).ReturnLastFailure().
		AbortOnErrors(circuitbreaker.ErrOpen)
	if t.forbids {
		retry = retry.AbortIf(func(r *http.Response, _ error) bool { return forbidden(r) })
	}
	ratio, requests := t.threshold()
	breaker := circuitbreaker.NewBuilder[*http.Response]().HandleIf(func(r *http.Response, err error) bool {
		return err != nil || failed(r.StatusCode)
	}).WithFailureRateThreshold(ratio, requests, 10*time.Second).WithDelay(openFor).Build()
	policies := []failsafe.Policy[*http.Response]{retry.Build(), breaker}
	if t.limit > 0 {
		policies = append(policies, timeout.New[*http.Response](t.limit))
	}
	return failsafe.With(policies...), breaker
}

// retryable wraps with go-retryablehttp, which has neither breaker nor budget.
func (s *stage) retryable(t terms) layer {
	return layer{
		wrap: func(base http.RoundTripper) http.RoundTripper {
			client := retryablehttp.NewClient()
			client.HTTPClient = &http.Client{Transport: base}
			client.Logger = nil
			client.RetryMax = t.tries() - 1
			client.RetryWaitMin, client.RetryWaitMax = 0, 0
			client.ErrorHandler = retryablehttp.PassthroughErrorHandler
			if t.forbids {
				client.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
					if forbidden(resp) {
						return false, nil
					}
					return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
				}
			}
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

// byHand wraps with what a careful team writes itself: see handmade.
func (s *stage) byHand(t terms) layer {
	breaker := newGoBreaker[*http.Response](t)
	return layer{
		wrap:    func(base http.RoundTripper) http.RoundTripper { return &handmade{base, breaker, t} },
		context: s.serverContext,
	}
}
