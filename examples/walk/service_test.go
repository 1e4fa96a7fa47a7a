package walk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// catalog has a profile for each gate that refuses by one.
const catalog = `
version: 1
chain: {budget: 9}
profiles:
  plain: {extends: read-heavy, retry: {max_attempts: 2, attempt_timeout: 0s}, backoff: {base: 10ms}, budget: disabled, breaker: disabled, availability_floor: 0%}
  brittle: {extends: plain, breaker: {window: 10s, failure_ratio: 1%, min_requests: 1, open_for: 10ms, probes: 1}}
  floored: {extends: plain, availability_floor: 60%}
  poor: {extends: plain, budget: {ratio: 1%, burst: 1}}
  slow: {extends: plain, process_budget: 1}
  hedging: {extends: plain, hedge: {after: 1ms, max: 1}}
dependencies:
  off: {profile: plain}
  mild: {profile: plain, mode: budget}
overrides: {dependencies: {off: {retries: disabled}}}
services:
  shop: {routes: {"GET /chain_exhausted": {budget: 0}}}
`

// fleet is an entry, shop, that calls a service with the SDK, ledger, and one without; and what is seen of them.
type fleet struct {
	t             *testing.T
	shop          *chainbudgettest.Recorder
	front         string
	ledger, plain string
	base          http.RoundTripper
	spans         *tracetest.InMemoryExporter
	metrics       *sdkmetric.ManualReader

	mu     sync.Mutex
	called map[string]int    // requests at plain, by path
	done   map[string]string // what became of each place of the walk
}

// walks are what shop's handler can do, by route.
type walks map[string]func(*fleet, context.Context, http.ResponseWriter) error

func newFleet(t *testing.T, places walks) *fleet {
	f := &fleet{
		t: t, spans: tracetest.NewInMemoryExporter(), metrics: sdkmetric.NewManualReader(),
		called: map[string]int{}, done: map[string]string{},
	}
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(f.spans))
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(f.metrics))
	base := http.DefaultTransport.(*http.Transport).Clone()
	f.base = base
	serve := func(service string, h http.Handler, options ...budgethttp.HandlerOption) (*chainbudgettest.Recorder, string) {
		named := otelhttp.WithSpanNameFormatter(func(service string, r *http.Request) string { return service + " " + r.URL.Path })
		rec := chainbudgettest.New(t, chainbudgettest.Service(service), chainbudgettest.Catalog(catalog))
		if err := rec.SDK.Instrument(meter); err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(otelhttp.NewHandler(budgethttp.NewHandler(h, rec.SDK, options...), service, otelhttp.WithTracerProvider(tracer), named))
		t.Cleanup(s.Close)
		return rec, s.URL
	}

	plain := httptest.NewServer(http.HandlerFunc(f.servePlain))
	t.Cleanup(plain.Close)
	f.plain = plain.URL

	var ledger *chainbudgettest.Recorder
	books := http.NewServeMux()
	books.HandleFunc("/claimed", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	books.HandleFunc("/stop", func(w http.ResponseWriter, r *http.Request) {
		ownership.Overloaded(r.Context())
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	books.HandleFunc("/works", func(http.ResponseWriter, *http.Request) {})
	books.HandleFunc("/settled", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK) // and the tokens go home
		f.note("settled", f.get(r.Context(), ledger.Dependency("store", "plain"), f.plain+"/503"))
	})
	books.Handle("/unclaimed", budgethttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		return f.get(r.Context(), ledger.Dependency("store", "plain"), f.plain+"/500")
	}))
	ledger, f.ledger = serve("ledger", books)

	mux := http.NewServeMux()
	for name, walk := range places {
		mux.Handle("GET /"+name, budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			err := walk(f, r.Context(), w)
			f.note(name, err)
			return err
		}))
	}
	f.shop, f.front = serve("shop", mux, budgethttp.Entry())
	t.Cleanup(base.CloseIdleConnections)
	return f
}

// note keeps what became of a place of the walk; what comes first counts.
func (f *fleet) note(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done[name] == "" {
		f.done[name] = fmt.Sprint(err)
	}
}

// servePlain is a service without the SDK.
func (f *fleet) servePlain(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.called[r.URL.Path]++
	n := f.called[r.URL.Path]
	f.mu.Unlock()
	switch r.URL.Path {
	case "/500":
		w.WriteHeader(http.StatusInternalServerError)
	case "/later": // by a time that the profile allows
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusServiceUnavailable)
	case "/tomorrow":
		w.Header().Set("Retry-After", "86400")
		w.WriteHeader(http.StatusTooManyRequests)
	case "/hangs":
		<-r.Context().Done()
	case "/hangs-once", "/fails-once":
		switch {
		case n > 1:
		case r.URL.Path == "/hangs-once":
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// arrived waits until plain has got a request for a path.
func (f *fleet) arrived(path string) {
	for {
		f.mu.Lock()
		n := f.called[path]
		f.mu.Unlock()
		if n > 0 {
			return
		}
		<-time.After(time.Millisecond)
	}
}

func (f *fleet) get(ctx context.Context, dep *chainbudget.Dependency, url string) error {
	return f.call(ctx, dep, http.MethodGet, url, nil)
}

// call makes one call. A failure that was answered is an error, too, and wraps the decision.
func (f *fleet) call(ctx context.Context, dep *chainbudget.Dependency, method, url string, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		f.t.Error(err)
		return err
	}
	resp, err := budgethttp.NewTransport(f.base, dep).RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if denied := budgethttp.Denied(resp); denied != nil {
		return denied
	}
	return nil
}

// to is a walk that makes calls of one profile until one fails, n at most.
func to(profile profiles.Name, n int, url func(*fleet) string) func(*fleet, context.Context, http.ResponseWriter) error {
	return func(f *fleet, ctx context.Context, _ http.ResponseWriter) error {
		var errs []error
		for range n {
			errs = append(errs, f.get(ctx, f.shop.Dependency("by-"+string(profile), profile), url(f)))
		}
		return errors.Join(errs...)
	}
}

func plain(path string) func(*fleet) string  { return func(f *fleet) string { return f.plain + path } }
func ledger(path string) func(*fleet) string { return func(f *fleet) string { return f.ledger + path } }

// onceOnly is a body that cannot be read again.
type onceOnly struct{ io.Reader }

func body(text string) io.Reader { return onceOnly{strings.NewReader(text)} }
