package stormlab

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// checkExpect reports thresholds that no run, or every run, would keep.
func (s *Scenario) checkExpect(f *findings, names []string) {
	for i := range s.Expect {
		e := &s.Expect[i]
		at := fmt.Sprintf("expect[%d]", i)
		known := slices.Contains(metrics, e.Metric)
		f.given(known, at+".metric", fmt.Sprintf("%.48q is no metric", e.Metric), missing, "write one of "+listed(words(metrics)))
		switch {
		case e.Metric == MetricLoad:
			f.named(names, e.Service, at+".service", "is missing: load needs a service")
		case e.Service != "" && (e.Metric == MetricSuccess || e.Metric == MetricRetries || !known):
			f.known(names, e.Service, at+".service")
		default:
			f.need(e.Service == "", at+".service", "this metric is the whole fleet's", "remove it")
		}
		if e.Variant != "" {
			f.need(slices.ContainsFunc(s.Variants, func(v Variant) bool { return v.Name == e.Variant }), at+".variant",
				fmt.Sprintf("%.48q is no variant", e.Variant), "name one of the variants, or leave it out for each")
		}
		s.window(f, e.From, e.Until, at)
		s.checkIntervals(f, e, at)
		f.bounds(e, at)
		f.need(len(e.Shows) <= maxShows && strings.IndexFunc(e.Shows, unprintable) < 0, at+".shows", "is no line of text",
			fmt.Sprintf("write up to %d bytes, without line breaks", maxShows))
	}
}

// checkIntervals reports a window in which no interval of the timeline begins: nothing would be counted in it.
func (s *Scenario) checkIntervals(f *findings, e *Threshold, at string) {
	interval := s.interval()
	if interval <= 0 || s.Duration <= 0 || e.From < 0 || e.From >= s.Duration || e.Until != 0 && e.Until <= e.From {
		return // which is said already
	}
	first := (e.From + interval - 1) / interval * interval // not more than 24h and an interval
	if until := s.until(e.Until); first >= until {
		where := at + ".from"
		if e.Until != 0 {
			where = at + ".until"
		}
		*f = append(*f, finding{
			at: where, what: fmt.Sprintf("no interval of the timeline begins from %v until %v", e.From, until),
			fix: fmt.Sprintf("use multiples of the interval, %v", interval), rests: "interval",
		})
	}
}

// until is when something ends: 0 and what is past the end of the traffic are that end.
func (s *Scenario) until(t time.Duration) time.Duration {
	if t == 0 {
		return s.Duration
	}
	return min(t, s.Duration)
}

// bounds checks those of a threshold.
func (f *findings) bounds(e *Threshold, at string) {
	f.along(e.Min != nil || e.Max != nil, at, at+".max", "has no bound", "set min, max or both")
	for _, bound := range []struct {
		key   string
		value *float64
	}{{".min", e.Min}, {".max", e.Max}} {
		switch v := bound.value; {
		case v == nil:
		case !(*v >= 0):
			f.add(at+bound.key, fmt.Sprintf("%v is out of range", *v), "no metric is below 0: use 0 or more")
		case e.Metric == MetricSuccess && *v > 1:
			f.add(at+bound.key, fmt.Sprintf("%v is more than all requests, %v %%", *v, 100**v), fmt.Sprintf("success is a share: use 0 to 1, or 0%% to 100%%%s", meant(*v)))
		}
	}
	if e.Min != nil && e.Max != nil && *e.Min > *e.Max {
		f.add(at+".min", fmt.Sprintf("%v is above max, %v", *e.Min, *e.Max), "use a min up to max")
	}
}

// meant says what a share above 1 may have been meant to be.
func meant(v float64) string {
	if v > 100 {
		return ""
	}
	return fmt.Sprintf(", such as %v%%", v)
}
