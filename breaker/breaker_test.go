package breaker

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/chainbudget/chainbudget-go/profiles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func settings() profiles.Breaker { return profiles.Default().Breaker }

// attempt sends one attempt that ends as o, and reports whether it was admitted.
func attempt(b *Breaker, o Outcome) bool {
	p, err := b.Allow()
	if err != nil {
		return false
	}
	b.Done(&p, o)
	return true
}

// ready reports whether an attempt would be admitted.
func ready(b *Breaker) bool { return b.Refuses() == nil }

// open fails attempts until the breaker opens.
func open(t *testing.T, b *Breaker) {
	t.Helper()
	for range 2 * b.phase().rules.MinRequests {
		attempt(b, Failure)
		if b.State() == Open {
			return
		}
	}
	t.Fatal("the breaker did not open")
}

// halfOpen opens the breaker and waits until it would admit a probe.
func halfOpen(t *testing.T, b *Breaker) {
	t.Helper()
	open(t, b)
	time.Sleep(b.phase().rules.openFor + 1)
	require.Equal(t, HalfOpen, b.State())
}

func TestBreaker_nil_admits_everything(t *testing.T) {
	b := New("payments", profiles.Breaker{}, nil)
	require.Nil(t, b)
	for range 100 {
		require.True(t, attempt(b, Failure))
	}
	require.True(t, ready(b))
	require.Equal(t, Closed, b.State())
	require.Empty(t, b.Name())
	ok, failed := b.Counts()
	require.Zero(t, ok+failed)
}

func TestBreaker_opens_at_ratio_of_minimum(t *testing.T) {
	tests := []struct {
		name               string
		ratio              float64
		min, ok, bad, want int // want = failures when it opens; 0 = never
	}{
		{"below_minimum", 0.5, 20, 0, 19, 0},
		{"at_minimum", 0.5, 20, 0, 20, 20},
		{"half_of_twenty", 0.5, 20, 10, 10, 10},
		{"one_below_half", 0.5, 20, 11, 10, 0},
		{"seven_of_hundred", 0.07, 20, 93, 7, 7},
		{"six_of_hundred", 0.07, 20, 94, 6, 0},
		{"all", 1, 20, 0, 20, 20},
		{"all_but_one", 1, 20, 1, 100, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := settings()
				p.FailureRatio, p.MinRequests = tt.ratio, tt.min
				b := New("payments", p, nil)
				for range tt.ok {
					attempt(b, Success)
				}
				opened := 0
				for i := range tt.bad {
					require.True(t, attempt(b, Failure))
					if b.State() == Open {
						opened = i + 1
						break
					}
				}
				require.Equal(t, tt.want, opened)
			})
		})
	}
}

func TestBreaker_closes_after_all_probes_succeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("payments", settings(), nil)
		halfOpen(t, b)
		for i := range 3 {
			require.Equal(t, HalfOpen, b.State())
			ok, _ := b.Counts()
			require.EqualValues(t, i, ok)
			require.True(t, attempt(b, Success))
		}
		require.Equal(t, Closed, b.State())
		ok, failed := b.Counts()
		require.Zero(t, ok+failed, "a closed breaker begins with an empty window")
	})
}

func TestBreaker_ready_takes_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changes := 0
		b := New("payments", settings(), func(string, State, State) { changes++ })
		require.True(t, ready(b))
		open(t, b)
		require.False(t, ready(b))
		time.Sleep(b.phase().rules.openFor)
		require.False(t, ready(b), "at the last instant of the open time")
		time.Sleep(1 * time.Nanosecond)
		for range 100 {
			require.True(t, ready(b))
		}
		require.Equal(t, 1, changes, "Ready changes no state")
		var probes []Permit
		for range 3 {
			require.True(t, ready(b))
			p, err := b.Allow()
			require.NoError(t, err)
			probes = append(probes, p)
		}
		require.False(t, ready(b))
		b.Done(&probes[0], Ignored)
		require.True(t, ready(b))
	})
}

// A run that must come out the same again says where in its range the jitter stands.
func TestBreaker_open_time_of_a_drawn_jitter(t *testing.T) {
	for share, want := range map[float64]time.Duration{0: 4 * time.Second, 0.5: 5 * time.Second} {
		b := NewDrawn("d", profiles.Breaker{Window: 10 * time.Second, FailureRatio: .5, MinRequests: 1, OpenFor: 5 * time.Second, Probes: 1}, share, nil)
		require.Equal(t, want, b.phase().rules.openFor)
	}
}

// An open time without jitter brings a whole fleet back at one moment.
func TestBreaker_open_time_is_jittered_per_breaker(t *testing.T) {
	seen := map[time.Duration]bool{}
	low, high := time.Hour, time.Duration(0)
	for range 500 {
		b := New("payments", settings(), nil)
		require.InDelta(t, float64(5*time.Second), float64(b.phase().rules.openFor), float64(time.Second))
		seen[b.phase().rules.openFor], low, high = true, min(low, b.phase().rules.openFor), max(high, b.phase().rules.openFor)
	}
	require.Greater(t, len(seen), 490)
	require.Less(t, low, 4100*time.Millisecond)
	require.Greater(t, high, 5900*time.Millisecond)
}

func TestBreaker_hook_that_causes_a_change_is_called_in_order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *Breaker
		var seen []State
		depth := 0
		b = New("payments", settings(), func(_ string, _, to State) {
			depth++
			defer func() { depth-- }()
			require.Equal(t, 1, depth, "one at a time")
			seen = append(seen, to)
			if to == HalfOpen && len(seen) < 6 {
				attempt(b, Failure) // opens it again, from inside
			}
			if to == Open && len(seen) < 6 {
				time.Sleep(b.phase().rules.openFor + 1)
				attempt(b, Ignored) // half-opens it, from inside
			}
		})
		for range b.phase().rules.MinRequests {
			attempt(b, Failure)
		}
		require.Equal(t, []State{Open, HalfOpen, Open, HalfOpen, Open, HalfOpen}, seen)
	})
}

func TestBreaker_survives_a_hook_that_panics_or_exits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []State
		end := func() { panic("hook") }
		b := New("payments", settings(), func(_ string, _, to State) {
			seen = append(seen, to)
			end()
		})
		require.PanicsWithValue(t, "hook", func() { open(t, b) })
		require.Equal(t, Open, b.State())
		time.Sleep(b.phase().rules.openFor + 1)
		end = runtime.Goexit
		done := make(chan struct{})
		go func() {
			defer close(done)
			attempt(b, Ignored)
		}()
		<-done
		require.Equal(t, HalfOpen, b.State())
		end = func() {}
		time.Sleep(b.phase().rules.probeTimeout + 1) // the probe that the hook ended never reported
		for range 3 {
			attempt(b, Success)
		}
		require.Equal(t, []State{Open, HalfOpen, Closed}, seen)
	})
}

func TestState_and_names(t *testing.T) {
	require.Equal(t, "closed open half_open invalid(9)", Closed.String()+" "+Open.String()+" "+HalfOpen.String()+" "+State(9).String())
	require.Equal(t, "payments", New("payments", settings(), nil).Name())
}

// The path of a call allocates nothing: these are promises of the package comment.
func TestBreaker_allocates_nothing(t *testing.T) {
	p := settings()
	p.Window, p.OpenFor = time.Hour, time.Hour // no slice begins, no state ends
	b := New("payments", p, nil)
	attempt(b, Success)
	require.Zero(t, testing.AllocsPerRun(1000, func() { attempt(b, Success) }), "success")
	require.Zero(t, testing.AllocsPerRun(300, func() { attempt(b, Failure) }), "failure")
	require.Equal(t, Closed, b.State())
	for b.State() == Closed {
		attempt(b, Failure)
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, err := b.Allow(); err == nil {
			t.Error("admitted")
		}
		ready(b)
		b.State()
	}), "refusal")
}

func TestBreaker_concurrent_use_counts_everything(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	p := settings()
	p.Window, p.FailureRatio = time.Hour, 1
	b := New("payments", p, nil)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range 2000 {
				attempt(b, Outcome(i%3)) // ignored, success, failure
			}
		})
	}
	wg.Wait()
	ok, failed := b.Counts()
	require.EqualValues(t, 16*667, ok)
	require.EqualValues(t, 16*666, failed)
}
