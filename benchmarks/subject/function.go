package subject

import (
	"context"
	"errors"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

var (
	errDown      = errors.New("down")
	errRetryable = chainbudget.Retryable(errDown)
)

// functions run a function that succeeds at once, or at the second attempt, or that fails and is not repeated because there
// is no budget for it.
func functions() []Subject {
	retry := functionCase{path: "do/one_retry", terms: terms{fails: true}, answers: alternating, catalog: catalog, profile: "retrying"}
	denied := functionCase{path: "do/denied", terms: terms{fails: true, refuses: true}, answers: failing, catalog: emptyChain, profile: "failing"}
	list := []Subject{{Path: "do", Who: SDK, open: func() *stage {
		s := new(stage)
		s.client = newSDK(catalog)
		dep := (*chainbudget.Dependency)(dependency(s.client, "plain"))
		s.worker = func() Op {
			ctx, f := s.inRequest(s.client), s.function(succeeding, false)
			fn := func(context.Context) error { return f() }
			return func() error { return chainbudget.Do(ctx, dep, fn, chainbudget.Idempotent()) }
		}
		return s
	}}}
	first := functionCase{path: "do"}
	return append(list, first.bare(), first.byHand(), first.failsafe(),
		retry.ofSDK(), retry.bare(), retry.byHand(), retry.failsafe(),
		denied.ofSDK(), denied.bare(), denied.byHand(), denied.failsafe())
}

// functionCase is how a function behaves and what meets it.
type functionCase struct {
	path    string
	terms   terms
	answers answers
	catalog string
	profile profiles.Name
}

// function is what is called. With waits it waits for a timer of no length where it is going to be called again.
func (s *stage) function(answers answers, waits bool) func() error {
	t := s.tally()
	return func() error {
		switch n := t.hit(); {
		case answers == succeeding, answers == alternating && n%2 == 0:
			return nil
		case answers == alternating && waits:
			<-time.NewTimer(0).C
		}
		return errRetryable
	}
}

// check demands what the operation should end with: failed is how a library says that the function failed for good.
func (c functionCase) check(err, failed error) error {
	if c.answers == failing {
		return wantWrapped(err, failed)
	}
	return err
}

// ofSDK makes each call in a chain of its own, whose making is part of the cost.
func (c functionCase) ofSDK() Subject {
	return Subject{Path: c.path, Who: SDK, open: func() *stage {
		s := new(stage)
		s.client = newSDK(c.catalog)
		dep := (*chainbudget.Dependency)(dependency(s.client, c.profile))
		s.worker = func() Op {
			parent, f := s.serverContext(), s.function(c.answers, true)
			fn := func(context.Context) error { return f() }
			return func() error {
				chain, ctx := s.client.Start(parent)
				defer chain.End()
				err := chainbudget.Do(ctx, dep, fn, chainbudget.Idempotent())
				if c.answers == failing {
					return wantRefusal(err, ownership.ReasonChainExhausted)
				}
				return err
			}
		}
		return s
	}}
}

func (c functionCase) bare() Subject {
	return Subject{Path: c.path, Who: Bare, open: func() *stage {
		s := new(stage)
		s.worker = func() Op {
			f := s.function(c.answers, true)
			if c.answers != alternating {
				return func() error { return c.check(f(), errDown) }
			}
			return func() error {
				if f() == nil {
					return errors.New("the first attempt succeeded")
				}
				return f()
			}
		}
		return s
	}}
}

func (c functionCase) byHand() Subject {
	return Subject{Path: c.path, Who: ByHand, open: func() *stage {
		s := new(stage)
		breaker := newGoBreaker[struct{}](c.terms)
		s.worker = func() Op {
			ctx, f := s.serverContext(), s.function(c.answers, false)
			fn := func() (struct{}, error) { return struct{}{}, f() }
			guarded := func() (struct{}, error) { return breaker.Execute(fn) }
			return func() error {
				_, err := retried(ctx, guarded, c.terms)
				return c.check(err, errDown)
			}
		}
		return s
	}}
}

func (c functionCase) failsafe() Subject {
	return Subject{Path: c.path, Who: Failsafe, open: func() *stage {
		s := new(stage)
		ratio, requests := c.terms.threshold()
		executor := failsafe.With(
			retrypolicy.NewBuilder[any]().WithMaxAttempts(3).WithBudget(c.terms.budget()).Build(),
			circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(ratio, requests, 10*time.Second).Build())
		s.worker = func() Op {
			run, fn := executor.WithContext(s.serverContext()), s.function(c.answers, false)
			return func() error { return c.check(run.Run(fn), budget.ErrExceeded) }
		}
		return s
	}}
}
