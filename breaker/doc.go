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
//     failure can open it, or one of the points 2, 3, 7 and 8.
//  2. Where the profile asks for it, it also opens after so many failures in a row, however long that took. A success
//     ends the row.
//  3. Where the profile asks for it, an attempt is slow if it took so long, whether it succeeded or failed, and too large
//     a share of slow attempts opens it. A slow success is no failure in [Breaker.Counts]. Half-open, a slow probe has
//     failed.
//  4. Where the profile asks for it, an attempt is refused while so many are in flight, in each state. An attempt is in
//     flight until [Breaker.Done]; one that is never reported, for one to two hours.
//  5. Open, it refuses everything for the profile's open time, which is longer or shorter by up to 20 %, drawn once for each
//     breaker, so that a fleet does not come back at the same moment.
//  6. Half-open, it admits exactly as many probes as the profile says. When all have succeeded it closes with an empty
//     window; when one fails it opens again. A probe that ends [Ignored] gives its permit back at once; one that never ends
//     gives it back after the probe timeout, and once it has been replaced its result counts for nothing.
//  7. [Breaker.Configure] changes the settings at once and keeps the state, the counts, and what is out.
//  8. [Breaker.Merge] adds what other processes have finished to the shares of points 1 and 3, until it has left the window.
//  9. Results of attempts that began before the last change of state count for nothing.
//
// Which state follows on which is decided by github.com/sony/gobreaker/v2; when, by the rules above. Without points 2
// to 4, 7 and 8 it decides as a gobreaker with a rolling window does; a test runs both on the same history and compares.
// Around it, this package keeps successes off its lock, bounds hung probes, names the dependency in errors, and calls hooks
// outside of locks.
//
// What it does not do: it judges no statuses and no errors (its caller says what was a failure, and must say [Ignored] of
// cancellations, of refusals of its own and of 4xx), it does not count attempts that have not finished, except against
// the limit in flight (a dependency that hangs is seen when attempts time out, so give them a timeout), it knows no hosts or
// paths, starts no goroutine, and talks to no other process.
//
// Everything may be used concurrently, except that one [Permit] belongs to one goroutine at a time and is not copied.
// Time is monotonic. Refusing allocates nothing and takes no lock; neither does admitting and succeeding while closed,
// except for one small block of counters for each tenth of the window. What is not asked for costs nothing there: slow
// attempts cost a look at the clock when one ends, a limit in flight two writes to one word.
package breaker
