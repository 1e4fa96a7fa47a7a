package engine

import (
	"context"
	"sync/atomic"
)

// pass is the leave to pass a call's wire on, given from one inner layer to the next, of whatever adapter. It is of one
// request, so that a repetition between two layers finds it used.
type pass struct {
	call *Call
	used atomic.Bool
}

type passKey struct{}

// Pass returns the context in which an inner layer sends the request as it is, because the layer above has written this
// attempt's wire and reads its return; nil = this layer writes a wire of its own, as for a repetition of a request that was
// passed on before. I7.
func (c *Call) Pass(ctx context.Context) context.Context {
	outer := c.outer
	if outer == nil {
		return nil
	}
	leave := false
	if p, _ := ctx.Value(passKey{}).(*pass); p != nil && p.call == outer {
		leave = !p.used.Swap(true)
	} else {
		leave = outer.written.Swap(false)
	}
	if !leave {
		return nil
	}
	return context.WithValue(ctx, passKey{}, &pass{call: outer})
}
