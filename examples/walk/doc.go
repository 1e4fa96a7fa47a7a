// Package walk goes through everything that the SDK can decide, over real HTTP, and looks for it in spans and metrics: each
// reason, each claim and each state of a breaker.
package walk
