// Package instruments has the one table of the SDK's metrics and registers them with a meter. It knows their names and
// OpenTelemetry's API; who registers brings the values, read from numbers that are counted anyway. So every instrument is
// an observable one, and the path of a request meets none of them.
package instruments
