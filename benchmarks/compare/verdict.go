package main

import (
	"fmt"
	"strings"
)

// verdict is how a side compares with its targets.
type verdict struct {
	targets            []string
	slow, allocsMissed bool
}

func (v *verdict) time(is, want float64, text string) {
	v.targets = append(v.targets, text)
	v.slow = v.slow || !(is <= want)
}

func (v *verdict) memory(is, want float64, text string) {
	v.targets = append(v.targets, text)
	v.allocsMissed = v.allocsMissed || !(is <= want)
}

// String says it in a word. A missed target for allocations fails the run, one for time is reported.
func (v *verdict) String() string {
	switch {
	case len(v.targets) == 0:
		return ""
	case v.allocsMissed:
		return "MISS: allocations"
	case v.slow:
		return "miss: slower"
	default:
		return "ok"
	}
}

func (v *verdict) text() string { return strings.Join(v.targets, ", ") }

// own compares ours with the row's targets.
func (res *result) own() *verdict {
	v := new(verdict)
	if res.nanos > 0 {
		v.time(res.ours.nanos, res.nanos, fmt.Sprintf("<= %.0f ns", res.nanos))
	}
	if res.row.allocs != none {
		v.memory(res.added(res.ours).allocs, float64(res.row.allocs), fmt.Sprintf("<= %d allocs", res.row.allocs))
	}
	return v
}

// against compares ours with a peer.
func (res *result) against(c comparison) *verdict {
	v := new(verdict)
	switch {
	case c.ratio > 0 && res.waits():
		v.time(c.real, c.ratio, fmt.Sprintf("real <= %.2f", c.ratio))
	case c.ratio > 0:
		v.time(c.time, c.ratio, fmt.Sprintf("time <= %.2f", c.ratio))
	}
	if c.share > 0 {
		v.memory(c.allocs, c.share, fmt.Sprintf("allocs <= %.2f", c.share))
	}
	if c.peer.bytes > 0 {
		v.memory(res.ours.bytes-c.figures.bytes, c.peer.bytes, fmt.Sprintf("<= +%.0f B", c.peer.bytes))
	}
	return v
}

// missed reports whether a target for allocations was missed, which fails the run.
func (res *result) missed() bool {
	missed := res.own().allocsMissed
	for _, c := range res.peers {
		missed = missed || res.against(c).allocsMissed
	}
	return missed
}
