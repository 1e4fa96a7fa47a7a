package profiles

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// most draws the largest number that there is.
func most(n int64) int64 { return n - 1 }

// least draws the smallest.
func least(int64) int64 { return 0 }

// Published ceilings of the AWS SDKs' standard mode.
func TestBackoff_ceilings_as_published(t *testing.T) {
	b := Builtin().Profiles[AWSStandard].Backoff
	for n, want := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 20000, 20000} {
		require.Equal(t, want*ms, b.Ceiling(n, false), "transient %d", n)
	}
	for n, want := range []time.Duration{1000, 2000, 4000, 8000, 16000, 20000, 20000} {
		require.Equal(t, want*ms, b.Ceiling(n, true), "throttled %d", n)
	}
	require.Equal(t, 50*ms, b.Ceiling(-1, false))
	require.Equal(t, 50*ms, b.Ceiling(math.MinInt, false))
}

func TestBackoff_zero_value_waits(t *testing.T) {
	require.Equal(t, DefaultBase, Backoff{}.Ceiling(0, false))
	require.Equal(t, DefaultThrottledBase, Backoff{}.Ceiling(0, true))
	require.Equal(t, DefaultCap, Backoff{}.Ceiling(100, false))
	require.True(t, Backoff{}.Follows(DefaultCap))
	require.False(t, Backoff{}.Follows(DefaultCap+1))
}

func TestBackoff_delay_covers_zero_to_ceiling(t *testing.T) {
	b := Backoff{Base: 50 * ms, ThrottledBase: time.Second, Cap: 20 * time.Second}
	require.Equal(t, 200*ms, b.Delay(2, false, most))
	require.Equal(t, 4*time.Second, b.Delay(2, true, most))
	require.Zero(t, b.Delay(2, false, least))
	huge := Backoff{Base: math.MaxInt64, Cap: math.MaxInt64}
	require.EqualValues(t, math.MaxInt64-1, huge.Delay(0, false, most))
}

func TestBackoff_hint_is_a_lower_bound(t *testing.T) {
	b := Backoff{Base: 50 * ms, ThrottledBase: time.Second, Cap: 20 * time.Second}
	require.Equal(t, 10*time.Second, b.After(10*time.Second, 0, false, least))
	require.Equal(t, 10*time.Second+50*ms, b.After(10*time.Second, 0, false, most))
	require.Equal(t, 10*time.Second+2*time.Second, b.After(10*time.Second, 1, true, most), "the ordinal's own ceiling")
	require.Equal(t, 50*ms, b.After(-time.Second, 0, false, most))
	require.EqualValues(t, math.MaxInt64, b.After(math.MaxInt64, 3, true, most))
	require.True(t, b.Follows(20*time.Second))
	require.False(t, b.Follows(20*time.Second+1))
}

// Published vectors: the jitter is pinned to its largest value.
func TestBackoff_hint_as_aws_publishes(t *testing.T) {
	b := Builtin().Profiles[AWSStandard].Backoff
	for hint, want := range map[time.Duration]time.Duration{1500 * ms: 1500 * ms, 0: 50 * ms, 10000 * ms: 5050 * ms} {
		require.Equal(t, want, b.After(hint, 0, false, most), "hint %v", hint)
	}
	require.True(t, b.Follows(math.MaxInt64), "every hint is bounded")
	huge := Backoff{Base: math.MaxInt64, Cap: math.MaxInt64, Hint: HintClamp}
	require.EqualValues(t, math.MaxInt64, huge.After(math.MaxInt64, 0, false, most))
}

// 2^n overflows, and a cap that comes after it makes a hot loop (sethvargo/go-retry#12 and others).
func TestRegression_A044_ceiling_never_overflows_or_shrinks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	values := []time.Duration{math.MinInt64, -1, 0, 1, 2, 3, ms, DefaultCap, math.MaxInt64/2 + 1, math.MaxInt64 - 1, math.MaxInt64}
	for range 40 {
		values = append(values, time.Duration(random.Int64()>>random.IntN(63)))
	}
	for _, base := range values {
		for _, limit := range values {
			b := Backoff{Base: base, ThrottledBase: base, Cap: limit}
			last, cap := time.Duration(0), limit
			if cap <= 0 {
				cap = DefaultCap
			}
			for n := range 10_001 {
				if n > 70 && n < 9990 {
					continue
				}
				c := b.Ceiling(n, n%2 == 0 && base > 0)
				d := b.Delay(n, base > 0, random.Int64N)
				if c < 1 || c > cap || c < last || d < 0 || d > cap {
					t.Fatalf("%+v: ceiling %v after %v, delay %v, at %d", b, c, last, d, n)
				}
				last = c
			}
			require.Equal(t, cap, b.Ceiling(math.MaxInt, false))
		}
	}
}

// The same without a gap, for settings as catalogs have them: no delay of any ordinal to 10,000 is above the cap.
func TestRegression_A044_no_ordinal_waits_longer_than_the_cap(t *testing.T) {
	random := rand.New(rand.NewPCG(44, 44))
	for _, b := range []Backoff{
		{}, {Base: 1, ThrottledBase: 3, Cap: 2}, {Base: ms, ThrottledBase: ms, Cap: ms}, {Base: 50 * ms, ThrottledBase: time.Second, Cap: 20 * time.Second},
		{Base: 7 * ms, ThrottledBase: 11 * ms, Cap: time.Hour}, {Base: math.MaxInt64, Cap: math.MaxInt64}, {Base: 3, Cap: math.MaxInt64},
	} {
		for _, throttled := range []bool{false, true} {
			last := time.Duration(0)
			for n := range 10_001 {
				ceiling, d, pinned := b.Ceiling(n, throttled), b.Delay(n, throttled, random.Int64N), b.Delay(n, throttled, most)
				if ceiling < last || ceiling > b.limit() || d < 0 || d > ceiling || pinned > ceiling || pinned < ceiling-1 {
					t.Fatalf("%+v, throttled %v, ordinal %d: ceiling %v after %v, delays %v and %v", b, throttled, n, ceiling, last, d, pinned)
				}
				last = ceiling
			}
			require.Equal(t, b.limit(), last)
		}
	}
}

// Jitter that ends at the cap lets clients meet again (ferd/backoff#8). Chi-square over 64 bins, at the 99.99 % quantile of
// 63 degrees of freedom, with a fixed seed.
func TestRegression_A046_jitter_is_uniform_at_every_ordinal(t *testing.T) {
	const bins, samples, quantile = 64, 10_000, 113.2
	b := Backoff{Base: 50 * ms, ThrottledBase: time.Second, Cap: 20 * time.Second}
	random := rand.New(rand.NewPCG(46, 46))
	type draw struct {
		n         int
		throttled bool
	}
	var draws []draw
	for n := range 13 { // 20 s is reached at 9, and at 5 where the callee throttles
		draws = append(draws, draw{n, false}, draw{n, true})
	}
	for _, n := range []int{50, 1000, 10_000, math.MaxInt} {
		draws = append(draws, draw{n, false}, draw{n, true})
	}
	for _, of := range draws {
		n := of.n
		ceiling, sum := b.Ceiling(n, of.throttled), 0.0
		var counts [bins]int
		for range samples {
			d := b.Delay(n, of.throttled, random.Int64N)
			counts[min(bins-1, int(float64(d)/float64(ceiling)*bins))]++
			sum += float64(d)
		}
		chi := 0.0
		for _, c := range counts {
			diff := float64(c) - samples/bins
			chi += diff * diff / (samples / bins)
		}
		require.Less(t, chi, quantile, "ordinal %d", n)
		require.InEpsilon(t, float64(ceiling)/2, sum/samples, 0.03, "full jitter's mean is half, ordinal %d", n)
	}
}

// "Jitter" that is deterministic arithmetic (mofa-org/mofa#620): without a seed no two samplers agree.
func TestRegression_A047_samplers_differ(t *testing.T) {
	draw := func() (list []time.Duration) {
		for n := range 8 {
			list = append(list, Default().Backoff.Delay(n+4, false, nil))
		}
		return list
	}
	first := draw()
	require.NotEqual(t, first, draw())
	slices.Sort(first)
	require.Len(t, slices.Compact(first), 8)
}

// Every replica draws the same sequence (dapr/dapr#9788).
func TestRegression_A048_processes_differ(t *testing.T) {
	const key = "CHAINBUDGET_TEST_DRAW"
	if os.Getenv(key) != "" {
		for range 5 {
			fmt.Println("drawn", int64(Default().Backoff.Delay(9, false, nil)))
		}
		return
	}
	draw := func() string {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), key+"=1")
		out, err := cmd.Output()
		require.NoError(t, err)
		var drawn []string
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "drawn ") {
				drawn = append(drawn, line)
			}
		}
		require.Len(t, drawn, 5)
		return strings.Join(drawn, "")
	}
	require.NotEqual(t, draw(), draw())
}

// Seconds times time.Second overflows (hashicorp/go-retryablehttp#297).
func TestRegression_A036_retry_after_saturates(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for _, v := range []string{"9223372037", "18446744074", "9223372036854775807", "9223372036854775808", strings.Repeat("9", 200)} {
		hint, ok := ParseRetryAfter([]string{v}, now)
		require.True(t, ok, v)
		require.EqualValues(t, math.MaxInt64, hint, v)
		require.False(t, Default().Backoff.Follows(hint))
		hint, ok = ParseRetryAfterMillis([]string{v + "000"})
		require.True(t, ok, v)
		require.EqualValues(t, math.MaxInt64, hint, v)
	}
	hint, ok := ParseRetryAfter([]string{"9223372036"}, now)
	require.True(t, ok)
	require.Equal(t, 9223372036*time.Second, hint)
	hint, ok = ParseRetryAfterMillis([]string{"9223372036854"})
	require.True(t, ok)
	require.Equal(t, 9223372036854*ms, hint)
	hint, ok = ParseRetryAfterMillis([]string{"9223372036855"})
	require.True(t, ok)
	require.EqualValues(t, math.MaxInt64, hint)
}

// inf and 1e400 park the caller for ever (openai-agents-python#4021); a long wait is seen before it is begun.
func TestRegression_A037_what_is_no_integer_is_no_hint(t *testing.T) {
	for _, v := range []string{"inf", "Infinity", "NaN", "1e400", "1e3", "0x10", "1.5", "1,5", "1 s", "1s", "5; x", "١"} {
		_, ok := ParseRetryAfter([]string{v}, time.Now())
		require.False(t, ok, v)
		_, ok = ParseRetryAfterMillis([]string{v})
		require.False(t, ok, v)
	}
	hint, ok := ParseRetryAfter([]string{"9999999999"}, time.Now())
	require.True(t, ok)
	require.False(t, Default().Backoff.Follows(hint))
}

// A negative value switches the backoff off (apify/crawlee-python#1995).
func TestRegression_A038_negative_is_absent(t *testing.T) {
	for _, v := range []string{"-1", "-0", "", " ", "+3", "-9223372036854775808"} {
		_, ok := ParseRetryAfter([]string{v}, time.Now())
		require.False(t, ok, "%q", v)
		_, ok = ParseRetryAfterMillis([]string{v})
		require.False(t, ok, "%q", v)
	}
	_, ok := ParseRetryAfter(nil, time.Now())
	require.False(t, ok)
}

// Dates, dates in the past, garbage, several lines (userver-framework/userver#160).
func TestRegression_A039_dates_and_several_lines(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	const date, past, old = "Sun, 29 Nov 2026 12:00:02 GMT", "Sun, 29 Nov 2026 11:00:00 GMT", "Sunday, 29-Nov-26 12:00:02 GMT"
	tests := []struct {
		name   string
		values []string
		want   time.Duration
		ok     bool
	}{
		{"date", []string{date}, 2 * time.Second, true},
		{"date_of_rfc850", []string{old}, 2 * time.Second, true},
		{"date_of_ansi_c", []string{"Sun Nov 29 12:00:02 2026"}, 2 * time.Second, true},
		{"past", []string{past}, 0, true},
		{"far_past", []string{"Mon, 01 Jan 0001 00:00:00 GMT"}, 0, true},
		{"far_future", []string{"Fri, 31 Dec 9999 23:59:59 GMT"}, math.MaxInt64, true},
		{"garbage", []string{"soon"}, 0, false},
		{"long_garbage", []string{strings.Repeat("x", 1<<20)}, 0, false},
		{"first_valid_line", []string{"soon", "", "7", date}, 7 * time.Second, true},
		{"date_first", []string{date, "7"}, 2 * time.Second, true},
		{"white_space", []string{"\t 7 "}, 7 * time.Second, true},
		{"leading_zeros", []string{"007"}, 7 * time.Second, true},
		{"zero", []string{"0"}, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hint, ok := ParseRetryAfter(tt.values, now)
			require.Equal(t, tt.ok, ok)
			require.Equal(t, tt.want, hint)
		})
	}
}

// Seconds read as nanoseconds, and a panic where there is nothing to draw from (oras-project/oras-go#398).
func TestRegression_A040_retry_after_1_is_one_second(t *testing.T) {
	b := Backoff{Base: 1, Cap: 1}
	hint, ok := ParseRetryAfter([]string{"1"}, time.Now())
	require.True(t, ok)
	for _, b := range []Backoff{b, Default().Backoff} {
		for range 1000 {
			d := b.After(hint, 0, false, nil)
			require.True(t, d >= time.Second && d <= time.Second+b.Ceiling(0, false), "%v", d)
		}
	}
	millis, ok := ParseRetryAfterMillis([]string{"1500"})
	require.True(t, ok)
	require.Equal(t, 1500*ms, millis)
}

func TestBackoff_allocates_nothing(t *testing.T) {
	b, values := Default().Backoff, []string{"7"}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		hint, _ := ParseRetryAfter(values, time.Time{})
		b.After(hint, 3, true, nil)
	}))
}
