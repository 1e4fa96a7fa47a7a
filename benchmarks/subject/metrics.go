package subject

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// collectEvery is far more often than anybody scrapes.
const collectEvery = 100 * time.Millisecond

// metered is sdk with a provider of OpenTelemetry's own SDK, and somebody who collects until the stage ends.
func (s *stage) metered(profile profiles.Name) layer {
	sdk := newSDK(catalog)
	reader := metric.NewManualReader()
	if err := (*chainbudget.SDK)(sdk).Instrument(metric.NewMeterProvider(metric.WithReader(reader))); err != nil {
		panic(err) // the real provider makes every instrument
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(collectEvery)
		defer tick.Stop()
		var data metricdata.ResourceMetrics
		for {
			select {
			case <-tick.C:
				if err := reader.Collect(ctx, &data); err != nil && ctx.Err() == nil {
					panic(err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	s.atEnd(func() {
		stop()
		<-ended
		_ = sdk.Close() // nothing of it is on disk
	})
	return s.sdkOf(sdk, profile)
}
