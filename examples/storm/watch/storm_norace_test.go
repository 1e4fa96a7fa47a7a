//go:build !race

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

const dashboardFile = "../../../dashboards/grafana/chainbudget.json"

// timed is a stage that remembers when the load began.
type timed struct {
	*stage
	began time.Time
}

func (s *timed) Ready(ctx context.Context) error {
	err := s.stage.Ready(ctx)
	s.began = time.Now()
	return err
}

// The storm before the eyes of a real Prometheus. What it can be asked is what the ledger counted on its own side. A machine
// that stops for a while loses scrapes and requests, so that one more run counts then.
func TestPrometheusSeesTheStorm_NoRace(t *testing.T) {
	const stopped = 250 // milliseconds
	for range 3 {
		problems, stalled := show(t)
		if len(problems) == 0 {
			return
		}
		if stalled < stopped {
			t.Fatal(strings.Join(problems, "\n"))
		}
		t.Logf("the machine stopped for %.0f ms: %s", stalled, strings.Join(problems, "\n"))
	}
	t.Error("the machine stopped in each of three runs")
}

// show plays one round and asks. It returns what is wrong, and for how long the machine stopped.
func show(t *testing.T) (problems []string, stalled float64) {
	stage, err := newStage(t.Context(), func(error) {}, t.TempDir(), rulesFolder)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stage.close(); err != nil {
			t.Error(err)
		}
	}()
	s := &timed{stage: stage}
	settings := incident.Settings{Rate: 200, Duration: 12 * time.Second, Budget: 3, Seed: 1, Blips: blips, Watcher: s}
	r, err := incident.Run(t.Context(), settings, t.TempDir(), func(incident.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	p := ask{t, stage.prometheus.URL, &problems}
	for _, side := range []*incident.Side{&r.Before, &r.After} {
		p.counts(side)
	}
	if share := p.number(`max(max_over_time(chainbudget:error_share:ratio_rate2m[5m]))`); share < 0.5 || share > 1 {
		p.problem("the largest share of failures is %v, want at least half in the fault, and no more than there is", share)
	}
	fault, healed := s.began.Add(settings.Duration/4), s.began.Add(settings.Duration*5/8)
	p.alerts(s.began, fault, healed)
	p.dashboard(healed.Add(-time.Second))
	if len(problems) > 0 {
		t.Logf("prometheus said:\n%s", stage.prometheus.said)
	}
	return problems, r.Stalled
}

// counts compares with the counters of the servers.
func (p ask) counts(side *incident.Side) {
	for _, service := range side.Services {
		edge := fmt.Sprintf(`environment=%q, chainbudget_service=%q, chainbudget_dependency="ledger"`, side.Name, service.Name)
		asked := service.Received
		if side.Name == incident.Before {
			asked -= service.Refused // by its own breaker, before the SDK
		}
		sent, retried := side.Ledger.ByCaller[service.Name], side.Ledger.RetriesByCaller[service.Name]
		p.t.Logf("%s, %s: %d calls, %d requests arrived, %d of them retries", side.Name, service.Name, asked, sent, retried)
		if service.Name == "grab" && retried == 0 {
			p.problem("%s: grab made no retry to count", side.Name)
		}
		p.equal(`sum(last_over_time({__name__=~"chainbudget_retries_total|chainbudget_repeated_calls_total", `+edge+`}[5m]))`, retried)
		p.equal(`sum(last_over_time(chainbudget_attempts_total{`+edge+`}[5m]))`, sent)
		p.equal(`sum(last_over_time(chainbudget_calls_total{`+edge+`}[5m])) - sum(last_over_time(chainbudget_repeated_calls_total{`+edge+`}[5m]))`, asked)
		p.within(`max(last_over_time(chainbudget:amplification:ratio_rate1h{`+edge+`}[5m]))`, float64(sent)/float64(asked), 0.02)
	}
	p.equal(fmt.Sprintf(`sum(last_over_time(chainbudget_requests_total{environment=%q, chainbudget_service="ledger"}[5m]))`, side.Name), side.Ledger.Arrivals)
}

// alerts asks who was woken, and when.
func (p ask) alerts(began, fault, healed time.Time) {
	storm := func(run string) []moment {
		return p.history(fmt.Sprintf(`ALERTS{alertname="ChainbudgetStormStarting", alertstate="firing", chainbudget_dependency="ledger", environment=%q}`, run), began)
	}
	if before := storm(incident.Before); len(before) == 0 {
		p.problem("ChainbudgetStormStarting did not fire before")
	} else {
		p.t.Logf("it fired %s after the fault began", before[0].at.Sub(fault).Round(100*time.Millisecond))
		if first := before[0].at; first.Before(fault) || first.After(healed) {
			p.problem("ChainbudgetStormStarting fired %s after the start, want in the fault, from %s to %s", first.Sub(began), fault.Sub(began), healed.Sub(began))
		}
	}
	if after := storm(incident.After); len(after) > 0 {
		p.problem("ChainbudgetStormStarting fired after as well, %s after the start", after[0].at.Sub(began))
	}
}

// dashboard asks each expression of the dashboard as Grafana would: what has no condition shows something, and what is at the
// top of the screen both runs.
func (p ask) dashboard(at time.Time) {
	for i, panel := range panels(p.t) {
		for _, target := range panel.Targets {
			runs := map[string]bool{}
			for _, one := range p.samples(filledIn(target.Expr), at) {
				runs[one.Metric["environment"]] = true
			}
			if len(runs) == 0 && !strings.Contains(target.Expr, " > ") {
				p.problem("the panel %q shows nothing for %s", panel.Title, target.Expr)
			}
			if i < 3 && panel.Title != "Retries" && (!runs[incident.Before] || !runs[incident.After]) {
				p.problem("the panel %q shows %v, want both runs", panel.Title, runs)
			}
			if panel.Title == "Retries" && target.RefID == "B" && !runs[incident.Before] {
				p.problem("the panel %q does not show the loop around the SDK", panel.Title)
			}
		}
	}
}

// panel is a panel of the dashboard.
type panel struct {
	Title   string
	Targets []struct{ RefID, Expr string }
}

// panels reads those that show something.
func panels(t *testing.T) (list []panel) {
	t.Helper()
	data, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var board struct{ Panels []panel }
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		if len(p.Targets) > 0 {
			list = append(list, p)
		}
	}
	if len(list) < 10 {
		t.Fatalf("%d panels in %s, it has more", len(list), dashboardFile)
	}
	return list
}

// filledIn is an expression as Grafana sends it when everything is picked.
func filledIn(expr string) string {
	return strings.NewReplacer("$__rate_interval", "5s", "$cluster", ".*", "$environment", ".*", "$service", ".*", "$dependency", ".*").Replace(expr)
}
