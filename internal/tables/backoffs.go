package tables

import "time"

// A wait draws how long a policy waits before retry n, the first being 1; random returns a number in [0, 1).
type wait func(n int, random func() float64) time.Duration

// envoyWait is Envoy's backoff: anything up to (2^n - 1) times the base, and to ten times the base.
func envoyWait(n int, random func() float64) time.Duration {
	const base, limit = 25 * time.Millisecond, 250 * time.Millisecond
	return time.Duration(random() * float64(min(time.Duration(1<<n-1)*base, limit)))
}

// grpcWait is gRPC's: an exponential one, with a fifth more or less.
func grpcWait(n int, random func() float64) time.Duration {
	const initial, limit = 100 * time.Millisecond, time.Second
	return time.Duration((.8 + .4*random()) * float64(min(initial<<(n-1), limit)))
}
