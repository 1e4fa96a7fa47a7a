package metrics

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// exposed makes an SDK whose numbers Prometheus scrapes with the function that comes with it.
func exposed(t *testing.T, service string) (*chainbudget.SDK, func() string) {
	t.Helper()
	sdk, err := chainbudget.New(service)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sdk.Close() })
	handler, err := Expose(sdk, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return sdk, func() string { return scrape(t, handler) }
}

// Code names services and dependencies as it likes. A name that was not UTF-8 once made every scrape fail, also of the
// application's own metrics.
func TestRegression_names_in_code_never_break_a_scrape(t *testing.T) {
	const hostile = "evil\xff\xc3(\"\n\\{}</script>\x00\u202e"
	for _, names := range [][2]string{{"checkout", hostile}, {hostile, "ledger"}, {hostile, hostile}, {"checkout", strings.Repeat("x", 10_000)}} {
		sdk, scraped := exposed(t, names[0])
		for _, name := range []string{names[1], "beside"} {
			dep, err := sdk.Dependency(name, profiles.LatencyCritical)
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := chainbudget.Start(context.Background(), sdk)
			_ = chainbudget.Do(ctx, dep, func(context.Context) error { return syscall.ECONNREFUSED }, chainbudget.Idempotent())
			end()
		}
		n := 0
		for line := range strings.SplitSeq(scraped(), "\n") {
			if strings.HasPrefix(line, "chainbudget_retries_total{") && strings.HasSuffix(line, "} 1") {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%.40q: the retries of %d dependencies can be read, want 2", names, n)
		}
	}
}

// A provider's own limit of series once took what more than 166 dependencies have into one without a name.
func TestRegression_many_dependencies_all_have_their_series(t *testing.T) {
	const many = 400
	sdk, scraped := exposed(t, "checkout")
	for i := range many {
		if _, err := sdk.Dependency(fmt.Sprintf("dependency-%d", i), profiles.LatencyCritical); err != nil {
			t.Fatal(err)
		}
	}
	body := scraped()
	if strings.Contains(body, "overflow") {
		t.Error("series overflow")
	}
	for i := range many {
		if name := fmt.Sprintf("chainbudget_dependency=%q", fmt.Sprintf("dependency-%d", i)); strings.Count(body, name) < 20 {
			t.Errorf("%s has %d series", name, strings.Count(body, name))
		}
	}
}
