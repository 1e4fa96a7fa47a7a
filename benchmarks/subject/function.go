package subject

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

var errDown = errors.New("down")

func wantOK(status int) error {
	if status != http.StatusOK {
		return fmt.Errorf("status %d", status)
	}
	return nil
}

// functions run a function that succeeds at once.
func functions() []Subject {
	const path = "do"
	return []Subject{
		{Path: path, Who: SDK, open: func() *stage {
			s := new(stage)
			sdk := newSDK(catalog)
			dep := (*chainbudget.Dependency)(dependency(sdk, "plain"))
			s.worker = func() Op {
				ctx := s.inRequest(sdk)
				fn := func(context.Context) error { return nil }
				return func() error { return chainbudget.Do(ctx, dep, fn, chainbudget.Idempotent()) }
			}
			return s
		}},
		{Path: path, Who: ByHand, open: func() *stage {
			s := new(stage)
			breaker := newGoBreaker[struct{}]()
			s.worker = func() Op {
				ctx := s.serverContext()
				fn := func() (struct{}, error) { return struct{}{}, nil }
				guarded := func() (struct{}, error) { return breaker.Execute(fn) }
				return func() error {
					_, err := backoff.Retry(ctx, guarded, backoff.WithBackOff(newBackOff()), backoff.WithMaxTries(3))
					return err
				}
			}
			return s
		}},
		{Path: path, Who: Failsafe, open: func() *stage {
			s := new(stage)
			executor := failsafe.With(
				retrypolicy.NewBuilder[any]().WithMaxAttempts(3).WithBudget(roomyBudget()).Build(),
				circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(0.5, 20, 10*time.Second).Build())
			s.worker = func() Op {
				run := executor.WithContext(s.serverContext())
				fn := func() error { return nil }
				return func() error { return run.Run(fn) }
			}
			return s
		}},
	}
}
