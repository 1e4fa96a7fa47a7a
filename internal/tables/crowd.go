package tables

import "math/rand/v2"

// crowd is the SRE book's example of a feedback loop: clients who repeat what failed a second later, up to a number of
// attempts, at a server whose capacity is shared at random among the new requests and the repeated ones.
type crowd struct{ capacity, load, attempts int }

// totals returns how many requests come in each second.
func (c crowd) totals(seconds int, random *rand.Rand) []int {
	came := make([]int, seconds)
	failed := make([]int, c.attempts) // in the second before, by the attempts made
	for second := range came {
		now := append([]int{c.load}, failed[1:]...)
		total := 0
		for _, n := range now {
			total += n
		}
		came[second] = total
		clear(failed)
		left, room := total, min(c.capacity, total)
		for made, n := range now {
			for range n {
				if random.IntN(left) < room {
					room--
				} else if made+1 < c.attempts {
					failed[made+1]++
				}
				left--
			}
		}
	}
	return came
}
