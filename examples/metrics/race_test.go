//go:build race

package metrics

// With the race detector a tenth is enough: what it looks for is not rare.
const hostileRequests = 10_000
