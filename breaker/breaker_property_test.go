package breaker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"
)

// Whatever happens, in whatever order and at whatever time: the breaker decides as a plain gobreaker that is told
// everything.
func TestProperty_decides_as_gobreaker_does(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed_", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { compare(t, seed) })
		})
	}
}

var errIgnored = errors.New("ignored")

func compare(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	pick := func(list ...int) int { return list[random.IntN(len(list))] }
	p := settings()
	p.Window = time.Duration(pick(1000, 1001, 333, 10_000)) * time.Millisecond
	p.FailureRatio = float64(pick(10, 30, 50, 100)) / 100
	p.MinRequests = pick(1, 5, 20)
	p.Probes = pick(1, 2, 3, 5)
	p.OpenFor = time.Duration(pick(100, 1000, 5000)) * time.Millisecond
	p.ProbeTimeout = time.Hour // gobreaker never takes a permit back
	b := New("payments", p, nil)

	var period = (p.Window + 9) / 10
	reference := gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  uint32(p.Probes),
		Interval:     p.Window,
		BucketPeriod: period,
		Timeout:      b.phase().rules.openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			n := c.TotalSuccesses + c.TotalFailures
			return n >= uint32(p.MinRequests) && float64(c.TotalFailures)/float64(n) >= p.FailureRatio
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errIgnored) },
	})

	type running struct {
		permit Permit
		done   func(error)
	}
	var calls []running
	seen := map[State]int{}
	for step := range 4000 {
		switch op := random.IntN(10); {
		case op < 4 || len(calls) == 0:
			if (reference.State() != gobreaker.StateOpen) != (b.State() != Open) {
				t.Fatalf("step %d: %v, gobreaker %v", step, b.State(), reference.State())
			}
			done, refErr := reference.Allow()
			ready := ready(b)
			permit, err := b.Allow()
			if (refErr == nil) != (err == nil) || ready != (err == nil) {
				t.Fatalf("step %d: %v, gobreaker %v, ready %v", step, err, refErr, ready)
			}
			if err == nil && random.IntN(50) > 0 { // one in 50 never ends
				calls = append(calls, running{permit, done})
			}
		case op < 8:
			i := random.IntN(len(calls))
			c := calls[i]
			calls[i] = calls[len(calls)-1]
			calls = calls[:len(calls)-1]
			switch roll := random.IntN(100); {
			case roll < 5:
				c.done(errIgnored)
				b.Done(&c.permit, Ignored)
			case roll < 5+badShare(step):
				c.done(errFailed)
				b.Done(&c.permit, Failure)
			default:
				c.done(nil)
				b.Done(&c.permit, Success)
			}
		default:
			time.Sleep(time.Duration(random.Int64N(int64(pick(int(period/4), int(period/4), int(period), int(p.Window), int(p.OpenFor))))))
		}
		want := map[gobreaker.State]State{
			gobreaker.StateClosed: Closed, gobreaker.StateOpen: Open, gobreaker.StateHalfOpen: HalfOpen,
		}[reference.State()]
		if b.State() != want {
			t.Fatalf("step %d: %v, gobreaker %v", step, b.State(), want)
		}
		seen[want]++
		if want == Closed {
			counts := reference.Counts()
			ok, failed := b.Counts()
			if uint64(counts.TotalSuccesses) != ok || uint64(counts.TotalFailures) != failed {
				t.Fatalf("step %d: %d and %d, gobreaker %+v", step, ok, failed, counts)
			}
		}
		if want == HalfOpen && step%500 == 499 {
			// Probes that never end block gobreaker for ever; begin anew to see more than that.
			for _, c := range calls {
				c.done(errIgnored)
				b.Done(&c.permit, Ignored)
			}
			calls = nil
		}
	}
	require.NotZero(t, seen[Closed], "the history has to go through every state")
}

// badShare makes good and bad times, in percent of failures.
func badShare(step int) int { return []int{2, 30, 80, 5}[step/150%4] }
