package instruments

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// Register makes all instruments with a meter and registers one callback for them: collect, which is called at each
// collection and tells the values. Where an instrument cannot be made, the others are registered all the same; the error
// lists those that are missing. The registration is nil if there is nothing to unregister.
func Register(meter metric.Meter, service string, collect func(*Observer)) (metric.Registration, error) {
	o := Observer{service: otelprop.AttrService.String(service)}
	var made []metric.Observable
	var problems []error
	for i := range table {
		one, err := o.make(meter, ID(i))
		if err == nil && one == nil {
			err = errNone
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("chainbudget: instrument %s: %w", table[i].Name, err))
			continue
		}
		made = append(made, one)
	}
	if len(made) == 0 {
		return nil, errors.Join(problems...)
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		now := o
		now.to = to
		collect(&now)
		return nil
	}, made...)
	if err != nil {
		problems = append(problems, fmt.Errorf("chainbudget: the instruments have no callback: %w", err))
	}
	return registration, errors.Join(problems...)
}

var errNone = errors.New("the provider returned none")

// Observer takes the values of one collection. It belongs to the goroutine that collects.
type Observer struct {
	to      metric.Observer
	service attribute.KeyValue
	ints    [Count]metric.Int64Observable
	floats  [Count]metric.Float64Observable
	few     [8]attribute.KeyValue
}

// Int tells the value of an instrument whose values are whole numbers, for one set of attributes beside the service.
func (o *Observer) Int(id ID, value int64, attributes ...attribute.KeyValue) {
	if one := o.ints[id]; one != nil {
		o.to.ObserveInt64(one, value, o.set(attributes))
	}
}

// Float is Int for the instruments whose values are no whole numbers.
func (o *Observer) Float(id ID, value float64, attributes ...attribute.KeyValue) {
	if one := o.floats[id]; one != nil {
		o.to.ObserveFloat64(one, value, o.set(attributes))
	}
}

func (o *Observer) set(attributes []attribute.KeyValue) metric.MeasurementOption {
	o.few[0] = o.service
	set := o.few[:1+copy(o.few[1:], attributes)]
	for i := range set {
		set[i] = Valid(set[i])
	}
	return metric.WithAttributes(set...)
}

// Valid returns an attribute whose text is UTF-8. Exporters refuse any other text, and with it all that they would have
// exported at once, the application's own included; and the names of services and dependencies are what code makes them.
func Valid(a attribute.KeyValue) attribute.KeyValue {
	if a.Value.Type() == attribute.STRING && !utf8.ValidString(a.Value.AsString()) {
		return a.Key.String(strings.ToValidUTF8(a.Value.AsString(), "\uFFFD"))
	}
	return a
}

// make makes one instrument.
func (o *Observer) make(meter metric.Meter, id ID) (metric.Observable, error) {
	line := &table[id]
	unit, description := metric.WithUnit(line.Unit), metric.WithDescription(line.Moves)
	if line.float {
		var one metric.Float64Observable
		var err error
		if line.Sort == Counter {
			one, err = meter.Float64ObservableCounter(line.Name, unit, description)
		} else {
			one, err = meter.Float64ObservableGauge(line.Name, unit, description)
		}
		if err == nil {
			o.floats[id] = one
		}
		return one, err
	}
	var one metric.Int64Observable
	var err error
	switch line.Sort {
	case Counter:
		one, err = meter.Int64ObservableCounter(line.Name, unit, description)
	case UpDownCounter:
		one, err = meter.Int64ObservableUpDownCounter(line.Name, unit, description)
	default:
		one, err = meter.Int64ObservableGauge(line.Name, unit, description)
	}
	if err == nil {
		o.ints[id] = one
	}
	return one, err
}
