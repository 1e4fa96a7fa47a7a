package proxies

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// steady is read-heavy without a limit for an attempt and without gates that depend on load, so that a slow machine
// changes nothing.
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

// newSDK makes the SDK of a service, with more lines of the catalog where a test needs them.
func newSDK(t *testing.T, service string, more ...string) *chainbudgettest.Recorder {
	t.Helper()
	return chainbudgettest.New(t, chainbudgettest.Service(service), chainbudgettest.Catalog(catalog+strings.Join(more, "\n")))
}

// entry is the hop before the proxy. Its chain begins when it is made.
type entry struct {
	*chainbudgettest.Recorder
	ctx    context.Context
	base   *http.Transport
	client http.RoundTripper
	url    string
}

func newEntry(t *testing.T, address string, more ...string) *entry {
	t.Helper()
	e := &entry{Recorder: newSDK(t, "shop", more...), base: http.DefaultTransport.(*http.Transport).Clone(), url: "http://" + address + "/orders"}
	t.Cleanup(e.base.CloseIdleConnections)
	// net/http repeats requests of its own on connections that it uses again; those are not the proxy's.
	e.base.DisableKeepAlives = true
	e.client = budgethttp.NewTransport(e.base, e.Dependency("ledger", steady))
	e.begin(t)
	return e
}

// begin starts another chain.
func (e *entry) begin(t *testing.T) {
	ctx, end := chainbudget.Start(t.Context(), e.SDK)
	t.Cleanup(end)
	e.ctx = ctx
}

// send makes one call through the proxy.
func (e *entry) send(t *testing.T, method string, header ...string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(e.ctx, method, e.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := e.client.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	return resp, err
}

// ledger are the entry's numbers about the other side of the proxy.
func (e *entry) ledger() chainbudget.DependencyTotals { return e.SDK.Totals().Dependencies["ledger"] }

// sighting is one request as it arrived behind the proxy.
type sighting struct {
	instance int
	method   string
	header   []string // chainbudget lines
	baggage  []string // baggage lines
	other    http.Header
	wire     otelprop.Request
}

// instances are the instances of the service behind the proxy, each with an SDK of its own, and a leaf that they call.
type instances struct {
	addresses []string
	sdks      []*chainbudgettest.Recorder

	mu   sync.Mutex
	seen []sighting
}

// arrival is one request in the hands of an instance.
type arrival struct {
	w http.ResponseWriter
	r *http.Request
	n int // how many requests arrived at all instances, this one included
	// call calls the leaf, which always fails, and answers with its status.
	call func() int
}

// newInstances starts n instances that answer as they are told.
func newInstances(t *testing.T, n int, answer func(arrival) error) *instances {
	t.Helper()
	s := new(instances)
	leaf := newSDK(t, "leaf")
	leafServer := httptest.NewServer(budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}), leaf.SDK))
	t.Cleanup(leafServer.Close)
	base := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(base.CloseIdleConnections)
	for i := range n {
		rec := newSDK(t, "ledger")
		client := budgethttp.NewTransport(base, rec.Dependency("leaf", steady))
		h := budgethttp.NewHandler(budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			s.mu.Lock()
			n := len(s.seen)
			s.mu.Unlock()
			return answer(arrival{w: w, r: r, n: n, call: func() int {
				req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, leafServer.URL, nil)
				if err != nil {
					t.Error(err)
					return 0
				}
				resp, err := client.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return 0
				}
				resp.Body.Close()
				return resp.StatusCode
			}})
		}), rec.SDK)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.note(i, r) // before the handler strips it
			h.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		s.addresses = append(s.addresses, strings.TrimPrefix(server.URL, "http://"))
		s.sdks = append(s.sdks, rec)
	}
	return s
}

func (s *instances) note(instance int, r *http.Request) {
	saw := sighting{instance: instance, method: r.Method, other: r.Header.Clone()}
	saw.header = slices.Clone(r.Header.Values(otelprop.RequestHeader))
	saw.baggage = slices.Clone(r.Header.Values(otelprop.BaggageHeader))
	saw.wire, _ = otelprop.ReadRequest(saw.baggage, saw.header, otelprop.MaxTokens)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, saw)
}

func (s *instances) all() []sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// sent is how often each attempt of the entry arrived, in the order of the attempts.
func (s *instances) sent() []int {
	var times []int
	var last otelprop.Nonce
	for i, saw := range s.all() {
		if i == 0 || saw.wire.Nonce != last {
			times = append(times, 0)
		}
		times[len(times)-1]++
		last = saw.wire.Nonce
	}
	return times
}

// total sums a number over all instances.
func (s *instances) total(number func(chainbudget.Totals) int64) int64 {
	var sum int64
	for _, rec := range s.sdks {
		sum += number(rec.SDK.Totals())
	}
	return sum
}

// breakConnection ends the connection of a request without an answer.
func breakConnection(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset
	}
	conn.Close()
}
