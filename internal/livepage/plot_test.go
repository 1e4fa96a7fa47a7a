package livepage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

func TestPlot_points_and_words(t *testing.T) {
	p := draw("p", "payments", "Attempts and failures", windows[1], kind{"attempts", []int64{0, 20, 10}}, kind{"failures", []int64{0, 0, 5}})
	assert.False(t, p.Empty)
	assert.Equal(t, "4/s", p.Top)
	assert.Equal(t, "117,100.0 118,0.0 119,50.0", p.Lines[0].Points)
	assert.Equal(t, "117,100.0 118,100.0 119,75.0", p.Lines[1].Points)
	assert.Equal(t, "Attempts and failures of payments per second, last 10 minutes. attempts: now 2, mean 2, peak 4. failures: now 1, mean 0.3, peak 1.", p.Label)
	assert.True(t, draw("p", "x", "t", windows[0], kind{"attempts", nil}).Empty)
}

func TestPlot_scale(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 0.2: 1, 1: 1, 1.1: 1.2, 7: 8, 99: 100, 100: 100, 101: 120, 243: 250, 999_999: 1_000_000} {
		assert.InDelta(t, want, ceiling(v), 1e-9, "%v", v)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 12345: "12,345"} {
		assert.Equal(t, want, count(n))
	}
}

// TestHistory_steps begin at the same seconds whenever one looks.
func TestHistory_steps(t *testing.T) {
	var rates []engine.Rates
	for second := range 23 {
		rates = append(rates, engine.Rates{Attempts: uint32(second + 1), Retries: 1})
	}
	for end, want := range map[int][]int64{4: {}, 5: {15}, 9: {15}, 10: {15, 40}, 23: {15, 40, 65, 90}} {
		s := seriesOf(rates[:end], end, windows[1])
		assert.Equal(t, want, s.Attempts, "%d", end)
		assert.Len(t, s.Failures, len(want))
	}
	end := time.Date(2026, 11, 29, 12, 0, 23, 0, time.UTC)
	h := historyOf(engine.History{End: end, Seconds: 23, All: rates}, question{window: windows[1]})
	assert.Equal(t, end.Add(-3*time.Second), h.End)
	assert.Equal(t, 5, h.StepSeconds)
}
