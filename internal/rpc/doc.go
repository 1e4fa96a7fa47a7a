// Package rpc is what the adapters of gRPC and of connect have in common: what codes mean, what pushback says, and which
// methods an option lists.
package rpc
