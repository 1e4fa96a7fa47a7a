// Package sabotage breaks an adapter once for each case of the conformance suite, from outside, as a mistake in it would, and
// demands that the case notices.
package sabotage
