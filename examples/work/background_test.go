package work

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// busy returns a function that calls a dependency which always fails, and counts how often it is asked.
func busy(rec *chainbudgettest.Recorder) (call func(context.Context) error, runs *int) {
	ledger := rec.Dependency("ledger", "ledger")
	runs = new(int)
	return func(ctx context.Context) error {
		return chainbudget.Do(ctx, ledger, func(context.Context) error {
			*runs++
			return chainbudget.Retryable(errors.New("busy"))
		}, chainbudget.Idempotent())
	}, runs
}

func TestWorkAfterTheResponseHasAChainOfItsOwn(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler func(rec *chainbudgettest.Recorder, running *sync.WaitGroup, work func(context.Context)) http.Handler
		want    int
		reason  ownership.Reason
	}{
		{"start", func(rec *chainbudgettest.Recorder, running *sync.WaitGroup, work func(context.Context)) http.Handler {
			return accept(rec.SDK, running, work)
		}, 4, ownership.ReasonMaxAttempts},
		{"without_cancel_alone", func(_ *chainbudgettest.Recorder, running *sync.WaitGroup, work func(context.Context)) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx := context.WithoutCancel(r.Context())
				running.Go(func() { work(ctx) })
				w.WriteHeader(http.StatusAccepted)
			})
		}, 1, ownership.ReasonSettled},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(readHeavyWithoutBreaker))
			call, runs := busy(rec)
			answered := make(chan struct{})
			var running sync.WaitGroup
			var ctxErr error
			handler := test.handler(rec, &running, func(ctx context.Context) {
				<-answered
				ctxErr = ctx.Err()
				_ = call(ctx)
			})
			server := httptest.NewServer(budgethttp.NewHandler(handler, rec.SDK, budgethttp.Entry()))
			defer server.Close()
			resp, err := http.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			server.Close() // the request's context has ended
			close(answered)
			running.Wait()
			if *runs != test.want || ctxErr != nil {
				t.Errorf("%d runs (%v), want %d", *runs, ctxErr, test.want)
			}
			if reasons := rec.Reasons(); len(reasons) == 0 || reasons[len(reasons)-1] != test.reason {
				t.Errorf("decided %v, want %v in the end", reasons, test.reason)
			}
		})
	}
}

func TestEachRunOfAJobHasAChainOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := chainbudgettest.New(t, chainbudgettest.Catalog(readHeavyWithoutBreaker), chainbudgettest.Sleep())
		call, runs := busy(rec)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Second)
		defer cancel()
		var each []int
		every(ctx, rec.SDK, time.Minute, func(ctx context.Context) {
			*runs = 0
			_ = call(ctx)
			each = append(each, *runs)
		})
		if !slices.Equal(each, []int{4, 4, 4}) {
			t.Errorf("the runs asked %v times, want one and three retries each", each)
		}
	})
}

func TestAJobThatHangsEndsBeforeTheNextIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := chainbudgettest.New(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+30*time.Second)
		defer cancel()
		begun := 0
		every(ctx, rec.SDK, time.Minute, func(ctx context.Context) {
			begun++
			<-ctx.Done()
		})
		if begun != 5 {
			t.Errorf("%d runs in five and a half minutes, want 5", begun)
		}
	})
}
