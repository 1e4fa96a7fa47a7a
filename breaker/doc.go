// Package breaker has the circuit breaker of one dependency: while too many attempts fail, it refuses them before they
// are sent.
//
//	b := breaker.New("payments", profile.Breaker, nil) // nil if the profile has no breaker: admits everything
//	permit, err := b.Allow()
//	if err != nil {
//		return err // a *breaker.OpenError: which dependency, and for how long
//	}
//	defer b.Done(&permit, breaker.Ignored) // if send panics; does nothing after the Done below
//	ok := send()
//	b.Done(&permit, outcomeOf(ok))
//
// What it does:
//
//  1. Closed, it admits everything and counts what has finished over a rolling window, in ten steps. An attempt
//     counts where it began. When the window holds enough attempts and too large a share of them failed, it opens. Only a
//     failure can open it.
//  2. Open, it refuses everything for the profile's open time, which is longer or shorter by up to 20 %, drawn once for each
//     breaker, so that a fleet does not come back at the same moment.
//  3. Half-open, it admits exactly as many probes as the profile says. When all have succeeded it closes with an empty
//     window; when one fails it opens again.
//  4. A probe that ends [Ignored] gives its permit back at once; one that never ends gives it back after the probe
//     timeout, and its late result counts for nothing.
//  5. Results of attempts that began before the last change of state count for nothing.
//
// The states, and the decision when to leave each, are those of github.com/sony/gobreaker/v2 with its rolling window; a
// test runs both on the same history and compares. Around it, this package keeps successes off its lock, bounds hung probes,
// names the dependency in errors, and calls hooks outside of locks.
//
// What it does not do: it judges no statuses and no errors (its caller says what was a failure, and must say [Ignored] of
// cancellations, of refusals of its own and of 4xx), it does not count attempts that have not finished (a dependency that
// hangs is seen when attempts time out, so give them a timeout), it knows no hosts or paths, starts no goroutine, and
// shares nothing with other processes.
//
// Everything may be used concurrently, except that one [Permit] belongs to one goroutine at a time. Time is monotonic.
// Refusing allocates nothing and takes no lock; neither does admitting and succeeding while closed, except for one
// small block of counters for each tenth of the window.
package breaker
