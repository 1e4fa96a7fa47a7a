package work

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/propagation"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// propagator writes trace context, the user's baggage and the chain's header, and reads them.
var propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}, otelprop.Propagator{})

// headers is the carrier for the headers of a record. Set replaces: however often a record is published again, there is one
// header of each name.
type headers struct{ *kgo.Record }

func (h headers) Get(key string) string {
	if all := h.Values(key); len(all) > 0 {
		return all[0]
	}
	return ""
}

func (h headers) Values(key string) (all []string) {
	for _, header := range h.Headers {
		if strings.EqualFold(header.Key, key) {
			all = append(all, string(header.Value))
		}
	}
	return all
}

func (h headers) Set(key, value string) {
	h.Headers = slices.DeleteFunc(h.Headers, func(header kgo.RecordHeader) bool { return strings.EqualFold(header.Key, key) })
	h.Headers = append(h.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
}

func (h headers) Keys() []string {
	keys := make([]string, len(h.Headers))
	for i, header := range h.Headers {
		keys[i] = header.Key
	}
	return keys
}
