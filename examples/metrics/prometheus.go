package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// Provider puts what a provider of OpenTelemetry observes into the registry that the application has already, beside its
// own metrics. It has no limit of series: by default a provider lets the SDK's first 2000 of an instrument be and adds all
// others up in one without a name, and how many there are is bounded by what is declared anyway.
func Provider(registry prometheus.Registerer) (metric.MeterProvider, error) {
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return nil, err
	}
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithCardinalityLimit(0)), nil
}

// Expose shows sdk's numbers in registry, and returns the handler that Prometheus scrapes. An application that gives its
// provider to otel.SetMeterProvider needs no Instrument.
func Expose(sdk *chainbudget.SDK, registry *prometheus.Registry) (http.Handler, error) {
	provider, err := Provider(registry)
	if err != nil {
		return nil, err
	}
	if err := sdk.Instrument(provider); err != nil {
		return nil, err
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
