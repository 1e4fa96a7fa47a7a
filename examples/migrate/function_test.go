package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/examples/page"
)

var errDown = errors.New("no rates today")

type fetch = func(context.Context) (float64, error)

// A functionSide is one column of a page about functions.
type functionSide struct {
	// service returns how one service calls a function, within a request of a user if it is an entry.
	service func() (call func(context.Context, fetch) (float64, error), request func(context.Context, func(context.Context)))
	// down is how a function says that a failure may go away.
	down error
}

func functionSides(t *testing.T, catalog string, before func() func(context.Context, fetch) (float64, error),
	after func(context.Context, *chainbudget.Dependency, fetch) (float64, error)) [2]functionSide {
	return [2]functionSide{
		{func() (func(context.Context, fetch) (float64, error), func(context.Context, func(context.Context))) {
			return before(), func(ctx context.Context, work func(context.Context)) { work(ctx) }
		}, errDown},
		{func() (func(context.Context, fetch) (float64, error), func(context.Context, func(context.Context))) {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(catalog), chainbudgettest.Sleep())
			rates := rec.Dependency("rates", "rates")
			call := func(ctx context.Context, f fetch) (float64, error) { return after(ctx, rates, f) }
			return call, func(ctx context.Context, work func(context.Context)) {
				handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { work(r.Context()) })
				budgethttp.NewHandler(handler, rec.SDK, budgethttp.Entry()).
					ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			}
		}, chainbudget.Retryable(errDown)},
	}
}

// A functionQuestion is a row of a page about functions.
type functionQuestion struct {
	what string
	ask  func(t *testing.T, side functionSide) string
}

func measureFunctions(t *testing.T, both [2]functionSide, questions []functionQuestion) (rows []page.Row) {
	for _, q := range questions {
		var cells [2]string
		for i, side := range both {
			synctest.Test(t, func(t *testing.T) { cells[i] = q.ask(t, side) })
		}
		rows = append(rows, page.Row{What: q.what, Before: cells[0], After: cells[1]})
	}
	return rows
}

// runs makes a number of requests, each with one call of a function that fails with err, and returns how often it ran and what
// the last call gave.
func (s functionSide) runs(t *testing.T, requests int, err error) (runs int, last error) {
	call, request := s.service()
	for range requests {
		request(t.Context(), func(ctx context.Context) {
			_, last = call(ctx, func(context.Context) (float64, error) {
				runs++
				return 0, err
			})
		})
	}
	return runs, last
}

func TestBackoffPage(t *testing.T) {
	p := readPage(t, "backoff")
	before := func() func(context.Context, fetch) (float64, error) { return rateWithBackoff }
	p.Compare(t, measureFunctions(t, functionSides(t, p.Catalog, before, rateAfterBackoff), []functionQuestion{
		{"a plain error, always: runs", func(t *testing.T, side functionSide) string {
			runs, _ := side.runs(t, 1, errDown)
			return fmt.Sprint(runs)
		}},
		{"a timeout, always: runs", func(t *testing.T, side functionSide) string {
			runs, _ := side.runs(t, 1, fmt.Errorf("rates: %w", context.DeadlineExceeded))
			return fmt.Sprint(runs)
		}},
		{"an error that may go away (after: in `chainbudget.Retryable`), always: runs", func(t *testing.T, side functionSide) string {
			runs, _ := side.runs(t, 1, side.down)
			return fmt.Sprint(runs)
		}},
		{"a function that does so, called by one that does so: runs of the inner one for one request", func(t *testing.T, side functionSide) string {
			runs := 0
			call, request := side.service()
			request(t.Context(), func(ctx context.Context) {
				_, _ = call(ctx, func(ctx context.Context) (float64, error) {
					return call(ctx, func(context.Context) (float64, error) {
						runs++
						return 0, side.down
					})
				})
			})
			return fmt.Sprint(runs)
		}},
		{"two calls of one request, one after the other, both always failing: runs", func(t *testing.T, side functionSide) string {
			runs := 0
			call, request := side.service()
			request(t.Context(), func(ctx context.Context) {
				for range 2 {
					_, _ = call(ctx, func(context.Context) (float64, error) {
						runs++
						return 0, side.down
					})
				}
			})
			return fmt.Sprint(runs)
		}},
		{"200 requests, one after another, always failing: runs", func(t *testing.T, side functionSide) string {
			runs, _ := side.runs(t, 200, side.down)
			return fmt.Sprint(runs)
		}},
		{"the function hangs until its context ends, and the request has no deadline: first run is stopped after", func(t *testing.T, side functionSide) string {
			const patience = time.Hour
			call, request := side.service()
			stopped := time.Duration(0)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			begun := time.Now()
			request(context.WithoutCancel(ctx), func(inner context.Context) {
				inner, end := context.WithCancel(inner) // what stands for the operator who gives up in the end
				defer context.AfterFunc(ctx, end)()
				_, _ = call(inner, func(ctx context.Context) (float64, error) {
					<-ctx.Done()
					if stopped == 0 {
						stopped = time.Since(begun)
					}
					return 0, ctx.Err()
				})
			})
			if stopped == patience {
				return "never"
			}
			return fmt.Sprint(stopped)
		}},
		{"the error that is returned: `errors.Is` finds the function's own", func(t *testing.T, side functionSide) string {
			_, err := side.runs(t, 1, side.down)
			return fmt.Sprint(errors.Is(err, errDown))
		}},
		{"it says why there was no further run", func(t *testing.T, side functionSide) string {
			_, err := side.runs(t, 1, side.down)
			if denied, ok := errors.AsType[*chainbudget.DeniedError](err); ok {
				return "`" + denied.Reason.String() + "`"
			}
			return fmt.Sprintf("`%v`", err)
		}},
	}))
}

func TestGobreakerPage(t *testing.T) {
	p := readPage(t, "gobreaker")
	before := func() func(context.Context, fetch) (float64, error) {
		b := breakerOfRates()
		return func(ctx context.Context, f fetch) (float64, error) { return rateWithGobreaker(ctx, b, f) }
	}
	p.Compare(t, measureFunctions(t, functionSides(t, p.Catalog, before, rateAfterGobreaker), []functionQuestion{
		{"200 requests, one after another, always failing: runs", func(t *testing.T, side functionSide) string {
			runs, _ := side.runs(t, 200, errDown)
			return fmt.Sprint(runs)
		}},
		{"100 users go away while the function runs; runs in the next 10 requests", func(t *testing.T, side functionSide) string {
			call, request := side.service()
			for range 100 {
				request(t.Context(), func(ctx context.Context) {
					ctx, cancel := context.WithCancel(ctx)
					_, _ = call(ctx, func(ctx context.Context) (float64, error) {
						cancel()
						<-ctx.Done()
						return 0, ctx.Err()
					})
				})
			}
			runs := 0
			for range 10 {
				request(t.Context(), func(ctx context.Context) {
					_, _ = call(ctx, func(context.Context) (float64, error) { runs++; return 1, nil })
				})
			}
			return fmt.Sprint(runs)
		}},
		{"the same dependency is down for twenty processes: after it has opened, they let a call through", func(t *testing.T, side functionSide) string {
			var first, last time.Duration
			for i := range 20 {
				call, request := side.service()
				run := func() (ran bool) {
					request(t.Context(), func(ctx context.Context) {
						_, _ = call(ctx, func(context.Context) (float64, error) { ran = true; return 0, errDown })
					})
					return ran
				}
				for run() {
				}
				opened := time.Now()
				for !run() {
					time.Sleep(10 * time.Millisecond)
				}
				took := time.Since(opened)
				if i == 0 {
					first, last = took, took
				}
				first, last = min(first, took), max(last, took)
			}
			if last-first <= 10*time.Millisecond {
				return fmt.Sprintf("all after %v", first.Round(time.Second))
			}
			if first < 4*time.Second || last > 6*time.Second+10*time.Millisecond {
				return fmt.Sprintf("between %v and %v", first, last)
			}
			return "each at another time, 4 s to 6 s"
		}},
		{"half-open, ten calls at once: runs", func(t *testing.T, side functionSide) string {
			call, request := side.service()
			for range 30 {
				request(t.Context(), func(ctx context.Context) {
					_, _ = call(ctx, func(context.Context) (float64, error) { return 0, errDown })
				})
			}
			time.Sleep(7 * time.Second)
			runs := make(chan bool, 10)
			for range 10 {
				go request(t.Context(), func(ctx context.Context) {
					_, _ = call(ctx, func(context.Context) (float64, error) {
						runs <- true
						time.Sleep(100 * time.Millisecond)
						return 1, nil
					})
				})
			}
			synctest.Wait()
			got := len(runs)
			time.Sleep(time.Second)
			return fmt.Sprint(got)
		}},
		{"all probes hang until their context ends, and the requests have no deadline: an hour later a call", func(t *testing.T, side functionSide) string {
			call, request := side.service()
			for range 30 {
				request(t.Context(), func(ctx context.Context) {
					_, _ = call(ctx, func(context.Context) (float64, error) { return 0, errDown })
				})
			}
			time.Sleep(7 * time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			for range 3 {
				go request(ctx, func(ctx context.Context) {
					_, _ = call(ctx, func(ctx context.Context) (float64, error) {
						<-ctx.Done()
						return 0, ctx.Err()
					})
				})
			}
			time.Sleep(time.Hour)
			ran := false
			request(t.Context(), func(ctx context.Context) {
				_, _ = call(ctx, func(context.Context) (float64, error) { ran = true; return 1, nil })
			})
			cancel()
			synctest.Wait()
			if ran {
				return "runs"
			}
			return "is refused"
		}},
		{"open: the error", func(t *testing.T, side functionSide) string {
			_, err := side.runs(t, 200, errDown)
			if open, ok := errors.AsType[*breaker.OpenError](err); ok && open.RetryIn() > 0 {
				return "a `*breaker.OpenError` with the dependency's name and the time left"
			}
			if errors.Is(err, gobreaker.ErrOpenState) {
				return "`gobreaker.ErrOpenState`"
			}
			return err.Error()
		}},
		{"closed, the function fails: `errors.Is` finds its error", func(t *testing.T, side functionSide) string {
			_, err := side.runs(t, 1, errDown)
			return fmt.Sprint(errors.Is(err, errDown))
		}},
	}))
}
