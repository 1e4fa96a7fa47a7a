// Package trees tests the invariants of the budget on whole call trees: random ones in virtual time and on loopback, and
// one clear case for each invariant. It has no code but tests.
package trees
