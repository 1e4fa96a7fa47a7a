package polyglot

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// steady is read-heavy without a limit for an attempt and without gates that depend on load.
const steady = "steady"

const catalog = `
version: 1
profiles:
  steady:
    extends: read-heavy
    retry: {attempt_timeout: 0s}
    budget: disabled
    breaker: disabled
    availability_floor: 0%
`

func newSDK(t *testing.T, service string) *chainbudgettest.Recorder {
	t.Helper()
	return chainbudgettest.New(t, chainbudgettest.Service(service), chainbudgettest.Catalog(catalog))
}

func newBase(t *testing.T) *http.Transport {
	base := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// journal is what arrived at one server.
type journal struct {
	mu   sync.Mutex
	seen []http.Header
}

func (j *journal) note(r *http.Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = append(j.seen, r.Header.Clone())
}

func (j *journal) all() []http.Header {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.seen)
}

// wire is what a request brought.
func wire(h http.Header) otelprop.Request {
	r, _ := otelprop.ReadRequest(h.Values(otelprop.BaggageHeader), h.Values(otelprop.RequestHeader), otelprop.MaxTokens)
	return r
}

// serve runs a handler behind a journal until the test ends.
func serve(t *testing.T, h http.Handler) (string, *journal) {
	t.Helper()
	j := new(journal)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j.note(r) // before the handler strips it
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, j
}

// newFailing starts a service with the SDK that answers every request with 503.
func newFailing(t *testing.T, name string) (string, *journal) {
	t.Helper()
	return serve(t, budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}), newSDK(t, name).SDK))
}

// newCaller starts a service with the SDK that asks another one and answers as that does.
func newCaller(t *testing.T, name, callee, url string, options ...budgethttp.HandlerOption) (string, *journal, *chainbudgettest.Recorder) {
	t.Helper()
	rec := newSDK(t, name)
	client := budgethttp.NewTransport(newBase(t), rec.Dependency(callee, steady))
	caller, j := serve(t, budgethttp.NewHandler(budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.RoundTrip(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		return nil
	}), rec.SDK, options...))
	return caller, j, rec
}

// ask makes a plain request and returns the status.
func ask(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := newBase(t).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// of are an SDK's numbers about one dependency.
func of(rec *chainbudgettest.Recorder, name string) chainbudget.DependencyTotals {
	return rec.SDK.Totals().Dependencies[name]
}
