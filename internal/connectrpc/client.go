package connectrpc

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Client is a client's side of an interceptor.
type Client[E interface {
	error
	comparable
}] struct {
	Dependency *engine.Dependency
	errors     *Errors[E]
	idempotent []string
	unreadable error // of every call, where warnings are errors
	methods    rpc.Methods[Method]
	refused    atomic.Pointer[CallError[E]] // the latest of Policy.Refusal
}

// NewClient returns the client's side of an interceptor. idempotent lists procedures that may run twice; what cannot be read
// in it is warned of as part of option.
func NewClient[E interface {
	error
	comparable
}](dep *engine.Dependency, errors *Errors[E], option string, idempotent []string) *Client[E] {
	c := &Client[E]{Dependency: dep, errors: errors}
	var err error
	if c.idempotent, err = rpc.Patterns(idempotent); err == nil {
		return c
	}
	what := fmt.Sprintf("chainbudget: %s cannot be read and is left out", option)
	sdk := dep.SDK()
	sdk.Warn("connect-option:"+dep.Name(), what, "dependency", dep.Name(), "problems", err.Error())
	if sdk.Strict() {
		// Connect has no option that is an error.
		c.unreadable = errors.New(codeInternal, fmt.Errorf("%s: dependency %.64s: %w", what, dep.Name(), err))
	}
	return c
}

// Enter begins a call of a procedure. passes says that the SDK has no part in it.
func (c *Client[E]) Enter(ctx context.Context, procedure string) (in *engine.Inbound, policy *engine.Policy, passes bool) {
	in, policy = c.Dependency.Enter(ctx)
	return in, policy, policy.Mode() == profiles.ModeBypass || rpc.Probe(procedure)
}

// Refusal is the error of a call that does not begin: its context has ended, or the breaker refuses. repeatable says that it
// could have been retried.
func (c *Client[E]) Refusal(ctx context.Context, in *engine.Inbound, policy *engine.Policy, repeatable bool) error {
	if err := ctx.Err(); err != nil {
		return c.errors.New(ContextCode(err), err)
	}
	if c.unreadable != nil {
		return c.unreadable
	}
	denied := policy.Refusal(ctx, in, repeatable)
	if denied == nil {
		return nil
	}
	// Many such calls come while a breaker is open, all with one decision.
	if e := c.refused.Load(); e != nil && e.denied == denied {
		return e
	}
	e := c.errors.of(denied, c.errors.New(refusalCode(denied.Reason), denied))
	c.refused.Store(e)
	return e
}

// Known returns what is known about a procedure, or nil.
func (c *Client[E]) Known(procedure string) *Method { return c.methods.Find(procedure) }

// Learn remembers a procedure: declared is whether its definition says that it may run twice, sideEffects that running it
// may change something.
func (c *Client[E]) Learn(procedure string, kind Kind, declared, sideEffects bool, identify func(uint64, any) uint64) *Method {
	return c.methods.Keep(procedure, &Method{
		Shape:      rpc.Shape(procedure),
		Kind:       kind,
		Idempotent: declared || rpc.Listed(procedure, c.idempotent),
		MayGet:     !sideEffects && kind == Unary,
		Identify:   identify,
	})
}
