package rpc

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestMeaning(t *testing.T) {
	assert.Equal(t, Meaning{503, true}, MeaningOf(14))
	assert.Equal(t, Meaning{429, true}, MeaningOf(8))
	assert.Equal(t, Meaning{409, true}, MeaningOf(10))
	assert.Equal(t, Meaning{409, false}, MeaningOf(6))
	assert.Equal(t, Meaning{499, false}, MeaningOf(1))
	for _, beyond := range []uint32{17, 99, math.MaxUint32} {
		assert.Equal(t, Meaning{500, true}, MeaningOf(beyond), "%d means what UNKNOWN does", beyond)
	}
}

func TestPushback(t *testing.T) {
	for _, c := range []struct {
		values    []string
		hint      time.Duration
		ok, never bool
	}{
		{nil, 0, false, false},
		{[]string{"0"}, 0, true, false},
		{[]string{"250"}, 250 * time.Millisecond, true, false},
		{[]string{"9223372036854775807"}, math.MaxInt64, true, false},
		{[]string{"9223372036854775808"}, 0, false, true},
		{[]string{NoRetry}, 0, false, true},
		{[]string{"soon"}, 0, false, true},
		{[]string{""}, 0, false, true},
		{[]string{"1", "2"}, 0, false, true},
	} {
		hint, ok, never := Pushback(c.values)
		assert.Equal(t, c.hint, hint, "%q", c.values)
		assert.Equal(t, c.ok, ok, "%q", c.values)
		assert.Equal(t, c.never, never, "%q", c.values)
	}
}

func TestPattern(t *testing.T) {
	for text, want := range map[string]string{"/shop.Catalog/*": "/shop.Catalog/*", "shop.Catalog/Get*": "/shop.Catalog/Get*"} {
		got, err := Pattern(text)
		assert.NoError(t, err)
		assert.Equal(t, want, got)
		assert.True(t, Listed("/shop.Catalog/GetItem", []string{got}))
		assert.False(t, Listed("/shop.Orders/GetItem", []string{got}))
	}
	for _, text := range []string{"", "/", "shop[/x"} {
		_, err := Pattern(text)
		assert.ErrorContains(t, err, "is no pattern", "%q", text)
	}
	assert.True(t, Probe("/grpc.health.v1.Health/Check"))
	assert.False(t, Probe("/grpc.health.v1.Healthy/Check"))
}
