package subject

import (
	"context"
	"errors"
	"net/http"

	"github.com/failsafe-go/failsafe-go/budget"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// failure is what calls meet whose first attempt fails.
type failure struct {
	path    string
	terms   terms
	answers answers
	catalog string
	profile profiles.Name
	status  int // that the caller gets in the end
}

// retries are calls whose first attempt fails and whose second succeeds. No side draws a delay. The other libraries arm a
// timer of no length before the second attempt; the SDK and the bare operation arm none, so that their callee does.
func retries() []Subject {
	f := failure{
		path: "transport/one_retry", terms: terms{fails: true}, answers: alternating,
		catalog: catalog, profile: "retrying", status: http.StatusOK,
	}
	twice := func(s *stage) layer {
		return layer{context: s.serverContext, wrap: func(base http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				resp, err := base.RoundTrip(req)
				if err != nil || !failed(resp.StatusCode) {
					return resp, err
				}
				resp.Body.Close()
				return base.RoundTrip(req)
			})
		}}
	}
	return []Subject{
		f.ofSDK(), f.of(Bare, twice), f.of(Failsafe, failsafeOn(f.terms)), f.of(RetryableHTTP, retryableOn(f.terms)),
		f.of(ByHand, byHandOn(f.terms)),
	}
}

// denials are calls that fail and are not repeated, so that the caller gets the 503: because there is no budget for a
// retry, or because the callee has said that nobody should repeat it. Libraries without a budget are set to one attempt;
// those without a claim to read look at a header.
func denials() []Subject {
	poor := failure{
		path: "transport/denied", terms: terms{fails: true, refuses: true}, answers: failing,
		catalog: emptyChain, profile: "failing", status: http.StatusServiceUnavailable,
	}
	told := failure{
		path: "transport/denied/unclaimed", terms: terms{fails: true, forbids: true}, answers: forbidding,
		catalog: catalog, profile: "failing", status: http.StatusServiceUnavailable,
	}
	var list []Subject
	for _, f := range []failure{poor, told} {
		list = append(list, f.ofSDK(), f.of(Bare, bare), f.of(Failsafe, failsafeOn(f.terms)),
			f.of(RetryableHTTP, retryableOn(f.terms)), f.of(ByHand, byHandOn(f.terms)))
	}
	return list
}

// ofSDK makes each call in a chain of its own, whose making is part of the cost: a chain's tokens would not last for more
// retries, and a request that repeats what has failed in it is another case.
func (f failure) ofSDK() Subject {
	return Subject{Path: f.path, Who: SDK, open: func() *stage {
		s := new(stage)
		s.client = newSDK(f.catalog)
		dep := dependency(s.client, f.profile)
		s.worker = func() Op {
			rt, parent := newTransport(&callee{tally: s.tally(), answers: f.answers, waits: f.answers == alternating}, dep), s.serverContext()
			return func() error {
				chain, ctx := s.client.Start(parent)
				defer chain.End()
				return getStatus(ctx, rt, nil, f.status)
			}
		}
		return s
	}}
}

func (f failure) of(who string, open func(*stage) layer) Subject {
	return Subject{Path: f.path, Who: who, open: func() *stage {
		s := new(stage)
		l := open(s)
		s.worker = func() Op {
			rt := l.wrap(&callee{tally: s.tally(), answers: f.answers, waits: who == Bare && f.answers == alternating})
			ctx := l.context()
			return func() error {
				err := getStatus(ctx, rt, nil, f.status)
				if who == Failsafe && f.terms.refuses { // its way to refuse: the response is lost
					return wantWrapped(err, budget.ErrExceeded)
				}
				return err
			}
		}
		return s
	}}
}

func wantWrapped(err, want error) error {
	if !errors.Is(err, want) {
		return wantError(err, want)
	}
	return nil
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// chains are the making and ending of a chain alone, which is part of what a call costs that fails.
func chains() []Subject {
	return []Subject{{Path: "chain", Who: SDK, open: func() *stage {
		s := new(stage)
		s.client = newSDK(catalog)
		s.worker = func() Op {
			parent := s.serverContext()
			return func() error {
				chain, ctx := s.client.Start(parent)
				defer chain.End()
				return context.Cause(ctx)
			}
		}
		return s
	}}}
}
