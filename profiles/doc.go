// Package profiles has the catalog: the reviewed file that says how often, how soon and against which limits each
// dependency may be retried, and the named profiles that it chooses from.
//
//	catalog, err := profiles.LoadFile("retry-catalog.yaml")
//	if err != nil {
//		return err // a *profiles.CatalogError lists every problem with its line and its remedy
//	}
//	effective, err := catalog.Resolve("payments", profiles.WritePath)
//
// What holds by default:
//
//  1. Every catalog has the eight built-in profiles, which are themselves a file, builtin.yaml, read by the same loader.
//     Another file may extend them and cannot redefine them.
//  2. A profile that extends nothing starts from [Default] and must say max_attempts; every other key has its default.
//  3. The profile that the catalog pins to a dependency wins over the one named in code.
//  4. Delays are full jitter; no setting turns the jitter off. What a server asks for is a lower bound.
//  5. Without internal_hosts, names of one part, *.svc, *.cluster.local, *.internal, loopback and private addresses are
//     internal.
//
// A file is read strictly: unknown keys, repeated keys, values of another type, numbers out of range, settings that
// contradict each other, anchors, aliases, tags, and bare yes, no, on and off are errors, all listed at once. No value is
// corrected silently. What is allowed and probably not meant is in [Catalog.Warnings]. Loading the same values always gives
// the same [Profile.Digest], however they are spelled.
//
// This file has every key once; the ranges and defaults stand at the fields of [Chain], [Profile], [Dependency] and
// [Service], whose names are those of the keys:
//
//	version: 1
//	chain: {mode: observe, budget: 3, max_budget: 10, orphan_budget: 1, process_budget: 0, deadlines: propagate,
//	  unknown: compare, learn: observe, holdout: 0%, grace: 1h}
//	profiles:
//	  ledger-write:
//	    extends: write-path
//	    retry: {max_attempts: 2, statuses: [429, 503], attempt_timeout: 2s, timeout: 10s, reserve: 0, repeats: count,
//	      missing: retry}
//	    backoff: {base: 200ms, throttled_base: 1s, cap: 20s, hint: add}
//	    # kind: quota has burst, cost, throttled_cost; throttle has ratio, burst; reserve has ratio, min_per_second, ttl
//	    budget: {kind: ratio, ratio: 10%, fund: successes, burst: 10}
//	    breaker: {window: 10s, failure_ratio: 30%, min_requests: 20, open_for: 5s, probes: 3, probe_timeout: 5s,
//	      consecutive_failures: 0, slow_call: 1s, slow_ratio: 50%, max_in_flight: 0}
//	    hedge: disabled # as budget and breaker can be; else {after: 50ms, max: 1}
//	    adaptive_throttle: disabled # as budget and breaker can be; else {k: 2, window: 2m}
//	    process_budget: 0
//	    availability_floor: 80%
//	    external: false
//	dependencies:
//	  payments: {profile: ledger-write, owner: team-ledger, on_failure: closed, hosts: ["payments.internal"],
//	    external: false, mesh: envoy, mode: enforce}
//	services:
//	  checkout: {routes: {"POST /checkout": {budget: 5}}} # an entry's
//	  payments-api: {serves: [payments], idempotent: ["GET /balance/{id}"], failure_statuses: [500, 502, 503, 504]}
//	internal_hosts: ["*.corp.example.com", "10.0.0.0/8"]
//	overrides: {retries: disabled, dependencies: {payments: {retries: disabled}}}
//
// A catalog can be a folder instead, so that every part has a path that its owners review:
//
//	retry-catalog/
//	  catalog.yaml               any keys; as many *.yaml as wanted, such as overrides.yaml for who is on call
//	  profiles/writes.yaml       profiles only, any number
//	  dependencies/payments.yaml nothing but dependencies.payments
//	  services/checkout.yaml     nothing but services.checkout
//
// Each file has the form of a whole catalog, with its own version, and can be moved into another one as it is. What two
// files both set is an error that names both places; the order of files means nothing. Names that are no file names, such
// as "a/b", go into a file at the top.
//
// The package does not retry, sleep, watch files, or know HTTP clients; it imports the standard library and a YAML
// parser. Loaded catalogs are immutable and may be read from any number of goroutines.
package profiles
