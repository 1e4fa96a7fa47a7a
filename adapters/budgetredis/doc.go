// Package budgetredis lets the processes of a fleet share what their breakers and dependency budgets count, through Redis.
//
//	view, err := budgetredis.Share(sdk, redis.NewClient(&redis.Options{Addr: "redis:6379"}))
//	if err != nil {
//		return err // or log it: the process then goes on with its own counts
//	}
//	defer view.Close()
//
// What it does:
//
//  1. Every 250 ms at most ([Interval]) it sends what the process has counted since, and takes what the fleet has counted,
//     for all dependencies in one round trip. A request never waits for Redis: it adds to a counter, as without a View.
//  2. The breaker of each dependency decides on its own finished attempts and on those of the others within its window:
//     failures, and slow attempts where the profile has slow_call. A breaker that the fleet's counts open, opens as they arrive. What it
//     counts in a row, its attempts in flight and its state stay its own: each process opens, probes and closes by
//     itself.
//  3. The dependency budget is one bucket for the fleet (kinds ratio, quota and throttle): its burst is the fleet's. Kind
//     reserve counts over time and stays each process's own, as do the process budget, the availability floor and adaptive
//     throttling.
//  4. The time is the Redis server's, so that the clocks of the processes do not matter.
//  5. If Redis is away, slow, flushed or not ours, the failure is counted ([View.Stats]), each cause is warned of once, and
//     the process goes on by itself: what others counted has left its breakers after one window, and each
//     bucket goes on from its level. It tries again by itself, after 2 s at most.
//  6. A changed catalog is followed. Processes with another window or burst for a dependency count apart until all have
//     the new one.
//
// Between two syncs nobody knows what the others take from the bucket. In one interval n processes may make up to n times the
// retries that the level they all saw allows; what was too much is owed, up to a burst, and nobody retries before it is paid in.
//
// The fleet is the processes of one service, unless [Fleet] says otherwise. Redis 6 or later, as a server, behind
// Sentinel or as a cluster, or anything that runs its scripts. docs/fleet.md of the repository says when it is worth it, what
// it costs, and how Redis is set up.
//
// A View may be used by many goroutines at once. It has one goroutine of its own, which ends with [View.Close].
package budgetredis
