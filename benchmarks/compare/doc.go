// Command compare measures what the SDK costs against other libraries and prints one row for each cost that the project
// promises.
//
// All sides of a row are measured in one run, round by round in turn, so that a machine that gets slower or faster does so
// for all of them; a row shows medians. A large empty heap keeps the garbage collector from running more often for one
// side than for the other. One goroutine is measured in processor time, several are in real time. Allocations are exact:
// where a target for them is missed, the command ends with status 1. Times are only reported, because they depend on
// the machine.
package main
