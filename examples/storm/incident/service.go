package incident

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/examples/storm/loopback"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// ServiceCounts are the counters of Grab or Go.
type ServiceCounts struct {
	Name string `json:"name"`
	// Received is the payments that users asked for; OK and Failed are how they were answered.
	Received int64 `json:"received"`
	OK       int64 `json:"ok"`
	Failed   int64 `json:"failed"`
	// Refused is the payments that the service's breaker refused before anything was sent.
	Refused int64 `json:"refused_by_breaker"`
}

// payment is a service's record of one request.
type payment struct {
	arrived, ended time.Duration // since the start of the run; ended is 0 while it is not answered
	ok             bool
}

// service is Grab or Go: it answers a payment by one call to the ledger.
type service struct {
	name    string
	start   time.Time
	handler http.Handler // what the policy makes of a payment
	breaker bool         // whether the policy has one

	mu       sync.Mutex
	counts   ServiceCounts
	payments []*payment
	refusals []time.Duration
}

// ServeHTTP counts and passes on.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := &payment{arrived: time.Since(s.start)}
	s.mu.Lock()
	s.counts.Received++
	s.payments = append(s.payments, p)
	s.mu.Unlock()
	status := statusWriter{ResponseWriter: w, status: http.StatusOK}
	s.handler.ServeHTTP(&status, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	p.ended, p.ok = time.Since(s.start), status.status < 400
	if p.ok {
		s.counts.OK++
	} else {
		s.counts.Failed++
	}
}

// refused counts a payment that the breaker refused.
func (s *service) refused() {
	now := time.Since(s.start)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Refused++
	s.refusals = append(s.refusals, now)
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ask makes the request to the ledger for a payment.
func ask(ctx context.Context, caller, ledger, id string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ledger, strings.NewReader(id))
	if err != nil {
		return nil, err
	}
	req.Header.Set(paymentHeader, id)
	req.Header.Set(callerHeader, caller)
	return req, nil
}

// errFailed is a 503 from the ledger, where a policy wants an error.
var errFailed = errors.New("the ledger failed")

// once sends one attempt without the SDK.
func once(ctx context.Context, client *http.Client, caller, ledger, id string) error {
	req, err := ask(ctx, caller, ledger, id)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	loopback.Discard(resp)
	if resp.StatusCode >= 400 {
		return errFailed
	}
	return nil
}

// policy is what a team made of a payment before.
type policy func(s *service, client *http.Client, ledger string) http.Handler

// before is a service on its own policy. The SDK, if there is one, is below it.
func (w *world) before(s *service, ledger string, base http.RoundTripper, own policy) (http.Handler, error) {
	if w.catalog == "" {
		return own(s, &http.Client{Transport: base}, ledger), nil
	}
	sdk, err := w.sdk(s.name)
	if err != nil {
		return nil, err
	}
	dep, err := sdk.Dependency("ledger", profiles.NoRetry)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: budgethttp.NewTransport(base, dep)}
	return budgethttp.NewHandler(own(s, client, ledger), sdk, budgethttp.Entry()), nil
}

// The two policies before.
const (
	grabAttempts = 6
	grabPause    = 20 * time.Millisecond
	goFailures   = 3 * grabAttempts // that open Go's breaker
	goWindow     = 10 * time.Second
	goOpenFor    = time.Second
)

// grabBefore is Grab's own policy: up to five retries, always 20 ms apart.
func grabBefore(s *service, client *http.Client, ledger string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(paymentHeader)
		for attempt := range grabAttempts {
			if attempt > 0 {
				select {
				case <-time.After(grabPause):
				case <-r.Context().Done(): // nobody waits for the answer any more
					w.WriteHeader(http.StatusGatewayTimeout)
					return
				}
			}
			if once(r.Context(), client, s.name, ledger, id) == nil {
				return
			}
		}
		w.WriteHeader(http.StatusBadGateway)
	})
}

// goBefore is Go's own policy: no retries, and a breaker that opens after 18 failures within a rolling ten seconds, for
// exactly one second.
func goBefore(s *service, client *http.Client, ledger string) http.Handler {
	breaker := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: "ledger", Interval: goWindow, BucketPeriod: goWindow / 10, Timeout: goOpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.TotalFailures >= goFailures },
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := breaker.Execute(func() (struct{}, error) {
			return struct{}{}, once(r.Context(), client, s.name, ledger, r.Header.Get(paymentHeader))
		})
		if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
			s.refused()
		}
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
}

// after is both services' policy on the SDK. The profile named here loses to the one that the catalog pins.
func (w *world) after(s *service, ledger string, base http.RoundTripper, named profiles.Name) (http.Handler, error) {
	sdk, err := w.sdk(s.name, chainbudget.WithObserver(func(e chainbudget.Event) {
		if e.Attempt == 0 && e.Reason == ownership.ReasonBreakerOpen {
			s.refused()
		}
	}))
	if err != nil {
		return nil, err
	}
	dep, err := sdk.Dependency("ledger", named)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: budgethttp.NewTransport(base, dep)}
	handler := budgethttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		req, err := ask(r.Context(), s.name, ledger, r.Header.Get(paymentHeader))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		loopback.Discard(resp)
		if denied := budgethttp.Denied(resp); denied != nil {
			return denied
		}
		return nil
	})
	return budgethttp.NewHandler(handler, sdk, budgethttp.Entry()), nil
}
