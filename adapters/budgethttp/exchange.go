package budgethttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// exchange is the state of one call over HTTP.
type exchange struct {
	engine.Call
	base     http.RoundTripper
	req      *http.Request // the caller's, never written
	external bool
	early    bool // a 425 was answered with a retry: not again
	freed    bool // a replay that net/http wanted went on without a lease: not again
	current  *attempt
	first    attempt // part of the exchange, so that a call without retries allocates once
	denied   *chainbudget.DeniedError
}

type exchangeKey struct{}

// errNeither stands in for a base that breaks its contract.
var errNeither = errors.New("chainbudget: the base RoundTripper returned neither a response nor an error")

func roundTrip(base http.RoundTripper, dep *engine.Dependency, req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	in, policy := dep.Enter(ctx)
	if policy.Mode() == profiles.ModeBypass || req.URL == nil {
		return base.RoundTrip(req)
	}
	if ctx.Err() != nil {
		closeBody(req)
		return nil, context.Cause(ctx)
	}
	mayRepeat, replays := idempotent(req), replayable(req)
	if refused := policy.Refusal(ctx, in, mayRepeat && replays); refused != nil {
		closeBody(req)
		return nil, refused
	}
	x := &exchange{base: base, req: req, external: policy.External(req.URL.Host)}
	exact, shape := operation(req)
	x.Begin(ctx, in, policy, engine.CallOptions{
		Operation:  exact,
		Shape:      shape,
		Idempotent: mayRepeat,
		Replayable: replays,
		External:   x.external,
		Alone:      len(req.Trailer) > 0, // each sending of the body would write the caller's map
	})
	if pass := x.Pass(ctx); pass != nil {
		return base.RoundTrip(req.WithContext(pass))
	}
	return x.run()
}

// run makes attempts until one succeeds or a gate refuses.
func (x *exchange) run() (*http.Response, error) {
	body := x.req.Body
	now := x.Now()
	reason, err := x.Admit(now)
	for {
		if reason != ownership.ReasonAllowed {
			closeReader(body)
			x.Refuse(reason, err)
			return nil, x.finish()
		}
		resp, failure := x.attempt(now, body)
		if !x.Result.Failed && !x.Result.Canceled {
			return resp, failure
		}
		next, ok := x.again(resp)
		free := !ok && x.letReplay()
		if !free && x.Inner() {
			return resp, failure
		}
		if free {
			next, err = x.rewind()
			free = err == nil
		}
		if !ok && !free {
			return x.giveUp(resp)
		}
		body, now = next, x.Now()
		if free {
			x.current.Release()
			reason, err = x.Repeat(now)
		} else {
			reason, err = x.Admit(now)
		}
	}
}

// attempt makes the admitted attempt, with others beside it where the profile hedges.
func (x *exchange) attempt(now time.Time, body io.ReadCloser) (*http.Response, error) {
	if x.CanHedge() {
		return x.hedge(body)
	}
	return x.try(now, body)
}

// letReplay reports whether the request goes on once more for nothing and without a lease: net/http wanted to replay it
// on another connection, which was stopped only because it carried a lease. Refusing it now would fail a request that
// succeeds without the SDK.
func (x *exchange) letReplay() bool {
	if !x.current.watch.Stopped() || x.current.watch.RefusedTwice() || x.freed || x.Parent().Err() != nil {
		return false
	}
	x.freed = true
	return true
}

// again decides about another attempt, takes the body that it will send, gives up the response of the failed one, and
// sleeps. Until it knows that there is a next attempt it leaves the response alone.
func (x *exchange) again(resp *http.Response) (body io.ReadCloser, ok bool) {
	if x.Inner() || !x.Decide(x.Now()) || !x.Await() {
		return nil, false
	}
	defer func() {
		if !ok { // the caller's GetBody or the base's body may have panicked; all else has given back already
			x.Abandon()
		}
	}()
	body, err := x.rewind()
	if err != nil {
		x.Result.Err = errors.Join(x.Result.Err, err)
		x.Refuse(ownership.ReasonNotReplayable, err)
		return nil, false
	}
	if resp != nil {
		x.current.drain(resp)
	}
	x.current.Release()
	if !x.Backoff() {
		closeReader(body)
		return nil, false
	}
	return body, true
}

// rewind returns a fresh body for the next attempt.
func (x *exchange) rewind() (io.ReadCloser, error) {
	if x.req.Body == nil || x.req.Body == http.NoBody {
		return x.req.Body, nil
	}
	return x.req.GetBody()
}

// finish ends the call and remembers why.
func (x *exchange) finish() *chainbudget.DeniedError {
	x.denied = x.Finish()
	if x.current != nil {
		x.current.x.denied = x.denied // of a call that hedges, the response belongs to one attempt's exchange
	}
	return x.denied
}

// giveUp returns the last attempt's outcome: a response as it came, with a nil error, or the error.
func (x *exchange) giveUp(resp *http.Response) (*http.Response, error) {
	denied := x.finish()
	if resp != nil && !x.current.drained {
		return resp, nil
	}
	x.current.Release()
	// The caller went away, perhaps during the backoff: the error says so beside what the attempt came to.
	for _, gone := range [...]error{context.Cause(x.Parent()), x.Parent().Err()} {
		if gone != nil && !errors.Is(denied.Err, gone) {
			denied.Err = errors.Join(gone, denied.Err)
		}
	}
	return nil, denied
}
