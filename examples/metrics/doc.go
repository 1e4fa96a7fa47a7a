// Package metrics shows the SDK's numbers to a Prometheus that client_golang serves, and walks through everything that the
// instruments count.
package metrics
