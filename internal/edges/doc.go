// Package edges remembers, for every edge from an inbound operation to a dependency, how often the dependency failed and
// how often that failed the operation. It learns from every request, not from a sample, and answers whose failure a
// failure is where nothing exact is known.
//
// An edge is fail-close when at least four of five failures of the dependency failed the operation, fail-open when at
// most one of five did, each with 95 % confidence: 16 of 16 are enough. Only the last failures count, about 32 of them, so
// that a dependency that changes is reclassified soon; beyond the last few they also fade with the time in which there
// was traffic.
//
// All methods of [Table] and [Operation] may be called by many goroutines at once. Requests without a failure pay a few
// atomic additions and never a lock.
package edges
