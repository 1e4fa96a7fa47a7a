package stormlab

// verdict measures a threshold.
func (s *Scenario) verdict(e *Threshold, variant string, l *ledger, visits [][]float64) Verdict {
	k := -1
	for i := range s.Services {
		if s.Services[i].Name == e.Service {
			k = i
		}
	}
	made := Verdict{
		Variant: variant, Metric: e.Metric, Service: e.Service, From: e.From.Seconds(), Until: e.Until.Seconds(), Min: e.Min, Max: e.Max, Shows: e.Shows,
	}
	if v, ok := s.sum(l, e.From, e.Until, visits).measure(e.Metric, k); ok {
		v = round(v)
		made.Measured = &v
		made.OK = (e.Min == nil || v >= *e.Min) && (e.Max == nil || v <= *e.Max)
	}
	return made
}

// measure returns the value of a metric, of service k where that is not below 0, or false where there was nothing to measure: a 0 would
// keep to any upper bound.
func (t *sums) measure(m Metric, k int) (v float64, ok bool) {
	of := func(part, whole int64) (float64, bool) { return share(part, whole), whole > 0 }
	switch m {
	case MetricSuccess:
		if k >= 0 {
			return of(t.services[k].arrivals-t.services[k].failed, t.services[k].arrivals)
		}
		return of(t.good, t.good+t.failed)
	case MetricLoad:
		return per(float64(t.services[k].arrivals), t.expected[k]), t.expected[k] > 0
	case MetricRetries:
		var retries int64
		for i := range t.services {
			if k < 0 || k == i {
				retries += t.services[i].retries
			}
		}
		return of(retries, t.sent)
	case MetricRadius:
		return float64(t.storms.most), t.any()
	case MetricMeanRadius:
		return t.storms.mean(), t.any()
	}
	part := map[Metric]float64{MetricP50: .5, MetricP95: .95, MetricP99: .99}[m]
	v = t.latency.percentile(part).Seconds()
	return v, v > 0
}

// any reports whether a request came, or one ended: with none, nobody could have retried.
func (t *sums) any() bool { return t.sent+t.good+t.failed+t.storms.count > 0 }
