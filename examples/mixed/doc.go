// Package mixed is chains whose hops speak different protocols: one hop net/http, the next gRPC, the next connect, and so
// on. Its tests hold that the budget and the claims count as in a chain of one protocol.
//
// A handler returns the error of its call in its own protocol's clothes, with the original wrapped inside, and that is all
// it takes: an error of budgethttp is no gRPC status, and one of gRPC no *connect.Error.
package mixed
