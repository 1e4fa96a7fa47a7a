package tables

import (
	"math"
	"testing"
)

// The tolerances decide what passes, so they are held to values that can be checked by hand.
func TestChance(t *testing.T) {
	for _, tt := range []struct {
		share float64
		n     int
		want  float64
	}{
		{.5, 10_000, .015},                       // 3·sqrt(.25/10000)
		{.99, 10_000, 3 * math.Sqrt(.99e-2/1e4)}, // 100 expected: normal
		{1 - 1e-5, 10_000, (2.5 - .1) / 1e4},     // .1 expected: two are still chance (P(≤1) = .9953, P(≤2) = .9998)
		{1e-5, 10_000, (2.5 - .1) / 1e4},         // the same from the other side
		{1, 10_000, .5 / 1e4},                    // nothing else can be drawn
	} {
		if got := chance(tt.share, tt.n); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("chance(%v, %d) = %v, want %v", tt.share, tt.n, got, tt.want)
		}
	}
}

// A sharper check of the two sums than a sample: without retries all of them are the plain product.
func TestFormulas(t *testing.T) {
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"pooled without retries", pooled(10, 0, .1), math.Pow(.9, 10)},
		{"pooled, one edge", pooled(1, 3, .1), 1 - 1e-4},
		{"pooled, T5", pooled(10, 3, .05), .996897},
		{"split without retries", split(10, 0, .1), math.Pow(.9, 10)},
		{"split, one each", split(5, 5, .1), math.Pow(.99, 5)},
		{"retried once", retriedOnce(5, .05), .987562},
		{"choose", float64(choose(9, 3)), 84},
		{"power", float64(power(4, 6)), 4096},
	} {
		if math.Abs(tt.got-tt.want) > 1e-6 {
			t.Errorf("%s = %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}
