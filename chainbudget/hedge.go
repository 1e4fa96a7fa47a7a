package chainbudget

import (
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// leg is one run of a function that may run beside itself.
type leg[T any] struct {
	call
	fn    function[T]
	value T
	err   error
}

// Leg implements [engine.Racer].
func (l *leg[T]) Leg() *engine.Call { return &l.Call }

// Run implements [engine.Racer].
func (l *leg[T]) Run() {
	l.begun = time.Now()
	l.value, l.err = runAttempt(&l.call, l.fn)
}

// Discard implements [engine.Racer].
func (l *leg[T]) Discard() {}

// hedge runs fn, and runs it again beside itself while it does not return.
func hedge[T any](c *call, fn function[T]) (T, error) {
	next := func() (engine.Racer, error) {
		l := &leg[T]{fn: fn}
		l.classify = c.classify
		return l, nil
	}
	first, _ := next()
	l := c.Race(first, next).(*leg[T])
	return l.value, l.err
}
