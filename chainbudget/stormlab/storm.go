package stormlab

// storm is what one failure has set off on the way from its cause to a hop. Where several meet in one request, the largest
// counts.
type storm struct {
	depth    int // calls from here to the cause; 0 = it is here
	hops     int // that retried
	farthest int // of them, in calls from the cause
}

// or returns the larger of each.
func (s storm) or(o storm) storm {
	return storm{max(s.depth, o.depth), max(s.hops, o.hops), max(s.farthest, o.farthest)}
}

// above returns the storm one call further up, where the hop has retried or not.
func (s storm) above(retried bool) storm {
	s.depth++
	if retried {
		s.hops++
		s.farthest = s.depth
	}
	return s
}

// storms are those that have ended, because an attempt succeeded, somebody did without the call, or nobody was left to
// retry. Failures for which nobody retried are not among them.
type storms struct{ count, hops, most, farthest int64 }

func (l *storms) add(s storm) {
	l.count++
	l.hops += int64(s.hops)
	l.most, l.farthest = max(l.most, int64(s.hops)), max(l.farthest, int64(s.farthest))
}

func (l *storms) merge(o *storms) {
	l.count, l.hops = l.count+o.count, l.hops+o.hops
	l.most, l.farthest = max(l.most, o.most), max(l.farthest, o.farthest)
}

// mean is how many hops retried because of one failure.
func (l *storms) mean() float64 { return share(l.hops, l.count) }
