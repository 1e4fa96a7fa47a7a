package otelprop

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSlug(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit int
		want  string
	}{
		{"checkout", 24, "checkout"},
		{"Check_Out-2", 24, "check_out-2"},
		{"", 24, "unknown"},
		{"", 3, "unk"},
		{"...", 24, "---"},
		{"payments.internal:8080", 24, "payments-internal-8080"},
		{"Zürich", 24, "z-rich"},
		{"\u212aelvin", 24, "-elvin"}, // the Kelvin sign is no ASCII letter, whatever its lower case
		{"日本", 24, "--"},
		{"a\xff\xfeb", 24, "a--b"},
		{strings.Repeat("a", 25), 24, strings.Repeat("a", 24)},
		{strings.Repeat("é", 25), 24, strings.Repeat("-", 24)},
		{strings.Repeat("A", 50), 40, strings.Repeat("a", 40)},
		{strings.Repeat("a", 50), 0, strings.Repeat("a", 24)},
		{strings.Repeat("a", 50), -1, strings.Repeat("a", 24)},
	} {
		assert.Equal(t, tt.want, Slug(tt.name, tt.limit), "Slug(%q, %d)", tt.name, tt.limit)
	}
}

func TestSlug_IsAlwaysOne(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		raw := make([]byte, rnd.IntN(12))
		for i := range raw {
			raw[i] = byte(rnd.Uint32())
		}
		limit := 1 + rnd.IntN(10)
		got := Slug(string(raw), limit)
		assert.True(t, isSlug(got, limit), "%q", got)
		assert.Equal(t, refSlug(string(raw), limit), got)
		assert.Equal(t, got, Slug(got, limit), "a slug stays what it is")
	}
}

func TestSlug_Allocations(t *testing.T) {
	long := "checkout" + strings.Repeat("x", 100)
	var got string
	assert.Zero(t, testing.AllocsPerRun(100, func() { got = Slug("checkout", 24) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { got = Slug(long, 24) }))
	assert.Equal(t, long[:24], got)
}
