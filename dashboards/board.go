package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// source is the Prometheus that the reader picks.
var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// board puts the panels onto one screen: retries, latency and errors beside each other, by caller and callee, and below them
// what explains them. It is of the classic schema, which every Grafana imports; the second one is for the newest only.
//
//lint:ignore SA1019 see above
func board() *dashboard.DashboardBuilder {
	//lint:ignore SA1019 see above
	b := dashboard.NewDashboardBuilder("Retries and budgets").
		Uid("chainbudget").
		Description("Retries beside latency and errors, by caller and callee. Metrics of chainbudget-go; the recording rules are in dashboards/prometheus.").
		Tags([]string{"chainbudget", "retries"}).
		Time("now-30m", "now").
		Refresh("10s").
		Timezone(common.TimeZoneBrowser).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Runbook").Type(dashboard.DashboardLinkTypeLink).TargetBlank(true).
			Url("https://github.com/chainbudget/chainbudget-go/blob/main/docs/runbook.md")).
		Link(dashboard.NewDashboardLinkBuilder("What the metrics mean").Type(dashboard.DashboardLinkTypeLink).TargetBlank(true).
			Url("https://github.com/chainbudget/chainbudget-go/blob/main/docs/metrics.md")).
		Annotation(dashboard.NewAnnotationQueryBuilder().Name("Alerts").Datasource(source).Enable(true).IconColor("red").
			Expr(`ALERTS{alertname=~"Chainbudget.+", alertstate="firing"}`).TitleFormat("{{alertname}}").
			TextFormat("{{chainbudget_service}} {{chainbudget_dependency}} {{chainbudget_entry}}")).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		WithVariable(choice("cluster", "Cluster", "cluster")).
		WithVariable(choice("environment", "Environment", "environment")).
		WithVariable(choice("service", "Caller", "chainbudget_service")).
		WithVariable(choice("dependency", "Callee", "chainbudget_dependency"))
	id := uint32(0) // a panel keeps its number, and so the links to it, as long as nothing is put before it
	for _, r := range rows {
		id++
		b.WithRow(dashboard.NewRowBuilder(r.title).Id(id))
		for _, p := range r.panels {
			id++
			b.WithPanel(p.build(id))
		}
	}
	return b
}

// choice is a variable with the values that a label has. All of them is every value, none included.
func choice(name, label, of string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(source).
		Query(dashboard.StringOrMap{String: cog.ToPtr("label_values(chainbudget_attempts_total, " + of + ")")}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).
		IncludeAll(true).
		AllValue(".*").
		Current(dashboard.VariableOption{
			Text: dashboard.StringOrArrayOfString{String: cog.ToPtr("All")}, Value: dashboard.StringOrArrayOfString{String: cog.ToPtr("$__all")},
		})
}

// query is one expression of a panel and how its lines are called.
type query struct{ expr, legend string }

// build makes the i-th query of a panel.
func (q query) build(i int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).Datasource(source).Expr(q.expr).LegendFormat(q.legend).Range()
}
