package chainbudget

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// Instrument lets a meter of provider observe the SDK's numbers as the instruments that docs/metrics.md lists, in place of
// the provider before. [New] has done so with OpenTelemetry's global provider, whether that is set before or after. Nil
// means no provider: then nothing observes, and nothing is paid. The meter's name is [ScopeName].
//
// The error lists the instruments that the provider could not make; the others work, and calls are never touched. After
// [SDK.Close] nothing observes, and Instrument returns an error. A nil or zero SDK has nothing to observe.
func (s *SDK) Instrument(provider metric.MeterProvider) error {
	e := s.engine()
	if !e.Usable() {
		return errNoSDK
	}
	if provider == nil {
		return e.Instrument(nil)
	}
	return e.Instrument(provider.Meter(ScopeName, metric.WithInstrumentationVersion(Version)))
}

// observeGlobally begins with the global provider. What it cannot make is no reason for main to stop.
func (s *SDK) observeGlobally() {
	if err := s.Instrument(otel.GetMeterProvider()); err != nil {
		s.engine().Warn("instruments", "chainbudget: the metrics are not complete", "error", err)
	}
}
