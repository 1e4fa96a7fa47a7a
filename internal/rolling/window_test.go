package rolling

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestWindow_forgets_in_tenths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWindow(10 * time.Second)
		for i := range 10 {
			w.Add(i%2 == 0)
			time.Sleep(time.Second)
		}
		// 10 s after the start the first slice has left; nine events are in the window.
		for left := 9; left > 0; left-- {
			ok, total := w.Ratio()
			require.EqualValues(t, left, total)
			require.EqualValues(t, left/2, ok)
			time.Sleep(time.Second)
		}
		_, total := w.Ratio()
		require.Zero(t, total)
	})
}

// Against a list of all events, after long pauses as well.
func TestWindow_property_equals_a_list(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		const span = time.Second
		w, start := NewWindow(span), time.Now()
		type event struct {
			slice   int64
			success bool
		}
		var events []event
		for range 5000 {
			now := int64(time.Since(start) / (span / parts))
			if random.IntN(3) > 0 {
				e := event{now, random.IntN(4) > 0}
				events = append(events, e)
				w.Add(e.success)
			}
			var ok, total uint64
			for _, e := range events {
				if e.slice > now-parts {
					total++
					if e.success {
						ok++
					}
				}
			}
			gotOK, gotTotal := w.Ratio()
			require.Equal(t, []uint64{ok, total}, []uint64{gotOK, gotTotal})
			time.Sleep(time.Duration(random.Int64N(int64(span) / 5)))
			if random.IntN(100) == 0 {
				time.Sleep(time.Duration(random.Int64N(int64(5 * span))))
			}
		}
	})
}

func TestWindow_nil_and_empty(t *testing.T) {
	require.Nil(t, NewWindow(0))
	require.Nil(t, NewWindow(-time.Second))
	var w *Window
	w.Add(true)
	ok, total := w.Ratio()
	require.Zero(t, ok+total)
	tiny := NewWindow(1)
	tiny.Add(true)
	tiny.Ratio()
}

func TestWindow_allocates_nothing_within_a_slice(t *testing.T) {
	w := NewWindow(time.Hour)
	w.Add(true)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		w.Add(true)
		w.Add(false)
		w.Ratio()
	}))
}

// Slices begin while others add: nothing of the last slices may get lost or be counted twice.
func TestWindow_stress_counts_everything_once(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	w := NewWindow(time.Hour)
	w.ring.Period = 50 * time.Microsecond // many slices; all blocks are counted by hand below
	var r Ring
	r.Init(time.Hour)
	var added atomic.Uint64
	var wg sync.WaitGroup
	var age atomic.Int64
	for range 16 {
		wg.Go(func() {
			for range 2000 {
				w.Add(true)
				// Within one window no block is replaced, so that every event must be found.
				r.At(time.Duration(age.Add(1)%parts) * r.Period).Add(true)
				added.Add(1)
			}
		})
	}
	wg.Wait()
	s := r.Sum((parts - 1) * r.Period)
	require.Equal(t, added.Load(), s.OK)
	require.Zero(t, s.Failed)
}

// An adder that was stopped for a whole window must not count into the slice that took its place.
func TestWindow_late_adder_counts_nowhere(t *testing.T) {
	var r Ring
	r.Init(time.Second)
	late := r.At(0)
	r.At(time.Second).Add(true)
	late.Add(false)
	r.At(0).Add(false)
	s := r.Sum(time.Second)
	require.EqualValues(t, 1, s.OK)
	require.Zero(t, s.Failed)
}

// A jump of the wall clock moves what is in the window. On the real clock, because the instants of a synctest bubble have
// no monotonic part.
func TestRegression_A104_wall_clock_does_not_matter(t *testing.T) {
	w := NewWindow(time.Minute)
	w.Add(true)
	before := w.start.Round(0)
	// The seconds of a time.Time that has both parts begin at bit 30 of its first word.
	*(*uint64)(unsafe.Pointer(&w.start)) -= 3600 << 30
	require.Equal(t, -time.Hour, w.start.Round(0).Sub(before))
	_, total := w.Ratio()
	require.EqualValues(t, 1, total)
}
