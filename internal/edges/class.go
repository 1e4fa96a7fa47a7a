package edges

import "math"

// Class is what an edge has shown about a dependency's failures. The zero value is [Unknown].
type Class uint8

// The classes.
const (
	Unknown   Class = iota // too few failures, or too mixed
	FailClose              // its failure fails the operation
	FailOpen               // the operation answers without it
)

var classNames = [...]string{"unknown", "fail_close", "fail_open"}

// String returns the class's word.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "invalid"
}

const (
	closeAt = 0.8 // a share at or above fails close
	openAt  = 0.2 // a share at or below fails open
	// confidence is the z of a two-sided 95 % interval. Source: E. B. Wilson 1927, Probable inference.
	confidence = 1.96
)

// classify says what both of failed failures show.
func classify(both, failed float64) Class {
	if failed <= 0 {
		return Unknown
	}
	share := both / failed
	low, high := Wilson(share, failed)
	switch {
	case share >= closeAt && low >= closeAt:
		return FailClose
	case share <= openAt && high <= openAt:
		return FailOpen
	default:
		return Unknown
	}
}

// Wilson returns the 95 % Wilson score interval of a share seen in n trials.
func Wilson(share, n float64) (low, high float64) {
	const z = confidence
	center := share + z*z/(2*n)
	spread := z * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	scale := 1 + z*z/n
	return (center - spread) / scale, (center + spread) / scale
}
