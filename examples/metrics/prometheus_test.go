package metrics

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/profiles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A service with a registry of client_golang shows the SDK's numbers in it by one call.
func TestExpose(t *testing.T) {
	sdk, err := chainbudget.New("checkout")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sdk.Close() })
	registry := prometheus.NewRegistry()
	handler, err := Expose(sdk, registry)
	if err != nil {
		t.Fatal(err)
	}
	callee := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	t.Cleanup(callee.Close)
	ledger, err := sdk.Dependency("ledger", profiles.LatencyCritical)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: budgethttp.NewTransport(nil, ledger)}
	t.Cleanup(client.CloseIdleConnections)
	ctx, end := chainbudget.Start(context.Background(), sdk)
	defer end()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, callee.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()

	scraped := scrape(t, handler)
	for _, want := range []string{
		`(?m)^chainbudget_attempts_total\{chainbudget_dependency="ledger",chainbudget_profile="latency-critical",chainbudget_service="checkout",[^}]*\} 2`,
		`(?m)^chainbudget_retries_total\{chainbudget_dependency="ledger",chainbudget_entry="checkout",chainbudget_kind="retry",chainbudget_profile="latency-critical",chainbudget_service="checkout",[^}]*\} 1`,
	} {
		if !regexp.MustCompile(want + "$").MatchString(scraped) {
			t.Errorf("what Prometheus scrapes does not match\n%s\nbut is\n%s", want, scraped)
		}
	}
}

func scrape(t *testing.T, handler http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err)
	}
	return string(body)
}
