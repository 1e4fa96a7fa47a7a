package stormlab

// station is where the requests of one service wait and are worked on: so many workers, one queue, first come first
// served. How long a request will take is known when it comes, so its end is computed at once and nothing has to be woken. A
// worker finishes what it began, and begins what was accepted, also when the caller has gone.
type station struct {
	free    []int64 // when each worker is free, as a heap; empty = there are as many workers as requests
	starts  []int64 // of those that wait, in order; those before head have begun
	head    int
	waiting int // that may wait
}

func newStation(workers, queue int) *station {
	return &station{free: make([]int64, workers), waiting: queue}
}

// accept returns when a request that comes now is done, or false if the queue is full.
func (s *station) accept(now, work int64) (done int64, ok bool) {
	if len(s.free) == 0 {
		return now + work, true
	}
	start := s.free[0]
	if start <= now {
		start = now
	} else {
		for s.head < len(s.starts) && s.starts[s.head] <= now {
			s.head++
		}
		if len(s.starts)-s.head >= s.waiting {
			return 0, false
		}
		if s.head > 1024 && s.head > len(s.starts)/2 {
			s.starts = append(s.starts[:0], s.starts[s.head:]...)
			s.head = 0
		}
		s.starts = append(s.starts, start)
	}
	s.free[0] = start + work
	s.sink()
	return start + work, true
}

// sink moves the top of the heap to its place.
func (s *station) sink() {
	f := s.free
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(f); child++ {
			if f[child] < f[least] {
				least = child
			}
		}
		if least == i {
			return
		}
		f[i], f[least] = f[least], f[i]
		i = least
	}
}
