package instruments

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// meter makes what a table of names does not refuse, and remembers the callback.
type meter struct {
	metric.Meter
	refuses  map[string]bool // nil = nothing
	all      bool            // refuses everything
	silent   bool            // refuses without an error
	callback metric.Callback
	observed int // how many instruments the callback may observe
}

var errRefused = errors.New("no room")

func (m *meter) refusal() error {
	if m.silent {
		return nil
	}
	return errRefused
}

func (m *meter) Int64ObservableCounter(name string, options ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	if m.all || m.refuses[name] {
		return nil, m.refusal()
	}
	return m.Meter.Int64ObservableCounter(name, options...)
}

func (m *meter) Int64ObservableUpDownCounter(name string, options ...metric.Int64ObservableUpDownCounterOption) (metric.Int64ObservableUpDownCounter, error) {
	if m.all || m.refuses[name] {
		return nil, m.refusal()
	}
	return m.Meter.Int64ObservableUpDownCounter(name, options...)
}

func (m *meter) Int64ObservableGauge(name string, options ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	if m.all || m.refuses[name] {
		return nil, m.refusal()
	}
	return m.Meter.Int64ObservableGauge(name, options...)
}

func (m *meter) Float64ObservableCounter(name string, options ...metric.Float64ObservableCounterOption) (metric.Float64ObservableCounter, error) {
	if m.all || m.refuses[name] {
		return nil, m.refusal()
	}
	return m.Meter.Float64ObservableCounter(name, options...)
}

func (m *meter) Float64ObservableGauge(name string, options ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	if m.all || m.refuses[name] {
		return nil, m.refusal()
	}
	return m.Meter.Float64ObservableGauge(name, options...)
}

func (m *meter) RegisterCallback(f metric.Callback, made ...metric.Observable) (metric.Registration, error) {
	m.callback, m.observed = f, len(made)
	return m.Meter.RegisterCallback(f, made...)
}

// seen remembers what a callback observes.
type seen struct {
	metric.Observer
	ints   map[attribute.Set]int64
	floats map[attribute.Set]float64
}

func (s *seen) ObserveInt64(_ metric.Int64Observable, value int64, options ...metric.ObserveOption) {
	s.ints[metric.NewObserveConfig(options).Attributes()] = value
}

func (s *seen) ObserveFloat64(_ metric.Float64Observable, value float64, options ...metric.ObserveOption) {
	s.floats[metric.NewObserveConfig(options).Attributes()] = value
}

// A provider that cannot make some instruments leaves the others at work: nothing is observed through one that is not
// there, and the error names it.
func TestRegister_without_some_instruments(t *testing.T) {
	missing := map[string]bool{
		table[Retries].Name: true, table[BreakerStatus].Name: true, table[RetriesDisabled].Name: true, table[AttemptTime].Name: true,
		table[BudgetTokens].Name: true,
	}
	m := &meter{Meter: noop.Meter{}, refuses: missing}
	registration, err := Register(m, "checkout", func(o *Observer) {
		for id := range ID(Count) {
			if table[id].float {
				o.Float(id, float64(id), otelprop.AttrProfile.String(table[id].Name))
			} else {
				o.Int(id, int64(id), otelprop.AttrProfile.String(table[id].Name))
			}
		}
	})
	require.ErrorIs(t, err, errRefused)
	for name := range missing {
		assert.ErrorContains(t, err, "instrument "+name+":")
	}
	require.NotNil(t, registration)
	assert.Equal(t, Count-len(missing), m.observed)
	s := &seen{ints: map[attribute.Set]int64{}, floats: map[attribute.Set]float64{}}
	require.NoError(t, m.callback(context.Background(), s))
	for id := range ID(Count) {
		name := table[id].Name
		set := attribute.NewSet(otelprop.AttrService.String("checkout"), otelprop.AttrProfile.String(name))
		whole, isWhole := s.ints[set]
		other, isOther := s.floats[set]
		assert.Equal(t, !missing[name], isWhole || isOther, name)
		if isWhole {
			assert.EqualValues(t, id, whole, name)
		}
		if isOther {
			assert.EqualValues(t, id, other, name)
		}
		assert.False(t, table[id].float && isWhole || !table[id].float && isOther, "%s has values of its own kind", name)
	}
}

func TestRegister_with_nothing(t *testing.T) {
	m := &meter{Meter: noop.Meter{}, all: true}
	registration, err := Register(m, "checkout", func(*Observer) { t.Error("nobody asks") })
	require.ErrorIs(t, err, errRefused)
	assert.Nil(t, registration)
	assert.Nil(t, m.callback)
}

func TestRegression_a_provider_that_returns_neither_instrument_nor_error(t *testing.T) {
	m := &meter{Meter: noop.Meter{}, all: true, silent: true}
	registration, err := Register(m, "checkout", func(*Observer) { t.Error("nobody asks") })
	require.ErrorContains(t, err, "instrument chainbudget.calls: the provider returned none")
	assert.NotContains(t, err.Error(), "%!")
	assert.Nil(t, registration)
}
