package tables

import "math"

// choose returns n over k.
func choose(n, k int) int {
	c := 1
	for i := 1; i <= k; i++ {
		c = c * (n - k + i) / i
	}
	return c
}

// power returns base to the n.
func power(base, n int) int {
	p := 1
	for range n {
		p *= base
	}
	return p
}

// pooled is the share of requests that succeed when all of d attempts are needed, each fails with p, and b retries can
// go wherever they are needed. It is the ceiling of every way to share b retries: for a chain of d edges as for a
// fan-out to d leaves.
func pooled(d, b int, p float64) float64 {
	var sum float64
	for j := range b + 1 {
		sum += float64(choose(d+j-1, j)) * math.Pow(p, float64(j))
	}
	return sum * math.Pow(1-p, float64(d))
}

// retriedOnce is the share of chains of d edges that succeed when every hop has one retry of its own.
func retriedOnce(d int, p float64) float64 { return math.Pow(1-p*p, float64(d)) }

// threeSigma is the tolerance for a share drawn from a sample of n.
func threeSigma(share float64, n int) float64 { return 3 * math.Sqrt(share*(1-share)/float64(n)) }
