// Command chainbudget checks, compares and explains catalogs of retry profiles, for reviewers and for CI, prints a runbook for
// whoever is on call, and runs fleets in virtual time to see what their retries do.
//
//	chainbudget catalog check retry-catalog.yaml
//	chainbudget catalog diff main/retry-catalog.yaml retry-catalog.yaml
//	chainbudget catalog explain payments --catalog retry-catalog.yaml
//	chainbudget runbook retry-catalog.yaml
//	chainbudget storm run scenario.yaml
//
// It reads catalogs as the SDK does and changes nothing. Its exit status is 0 if all is well, 1 if a catalog has problems
// (or, where that was asked for, warnings or differences) or a storm misses a threshold, and 2 if the command was used
// wrongly or a path cannot be read.
package main
