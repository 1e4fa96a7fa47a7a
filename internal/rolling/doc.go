// Package rolling counts successes and failures over the last span of time, without a lock and without a clock of its own
// to jump: what the breaker decides on, and the availability floor.
package rolling
