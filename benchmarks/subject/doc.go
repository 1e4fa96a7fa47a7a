// Package subject holds what the benchmarks measure: the same operation done with the SDK, with other libraries, and
// with nothing around it. The benchmarks, the allocation guards and the comparison all run these, so that a number in one
// of them is about the same code as in the others.
//
// No operation uses the network. What stands below a client is a stub that answers as a callee with the SDK would; it is
// the same for every library, and "bare" shows what it costs alone.
package subject
