package subject

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/sony/gobreaker/v2"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// refusals are calls, or retries, that do not happen.
func refusals() []Subject {
	const open, openTransport = "refusal/breaker_open", "refusal/breaker_open/transport"
	return []Subject{
		{Path: open, Who: SDK, open: func() *stage {
			s := new(stage)
			sdk := newSDK(catalog)
			s.client = sdk
			dep := (*chainbudget.Dependency)(brokenDependency(sdk))
			s.worker = func() Op {
				ctx := s.inRequest(sdk)
				fn := func(context.Context) error { return errDown }
				return func() error { return wantRefusal(chainbudget.Do(ctx, dep, fn), ownership.ReasonBreakerOpen) }
			}
			return s
		}},
		{Path: open, Who: Failsafe, open: func() *stage {
			s := new(stage)
			breaker := circuitbreaker.NewBuilder[any]().WithDelay(time.Hour).Build()
			breaker.Open()
			executor := failsafe.With[any](breaker)
			fn := func() error { return nil }
			s.worker = func() Op {
				return func() error { return wantError(executor.Run(fn), circuitbreaker.ErrOpen) }
			}
			return s
		}},
		{Path: open, Who: GoBreaker, open: func() *stage {
			s := new(stage)
			breaker := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
				Timeout: time.Hour, ReadyToTrip: func(gobreaker.Counts) bool { return true },
			})
			fn := func() (struct{}, error) { return struct{}{}, errDown }
			breaker.Execute(fn)
			s.worker = func() Op {
				return func() error {
					_, err := breaker.Execute(fn)
					return wantError(err, gobreaker.ErrOpenState)
				}
			}
			return s
		}},
		{Path: openTransport, Who: SDK, open: func() *stage {
			s := new(stage)
			sdk := newSDK(catalog)
			s.client = sdk
			dep := brokenDependency(sdk)
			s.worker = func() Op {
				rt, req := newTransport(&callee{tally: s.tally()}, dep), clientRequest(s.inRequest(sdk))
				return func() error {
					_, err := rt.RoundTrip(req)
					return wantRefusal(err, ownership.ReasonBreakerOpen)
				}
			}
			return s
		}},
		{Path: openTransport, Who: Failsafe, open: func() *stage {
			s := new(stage)
			executor, breaker := failsafeHTTP(terms{}, time.Hour)
			breaker.Open()
			s.worker = func() Op {
				rt := failsafehttp.NewRoundTripperWithExecutor(&callee{tally: s.tally()}, executor)
				req := clientRequest(s.serverContext())
				return func() error {
					_, err := rt.RoundTrip(req)
					return wantWrapped(err, circuitbreaker.ErrOpen)
				}
			}
			return s
		}},
		{Path: openTransport, Who: ByHand, open: func() *stage {
			s := new(stage)
			breaker := gobreaker.NewCircuitBreaker[*http.Response](gobreaker.Settings{
				Timeout: time.Hour, ReadyToTrip: func(gobreaker.Counts) bool { return true },
			})
			breaker.Execute(func() (*http.Response, error) { return nil, errDown })
			s.worker = func() Op {
				rt := &handmade{&callee{tally: s.tally()}, breaker, terms{}}
				req := clientRequest(s.serverContext())
				return func() error {
					_, err := rt.RoundTrip(req)
					return wantWrapped(err, gobreaker.ErrOpenState)
				}
			}
			return s
		}},
		{Path: "refusal/budget_empty", Who: SDK, open: func() *stage { return emptyBudget(false) }},
		{Path: "refusal/budget_empty/with_error", Who: SDK, open: func() *stage { return emptyBudget(true) }},
	}
}

// brokenDependency returns a dependency whose breaker is open.
func brokenDependency(sdk *engine.SDK) *engine.Dependency {
	dep := dependency(sdk, "broken")
	fail := func(context.Context) error { return errDown }
	for range 2 { // the first fails and opens the breaker, the second is refused
		chainbudget.Do(context.Background(), (*chainbudget.Dependency)(dep), fail)
	}
	return dep
}

// emptyBudget refuses the retry of a call whose attempt has failed and whose chain has no token. With withError it also
// fills in the error that the caller gets, which wraps the attempt's. Its memory is part of what a call gets when its first
// attempt has failed: one allocation, made before the loop.
func emptyBudget(withError bool) *stage {
	s := new(stage)
	sdk := newSDK(emptyChain)
	dep := dependency(sdk, "endless")
	s.worker = func() Op {
		call := failedCall(s.inRequest(sdk), dep)
		return func() error {
			if call.Decide(call.Now()) {
				return errors.New("a retry was allowed")
			}
			if withError {
				return wantRefusal(call.Finish(), ownership.ReasonChainExhausted)
			}
			if d := call.Decision(); d.Reason != ownership.ReasonChainExhausted {
				return fmt.Errorf("refused: %v", d.Reason)
			}
			return nil
		}
	}
	return s
}

// failedCall returns a call whose first attempt has failed in a way that a retry may mend.
func failedCall(ctx context.Context, dep *engine.Dependency) *engine.Call {
	call := new(engine.Call)
	in, policy := dep.Enter(ctx)
	call.Begin(ctx, in, policy, engine.CallOptions{Idempotent: true, Replayable: true, Wireless: true})
	call.Admit(time.Now())
	call.Result = engine.Result{Err: errDown, Failed: true, Retryable: true}
	call.Result.Judge(dep)
	call.Done(time.Now())
	return call
}

func clientRequest(ctx context.Context) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		panic(err) // the constant target is wrong
	}
	return req
}

func wantRefusal(err error, reason ownership.Reason) error {
	denied, ok := err.(*chainbudget.DeniedError)
	if !ok || denied.Reason != reason {
		return fmt.Errorf("want a refusal by %v, have %w", reason, err)
	}
	return nil
}

func wantError(err, want error) error {
	if err != want {
		return fmt.Errorf("want %v, have %w", want, err)
	}
	return nil
}
