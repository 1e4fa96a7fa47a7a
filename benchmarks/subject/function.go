package subject

import (
	"context"
	"errors"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

var (
	errDown      = errors.New("down")
	errRetryable = chainbudget.Retryable(errDown)
)

// function is what is called: it returns nil, or a failure and nil in turn.
func (s *stage) function(answers answers, waits bool) func() error {
	t := s.tally()
	return func() error {
		if n := t.hit(); answers == succeeding || n%2 == 0 {
			return nil
		}
		if waits {
			<-time.NewTimer(0).C
		}
		return errRetryable
	}
}

// functions run a function that succeeds at once, or at the second attempt.
func functions() []Subject {
	const first, retry = "do", "do/one_retry"
	failing := terms{fails: true}
	return []Subject{
		{Path: first, Who: SDK, open: func() *stage {
			s := new(stage)
			s.client = newSDK(catalog)
			dep := (*chainbudget.Dependency)(dependency(s.client, "plain"))
			s.worker = func() Op {
				ctx, f := s.inRequest(s.client), s.function(succeeding, false)
				fn := func(context.Context) error { return f() }
				return func() error { return chainbudget.Do(ctx, dep, fn, chainbudget.Idempotent()) }
			}
			return s
		}},
		{Path: first, Who: Bare, open: func() *stage {
			s := new(stage)
			s.worker = func() Op { return s.function(succeeding, false) }
			return s
		}},
		functionByHand(first, terms{}, succeeding), functionFailsafe(first, terms{}, succeeding),

		{Path: retry, Who: SDK, open: func() *stage {
			s := new(stage)
			s.client = newSDK(catalog)
			dep := (*chainbudget.Dependency)(dependency(s.client, "retrying"))
			s.worker = func() Op {
				parent, f := s.serverContext(), s.function(alternating, true)
				fn := func(context.Context) error { return f() }
				return func() error {
					chain, ctx := s.client.Start(parent)
					defer chain.End()
					return chainbudget.Do(ctx, dep, fn, chainbudget.Idempotent())
				}
			}
			return s
		}},
		{Path: retry, Who: Bare, open: func() *stage {
			s := new(stage)
			s.worker = func() Op {
				f := s.function(alternating, true)
				return func() error {
					if f() == nil {
						return errors.New("the first attempt succeeded")
					}
					return f()
				}
			}
			return s
		}},
		functionByHand(retry, failing, alternating), functionFailsafe(retry, failing, alternating),
	}
}

func functionByHand(path string, t terms, answers answers) Subject {
	return Subject{Path: path, Who: ByHand, open: func() *stage {
		s := new(stage)
		breaker := newGoBreaker[struct{}](t)
		s.worker = func() Op {
			ctx, f := s.serverContext(), s.function(answers, false)
			fn := func() (struct{}, error) { return struct{}{}, f() }
			guarded := func() (struct{}, error) { return breaker.Execute(fn) }
			return func() error {
				_, err := retried(ctx, guarded, t)
				return err
			}
		}
		return s
	}}
}

func functionFailsafe(path string, t terms, answers answers) Subject {
	return Subject{Path: path, Who: Failsafe, open: func() *stage {
		s := new(stage)
		ratio, requests := t.threshold()
		executor := failsafe.With(
			retrypolicy.NewBuilder[any]().WithMaxAttempts(3).WithBudget(t.budget()).Build(),
			circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(ratio, requests, 10*time.Second).Build())
		s.worker = func() Op {
			run, fn := executor.WithContext(s.serverContext()), s.function(answers, false)
			return func() error { return run.Run(fn) }
		}
		return s
	}}
}
