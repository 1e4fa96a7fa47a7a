// Command compare measures what the SDK costs against other libraries and prints one block for each operation: the SDK,
// the libraries, and the operation with nothing around it.
//
// All sides of a block are measured in one run, round by round in turn, so that a machine that gets slower or faster does so
// for all of them; a block shows medians. A large empty heap keeps the garbage collector from running more often for one
// side than for the other. Time is processor time; of several goroutines it is also real time. Allocations are exact: where a
// target for them is missed, the command ends with status 1. Times are only reported, because they depend on the machine.
package main
