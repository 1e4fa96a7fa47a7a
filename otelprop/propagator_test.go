package otelprop

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
)

var composite = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}, Propagator{})

// plainCarrier has only what the interface asks for, as the carriers of gRPC have.
type plainCarrier struct{ m propagation.MapCarrier }

func (c plainCarrier) Get(key string) string { return c.m.Get(key) }
func (c plainCarrier) Set(key, value string) { c.m.Set(key, value) }
func (c plainCarrier) Keys() []string        { return c.m.Keys() }

func TestPropagator_Extract(t *testing.T) {
	t.Run("all_lines_of_a_header", func(t *testing.T) {
		h := http.Header{"Baggage": {"user=1", ordinaryMember}, "Chainbudget": ordinaryHeader}
		ctx := composite.Extract(context.Background(), propagation.HeaderCarrier(h))
		got, ok := RequestFromContext(ctx)
		assert.True(t, ok)
		assert.Equal(t, ordinaryRequest, got)
		b := baggage.FromContext(ctx)
		assert.Equal(t, "user=1", b.String(), "I6: the member is gone, the others are there")
		assert.Equal(t, []string{"user=1", ordinaryMember}, h["Baggage"], "the carrier is only read")
	})
	t.Run("a_member_in_the_second_line_alone", func(t *testing.T) {
		h := http.Header{"Baggage": {"user=1", ordinaryMember}}
		got, _ := RequestFromContext(Propagator{}.Extract(context.Background(), propagation.HeaderCarrier(h)))
		assert.Equal(t, Request{State: Valid, Grant: 1, Limit: 3, Hop: 1, Nonce: 0x9f86d081, Entry: "checkout"}, got)
	})
	t.Run("a_carrier_with_get_only", func(t *testing.T) {
		c := plainCarrier{propagation.MapCarrier{"baggage": ordinaryBaggage[0], "chainbudget": ordinaryHeader[0]}}
		got, ok := RequestFromContext(composite.Extract(context.Background(), c))
		assert.True(t, ok)
		assert.Equal(t, ordinaryRequest, got)
	})
	t.Run("nothing_arrived", func(t *testing.T) {
		for _, c := range []propagation.TextMapCarrier{propagation.MapCarrier{}, propagation.HeaderCarrier(nil), plainCarrier{}, nil} {
			got, ok := RequestFromContext(Propagator{}.Extract(context.Background(), c))
			assert.True(t, ok)
			assert.Equal(t, Request{}, got)
		}
	})
	t.Run("no_propagator_ran", func(t *testing.T) {
		_, ok := RequestFromContext(context.Background())
		assert.False(t, ok)
		_, ok = RequestFromContext(ContextWithRequest(context.Background(), &Request{Grant: 2, Limit: 2}))
		assert.False(t, ok, "what is to be sent was not received")
	})
	t.Run("the_grant_is_the_senders_until_clamped", func(t *testing.T) {
		c := propagation.MapCarrier{"chainbudget": "v1.99.99.1.9f86d081.a"}
		got, _ := RequestFromContext(Propagator{}.Extract(context.Background(), c))
		assert.Equal(t, uint8(99), got.Grant)
		got.Clamp(3)
		assert.Equal(t, uint8(3), got.Grant)
	})
}

func TestPropagator_Inject(t *testing.T) {
	foreign, err := baggage.Parse("user=1")
	require.NoError(t, err)
	both, err := baggage.Parse("user=1,chainbudget=v1.3.3.1.deadbeef.a")
	require.NoError(t, err)
	alone, err := baggage.Parse("chainbudget=v1.3.3.1.deadbeef.a")
	require.NoError(t, err)
	send := ordinaryRequest

	for _, tt := range []struct {
		name   string
		bag    baggage.Baggage
		send   *Request
		before propagation.MapCarrier
		want   propagation.MapCarrier
	}{
		{"nothing_to_send_nothing_there", baggage.Baggage{}, nil, nil, propagation.MapCarrier{}},
		{"nothing_to_send_foreign_baggage_stays", foreign, nil, nil, propagation.MapCarrier{"baggage": "user=1"}},
		{"nothing_to_send_member_in_the_contexts_baggage", both, nil, nil, propagation.MapCarrier{"baggage": "user=1"}},
		{"nothing_to_send_member_alone", alone, nil, nil, propagation.MapCarrier{}},
		{"nothing_to_send_header_is_left", alone, nil, propagation.MapCarrier{"chainbudget": ordinaryHeader[0]},
			propagation.MapCarrier{"chainbudget": ordinaryHeader[0]}},
		{"an_adapter_wrote_both", baggage.Baggage{}, nil, propagation.MapCarrier{"baggage": ordinaryMember, "chainbudget": ordinaryHeader[0]},
			propagation.MapCarrier{"baggage": ordinaryMember, "chainbudget": ordinaryHeader[0]}},
		{"send", baggage.Baggage{}, &send, nil, propagation.MapCarrier{"baggage": ordinaryMember, "chainbudget": ordinaryHeader[0]}},
		{"send_with_foreign_baggage", foreign, &send, nil,
			propagation.MapCarrier{"baggage": ordinaryMember + ",user=1", "chainbudget": ordinaryHeader[0]}},
		{"send_replaces_stale_values", both, &send, propagation.MapCarrier{"chainbudget": "v1.3.3.1.deadbeef.a"},
			propagation.MapCarrier{"baggage": ordinaryMember + ",user=1", "chainbudget": ordinaryHeader[0]}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := baggage.ContextWithBaggage(context.Background(), tt.bag)
			if tt.send != nil {
				ctx = ContextWithRequest(ctx, tt.send)
			}
			c, h := propagation.MapCarrier{}, http.Header{}
			for k, v := range tt.before {
				c.Set(k, v)
				h.Set(k, v)
			}
			composite.Inject(ctx, c)
			assert.Equal(t, tt.want, c)
			composite.Inject(ctx, propagation.HeaderCarrier(h))
			wantHeader := http.Header{}
			for k, v := range tt.want {
				wantHeader.Set(k, v)
			}
			assert.Equal(t, wantHeader, h)
		})
	}

	t.Run("a_carrier_that_cannot_delete", func(t *testing.T) {
		c := plainCarrier{propagation.MapCarrier{"baggage": oursA}}
		Propagator{}.Inject(context.Background(), c)
		assert.Equal(t, propagation.MapCarrier{"baggage": ""}, c.m)
	})
	t.Run("nil_carrier", func(t *testing.T) {
		assert.NotPanics(t, func() { Propagator{}.Inject(ContextWithRequest(context.Background(), &send), nil) })
	})
	t.Run("nil_request_hides_an_outer_one", func(t *testing.T) {
		c := propagation.MapCarrier{}
		Propagator{}.Inject(ContextWithRequest(ContextWithRequest(context.Background(), &send), nil), c)
		assert.Empty(t, c)
	})
}

// TestPropagator_WhatArrivedIsNotForwarded holds I6: a handler's client must not send the handler's own grant.
func TestPropagator_WhatArrivedIsNotForwarded(t *testing.T) {
	in := http.Header{"Baggage": ordinaryBaggage, "Chainbudget": ordinaryHeader}
	ctx := composite.Extract(context.Background(), propagation.HeaderCarrier(in))
	out := http.Header{}
	composite.Inject(ctx, propagation.HeaderCarrier(out))
	assert.Empty(t, out["Chainbudget"])
	assert.False(t, HasMember(out["Baggage"]))
	assert.NotEmpty(t, out["Baggage"], "foreign members travel on")

	// Also where the baggage propagator was put last, and so puts the member back after Extract.
	wrongOrder := propagation.NewCompositeTextMapPropagator(Propagator{}, propagation.Baggage{})
	ctx = wrongOrder.Extract(context.Background(), propagation.HeaderCarrier(in))
	out = http.Header{}
	composite.Inject(ctx, propagation.HeaderCarrier(out))
	assert.False(t, HasMember(out["Baggage"]))
}

func TestPropagator_Fields(t *testing.T) {
	assert.Equal(t, []string{"baggage", "chainbudget"}, Propagator{}.Fields())
	Propagator{}.Fields()[0] = "changed"
	assert.Equal(t, []string{"baggage", "chainbudget"}, Propagator{}.Fields())
}

func TestNames(t *testing.T) {
	for lower, canonical := range map[string]string{
		BaggageHeader: HTTPBaggageHeader, RequestHeader: HTTPRequestHeader, ReturnHeader: HTTPReturnHeader,
	} {
		assert.Equal(t, http.CanonicalHeaderKey(lower), canonical)
	}
}
