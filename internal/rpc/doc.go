// Package rpc is what adapters of procedure calls have in common: what codes mean, what pushback says, which methods an option
// lists, the counters by which others say that they have sent a request before, and how a request arrives and is concluded.
package rpc
