//go:build !race

package metrics

// hostileRequests is how many requests come with names that nobody has declared.
const hostileRequests = 100_000
