package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// panel is one plot. A panel with states shows bands of colored states and not lines.
type panel struct {
	title, about string
	width        uint32 // of 24
	unit         string
	limit        float64 // a line to compare with; 0 = none
	stacked      bool
	states       []state
	queries      []query
}

// state is a word and a color for one value of a panel with states.
type state struct{ value, word, color string }

func (p *panel) build(id uint32) cog.Builder[dashboard.Panel] {
	if p.states != nil {
		return p.bands().Id(id)
	}
	return p.lines().Id(id)
}

// height of every panel, so that three rows of them fill a screen.
const height = 8

func (p *panel) lines() *timeseries.PanelBuilder {
	b := timeseries.NewPanelBuilder().
		Title(p.title).Description(p.about).Datasource(source).Height(height).Span(p.width).
		Unit(p.unit).Min(0).FillOpacity(8).LineWidth(2).ShowPoints(common.VisibilityModeNever).
		Legend(legend()).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.stacked {
		b.FillOpacity(40).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	}
	if p.limit > 0 {
		b.Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps([]dashboard.Threshold{
			{Color: "green"}, {Value: cog.ToPtr(p.limit), Color: "red"},
		})).ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
	}
	for i, q := range p.queries {
		b.WithTarget(q.build(i))
	}
	return b
}

func (p *panel) bands() *statetimeline.PanelBuilder {
	mapping := dashboard.NewValueMap()
	for i, s := range p.states {
		mapping.Options[s.value] = dashboard.ValueMappingResult{Text: cog.ToPtr(s.word), Color: cog.ToPtr(s.color), Index: cog.ToPtr(int32(i))}
	}
	b := statetimeline.NewPanelBuilder().
		Title(p.title).Description(p.about).Datasource(source).Height(height).Span(p.width).
		ShowValue(common.VisibilityModeAuto).MergeValues(true).RowHeight(0.8).
		Mappings([]dashboard.ValueMapping{{ValueMap: mapping}}).
		Legend(legend())
	for i, q := range p.queries {
		b.WithTarget(q.build(i))
	}
	return b
}

func legend() *common.VizLegendOptionsBuilder {
	return common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true)
}
