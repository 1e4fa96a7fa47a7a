package metrics

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// stage is the service checkout, whose metrics a reader collects, and a callee that answers as a test wants.
type stage struct {
	t      *testing.T
	sdk    *chainbudget.SDK
	reader *sdkmetric.ManualReader
	file   string // the catalog's
	callee *httptest.Server
	pool   *http.Transport
	ledger *chainbudget.Dependency
	client *http.Client // of ledger

	registry *prometheus.Registry // sees what the reader does
}

func newStage(t *testing.T, catalog string, answer http.HandlerFunc) *stage {
	t.Helper()
	s := &stage{
		t: t, reader: sdkmetric.NewManualReader(), file: filepath.Join(t.TempDir(), "catalog.yaml"), pool: &http.Transport{},
		registry: prometheus.NewRegistry(),
	}
	s.write(catalog)
	sdk, err := chainbudget.New("checkout", chainbudget.WithCatalogFile(s.file))
	if err != nil {
		t.Fatal(err)
	}
	s.sdk = sdk
	t.Cleanup(func() { _ = sdk.Close() })
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(s.registry))
	if err != nil {
		t.Fatal(err)
	}
	if err := sdk.Instrument(sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader), sdkmetric.WithReader(exporter))); err != nil {
		t.Fatal(err)
	}
	if s.ledger, err = sdk.Dependency("ledger", "p"); err != nil {
		t.Fatal(err)
	}
	s.client = &http.Client{Transport: budgethttp.NewTransport(s.pool, s.ledger)}
	s.callee = httptest.NewServer(answer)
	t.Cleanup(s.callee.Close)
	t.Cleanup(s.pool.CloseIdleConnections)
	return s
}

// write puts a catalog where the SDK looks for it.
func (s *stage) write(catalog string) {
	s.t.Helper()
	if err := os.WriteFile(s.file, []byte("version: 1\n"+catalog), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// chain calls f with the context of a chain that begins here.
func (s *stage) chain(f func(ctx context.Context)) {
	ctx, end := chainbudget.Start(context.Background(), s.sdk)
	defer end()
	f(ctx)
}

// send sends a request to the callee, and returns the status, 0 for an error.
func (s *stage) send(ctx context.Context, method string, change ...func(*http.Request)) int {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.callee.URL+"/path", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range change {
		f(req)
	}
	return status(s.client.Do(req))
}

func status(resp *http.Response, err error) int {
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// get sends one GET within a chain of its own.
func (s *stage) get() { s.chain(func(ctx context.Context) { s.send(ctx, http.MethodGet) }) }

// arrive sends a request to a handler of checkout, with the headers given.
func (s *stage) arrive(handler http.HandlerFunc, headers map[string]string, options ...budgethttp.HandlerOption) {
	s.t.Helper()
	if handler == nil {
		handler = func(http.ResponseWriter, *http.Request) {}
	}
	server := httptest.NewServer(budgethttp.NewHandler(handler, s.sdk, options...))
	defer server.Close()
	req, err := http.NewRequest(http.MethodGet, server.URL, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	status(server.Client().Do(req))
}

// from is what a caller with the SDK sends.
func from(caller, digest string, nonce otelprop.Nonce) map[string]string {
	r := otelprop.Request{
		Grant: 2, Limit: 3, Hop: 4, Nonce: nonce, Entry: "shop", Caller: caller, Attempt: 1, Profile: "own", Digest: digest, Timeout: time.Second,
	}
	return map[string]string{otelprop.RequestHeader: r.Header(), otelprop.BaggageHeader: r.Member()}
}

// returns makes the callee's answer carry a return.
func returns(w http.ResponseWriter, r *http.Request, claim ownership.Claim, owner string) {
	in, _ := otelprop.ReadRequest(r.Header[otelprop.HTTPBaggageHeader], r.Header[otelprop.HTTPRequestHeader], 10)
	ret := otelprop.Return{Returned: in.Grant, Claim: claim, Nonce: in.Nonce, Owner: owner, Depth: 2}
	w.Header().Set(otelprop.ReturnHeader, string(ret.Append(nil)))
}

// readings are the values of one collection by name and attributes, without the service and without prefixes:
// "retries{dependency=ledger,entry=checkout,kind=retry,profile=p}".
type readings map[string]float64

func collect(t testing.TB, reader sdkmetric.Reader, service string) readings {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		t.Fatal(err)
	}
	all := readings{}
	for _, scope := range data.ScopeMetrics {
		if scope.Scope.Name != chainbudget.ScopeName {
			continue
		}
		if scope.Scope.Version != chainbudget.Version {
			t.Errorf("the scope's version is %q", scope.Scope.Version)
		}
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				add(t, all, m.Name, service, d.DataPoints)
			case metricdata.Sum[float64]:
				add(t, all, m.Name, service, d.DataPoints)
			case metricdata.Gauge[int64]:
				add(t, all, m.Name, service, d.DataPoints)
			case metricdata.Gauge[float64]:
				add(t, all, m.Name, service, d.DataPoints)
			default:
				t.Errorf("%s is a %T", m.Name, d)
			}
		}
	}
	return all
}

func add[N int64 | float64](t testing.TB, to readings, name, service string, points []metricdata.DataPoint[N]) {
	t.Helper()
	for _, p := range points {
		if v, _ := p.Attributes.Value(otelprop.AttrService); v.AsString() != service {
			t.Errorf("%s is of service %q", name, v.AsString())
		}
		var attributes []string
		for _, kv := range p.Attributes.ToSlice() {
			if kv.Key != otelprop.AttrService {
				attributes = append(attributes, strings.TrimPrefix(string(kv.Key), "chainbudget.")+"="+kv.Value.AsString())
			}
		}
		key := strings.TrimPrefix(name, "chainbudget.")
		if len(attributes) > 0 {
			slices.Sort(attributes)
			key += "{" + strings.Join(attributes, ",") + "}"
		}
		to[key] = float64(p.Value)
	}
}

// name is the instrument of a key.
func (r readings) name(key string) string {
	name, _, _ := strings.Cut(key, "{")
	return "chainbudget." + name
}

// standing are the instruments that are not zero from the start, and times, which differ from run to run. They are
// compared where a test says what they are.
var standing = regexp.MustCompile(`^(dependency\.info|breaker\.status|dependency_budget\.tokens|catalog\.generation|attempt\.(within|time))\b`)

// differences tells what is not as wanted: of all series that are not zero none may be missing in want. Where want leaves the
// profile out it is p.
func (r readings) differences(want readings) (list []string) {
	full := readings{}
	for key, v := range want {
		full[complete(key)] = v
	}
	for _, key := range slices.Sorted(maps.Keys(r)) {
		wanted, said := full[key]
		if r[key] != wanted && (said || !standing.MatchString(key)) {
			list = append(list, fmt.Sprintf("%s = %v, want %v", key, r[key], wanted))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(full)) {
		if _, there := r[key]; !there {
			list = append(list, fmt.Sprintf("%s is not there, want %v", key, full[key]))
		}
	}
	return list
}

// complete adds what most series have to a key whose attributes begin with "@": the dependency ledger and the profile p.
func complete(key string) string {
	name, rest, short := strings.Cut(key, "@")
	if !short {
		return key
	}
	attributes := []string{"dependency=ledger", "profile=p"}
	if rest != "" {
		attributes = append(attributes, strings.Split(rest, ",")...)
	}
	slices.Sort(attributes)
	return name + "{" + strings.Join(attributes, ",") + "}"
}

// documented returns the instruments of docs/metrics.md, with their Prometheus names.
func documented(t testing.TB) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(chainbudget[.a-z_]+)` `(chainbudget_[a-z_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		names[m[1]] = m[2]
	}
	if len(names) < 30 {
		t.Fatalf("the document has %d instruments", len(names))
	}
	return names
}

// eventually waits until f is true, for the catalog is followed by notifications.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	if !waited(30*time.Second, f) {
		t.Fatalf("never: %s", what)
	}
}

// waited waits for f to be true, and reports whether it ever was.
func waited(most time.Duration, f func() bool) bool {
	poll, end := time.NewTicker(2*time.Millisecond), time.NewTimer(most)
	defer poll.Stop()
	defer end.Stop()
	for !f() {
		select {
		case <-poll.C:
		case <-end.C:
			return false
		}
	}
	return true
}
