package stormlab

import (
	"hash/fnv"
	"math"
	"time"
)

// stream is the random numbers of one thing, such as one service. Its numbers belong to ordinals: what a service draws for
// the tenth request that reaches it is the same whatever happened elsewhere.
type stream uint64

// streamOf returns the stream of something with that name.
func streamOf(seed uint64, cell int, kind, name string) stream {
	h := fnv.New64a()
	h.Write([]byte(kind))
	h.Write([]byte{0})
	h.Write([]byte(name))
	return stream(scramble(scramble(seed) ^ uint64(cell)<<48 ^ h.Sum64()))
}

// bits returns the number that belongs to an ordinal and to what it is for.
func (s stream) bits(ordinal uint64, what draws) uint64 {
	return scramble(scramble(uint64(s)^ordinal) + uint64(what))
}

// share returns the same as a number in [0, 1).
func (s stream) share(ordinal uint64, what draws) float64 {
	return float64(s.bits(ordinal, what)>>11) / (1 << 53)
}

// of returns the stream of one part of what s is about.
func (s stream) of(ordinal uint64, what draws) stream { return stream(s.bits(ordinal, what)) }

// draws tells apart what is drawn for one ordinal.
type draws uint64

const (
	drawWork draws = iota + 1
	drawFailure
	drawFault
	drawNetwork
	drawCall  // by the place of the call
	drawNeed  // by the place of the call and its repetition
	drawPlace // and, by the place of a service, those after it
)

// scramble is the output function of the generator SplitMix64 (Steele, Lea and Flood 2014).
func scramble(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// draw returns the latency that belongs to a number in [0, 1).
func (l Latency) draw(share float64) int64 {
	switch {
	case l.Mean > 0:
		return int64(-float64(l.Mean) * math.Log(1-share))
	case l.P50 > 0:
		// A lognormal distribution: the logarithm is normal, with its 99th percentile 2.326 deviations above the median.
		sigma := math.Log(float64(l.P99)/float64(l.P50)) / 2.3263478740408408
		return int64(min(float64(l.P50)*math.Exp(sigma*normal(share)), float64(maxLatency)))
	default:
		return int64(l.Min) + int64(share*float64(l.Max-l.Min))
	}
}

// normal returns the quantile of the standard normal distribution.
func normal(share float64) float64 {
	const least = 1e-12
	return math.Sqrt2 * math.Erfinv(2*min(max(share, least), 1-least)-1)
}

// maxLatency bounds what a distribution without a bound draws.
const maxLatency = time.Hour

// blur is added to each latency: a part of a microsecond, so that few events meet at one instant.
func (s stream) blur(ordinal uint64, what draws) int64 { return int64(s.bits(ordinal, what) & 0x3ff) }
