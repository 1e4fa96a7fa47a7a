package otelstack

import (
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

// steady is read-heavy without a limit for an attempt, so that a slow machine changes nothing.
const steady = "steady"

const catalog = `
version: 1
profiles:
  steady: {extends: read-heavy, retry: {attempt_timeout: 0s}}
`

func newSDK(t *testing.T, service string) *chainbudgettest.Recorder {
	t.Helper()
	return chainbudgettest.New(t, chainbudgettest.Service(service), chainbudgettest.Catalog(catalog))
}

// newBase returns a transport of the test's own.
func newBase(t *testing.T) http.RoundTripper {
	base := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// sighting is one request as it arrived.
type sighting struct {
	members []string         // ours in the baggage, as they stand there
	foreign []string         // everybody else's, sorted
	header  otelprop.Request // what the request header says
	lines   int              // request header lines
	raw     http.Header
}

func see(r *http.Request) sighting {
	s := sighting{raw: r.Header.Clone(), lines: len(r.Header.Values(otelprop.RequestHeader))}
	for _, line := range r.Header.Values(otelprop.BaggageHeader) {
		for m := range strings.SplitSeq(line, ",") {
			switch key, _, _ := strings.Cut(m, "="); {
			case strings.TrimSpace(m) == "":
			case strings.TrimSpace(key) == otelprop.MemberKey:
				s.members = append(s.members, strings.TrimSpace(m))
			default:
				s.foreign = append(s.foreign, strings.TrimSpace(m))
			}
		}
	}
	slices.Sort(s.foreign)
	s.header, _ = otelprop.ReadRequest(nil, r.Header.Values(otelprop.RequestHeader), otelprop.MaxTokens)
	return s
}

// clean reports whether nothing of ours arrived.
func (s sighting) clean() bool { return len(s.members) == 0 && s.lines == 0 }

// journal is what arrived at one server, in order.
type journal struct {
	mu   sync.Mutex
	seen []sighting
}

func (j *journal) note(r *http.Request) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = append(j.seen, see(r))
	return len(j.seen)
}

func (j *journal) all() []sighting {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.seen)
}

func (j *journal) only(t *testing.T) sighting {
	t.Helper()
	seen := j.all()
	if len(seen) != 1 {
		t.Fatalf("%d requests arrived, want 1", len(seen))
	}
	return seen[0]
}

// grants are the tokens that each request brought in its request header.
func grants(seen []sighting) []int {
	var g []int
	for _, s := range seen {
		g = append(g, int(s.header.Grant))
	}
	return g
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// newPlain starts a server without the SDK that answers 200.
func newPlain(t *testing.T) (string, *journal) {
	t.Helper()
	j := new(journal)
	return serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { j.note(r) })), j
}

// newCallee starts a service with the SDK that answers 503 to its first failures requests and 200 to the rest.
func newCallee(t *testing.T, name string, failures int) (string, *journal, *chainbudget.SDK) {
	t.Helper()
	j := new(journal)
	sdk := newSDK(t, name).SDK
	h := budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(j.all()) <= failures {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}), sdk)
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j.note(r) // before the handler strips it
		h.ServeHTTP(w, r)
	})), j, sdk
}

// send makes one GET and discards the answer, which it returns for its status and headers.
func send(t *testing.T, client http.RoundTripper, req *http.Request) *http.Response {
	t.Helper()
	resp, err := client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}
