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

// split is the share of fan-outs of k calls that succeed when b retries are split over the calls.
func split(k, b int, p float64) float64 {
	success := 1.0
	for i := range k {
		own := b / k
		if i < b%k {
			own++
		}
		success *= 1 - math.Pow(p, float64(own+1))
	}
	return success
}

// retriedOnce is the share of chains of d edges that succeed when every hop has one retry of its own.
func retriedOnce(d int, p float64) float64 { return math.Pow(1-p*p, float64(d)) }

// chance is how far a share drawn from a sample of n may lie from the true one: three standard deviations. Where so few of
// the other outcome are expected that their number has no normal distribution, it is the Poisson distribution's bound for
// the same confidence: with one expected in ten samples, one in a sample is no surprise.
func chance(share float64, n int) float64 {
	sigma := math.Sqrt(share * (1 - share) / float64(n))
	rare := min(share, 1-share) * float64(n)
	if rare >= fewExpected {
		return 3 * sigma
	}
	most, term := 0, math.Exp(-rare)
	for sum := term; sum < oneSided; sum += term {
		most++
		term *= rare / float64(most)
	}
	return (float64(most) + .5 - rare) / float64(n) // half a count, so that rounding does not decide
}

const (
	fewExpected = 10
	oneSided    = 0.99865 // of a normal distribution below three standard deviations
)
