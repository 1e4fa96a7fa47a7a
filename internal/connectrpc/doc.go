// Package connectrpc is what the adapters of connect's two major versions have in common: one call over net/http, unary or of
// a stream, with its attempts, its wire and what their errors mean. It knows neither version.
package connectrpc
