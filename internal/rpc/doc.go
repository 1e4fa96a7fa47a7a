// Package rpc is what adapters have in common: what codes mean, what pushback says, which methods an option lists, and the
// counters by which others say that they have sent a request before.
package rpc
