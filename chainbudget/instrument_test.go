package chainbudget_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
)

// provider remembers who observes with it.
type provider struct {
	noop.MeterProvider
	scope      string
	version    string
	registered int
	bad        error // of every registration, and of its end
}

func (p *provider) Meter(name string, options ...metric.MeterOption) metric.Meter {
	p.scope, p.version = name, metric.NewMeterConfig(options...).InstrumentationVersion()
	return &meter{p: p}
}

type meter struct {
	noop.Meter
	p *provider
}

func (m *meter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	m.p.registered++
	return &registration{p: m.p}, m.p.bad
}

type registration struct {
	noop.Registration
	p *provider
}

func (r *registration) Unregister() error {
	r.p.registered--
	return r.p.bad
}

func TestInstrument(t *testing.T) {
	sdk := chainbudgettest.New(t).SDK
	var one, other provider
	require.NoError(t, sdk.Instrument(&one))
	assert.Equal(t, chainbudget.ScopeName, one.scope)
	assert.Equal(t, chainbudget.Version, one.version)
	assert.Equal(t, 1, one.registered)
	require.NoError(t, sdk.Instrument(&one))
	assert.Equal(t, 1, one.registered, "again, in place of itself")
	require.NoError(t, sdk.Instrument(&other))
	assert.Equal(t, []int{0, 1}, []int{one.registered, other.registered}, "one in place of the other")
	require.NoError(t, sdk.Instrument(nil))
	assert.Zero(t, other.registered)
	require.NoError(t, sdk.Instrument(nil))
	require.NoError(t, sdk.Instrument(&one))
	require.NoError(t, sdk.Close())
	assert.Zero(t, one.registered)
	require.NoError(t, sdk.Close())
	require.ErrorContains(t, sdk.Instrument(&one), "closed")
	require.NoError(t, sdk.Instrument(nil))
	assert.Zero(t, one.registered)
}

func TestInstrument_without_an_sdk(t *testing.T) {
	var none *chainbudget.SDK
	require.Error(t, none.Instrument(new(provider)))
	require.Error(t, new(chainbudget.SDK).Instrument(nil))
}

// What a provider says is passed on, and nothing else suffers from it.
func TestInstrument_errors(t *testing.T) {
	sdk := chainbudgettest.New(t).SDK
	p := provider{bad: errors.New("the provider is broken")}
	require.ErrorIs(t, sdk.Instrument(&p), p.bad)
	require.ErrorIs(t, sdk.Instrument(&p), p.bad)
	require.ErrorIs(t, sdk.Close(), p.bad)
	require.NoError(t, sdk.Close())
	assert.Zero(t, p.registered)
}

// The global provider keeps registrations until somebody sets a provider, perhaps for ever. An SDK that was closed is not
// among them. It comes before a test that sets a provider.
func TestInstrument_a_closed_sdk_is_forgotten(t *testing.T) {
	sdk, err := chainbudget.New("checkout")
	require.NoError(t, err)
	require.NoError(t, sdk.Close())
	gone := weak.Make(sdk)
	sdk = nil
	for range 10 {
		runtime.GC()
	}
	assert.Nil(t, gone.Value(), "something still refers to the SDK")
}

// New observes with the global provider. One that is broken is a warning: no service stays down for its metrics.
func TestInstrument_globally(t *testing.T) {
	before := otel.GetMeterProvider()
	p := new(provider)
	t.Cleanup(func() {
		p.bad = nil // the first provider that is set is what the default one passes everything on to, for good
		otel.SetMeterProvider(before)
	})
	otel.SetMeterProvider(p)
	others := p.registered // SDKs of tests before that nobody has closed
	sdk, err := chainbudget.New("checkout")
	require.NoError(t, err)
	assert.Equal(t, others+1, p.registered)
	_, err = chainbudget.New("", chainbudget.WithStrict())
	require.Error(t, err)
	assert.Equal(t, others+1, p.registered, "there is no second SDK")
	require.NoError(t, sdk.Close())
	assert.Equal(t, others, p.registered)
	assert.Nil(t, chainbudgettest.New(t).SDK.Totals().Dependencies["none"].Denied)
	assert.Equal(t, others, p.registered, "tests observe nothing unless they ask")

	var logged bytes.Buffer
	usual := slog.Default()
	t.Cleanup(func() { slog.SetDefault(usual) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	p.bad = errors.New("the provider is broken")
	sdk, err = chainbudget.New("checkout")
	require.NoError(t, err)
	assert.Contains(t, logged.String(), "the provider is broken")
	require.NoError(t, chainbudget.Do(context.Background(), nil, func(context.Context) error { return nil }))
	require.ErrorIs(t, sdk.Close(), p.bad)
}
