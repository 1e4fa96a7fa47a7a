// Package polyglot shows, in its tests, services in other languages in a chain, as processes of their own.
//
//  1. A Node service with OpenTelemetry's auto-instrumentation and without the SDK, between hops that have it: it relays one
//     token at most to each of its callees, the retries of the tree stay within that, and the entry takes the missing
//     return for what it is.
//  2. The hops of docs/other-languages.md, in Node and Python: the codec of each reads and writes what
//     otelprop/testdata/wire-vectors.json says, and a service made of it is a full hop.
//
// The tests need node, the packages of node/package-lock.json (make node, in the repository's top folder) and python3.
// Where one is missing they say so on standard error and in the log of make test; with CHAINBUDGET_LANGUAGES=required in
// the environment, they fail.
package polyglot
