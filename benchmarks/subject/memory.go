package subject

import "runtime"

// Memory returns the allocations and bytes that one op takes on average, after runs of it. Nothing else may run
// meanwhile.
func Memory(op Op, runs int) (allocs, bytes float64, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 64 { // what is learned or made at first is not the cost of each
		if err := op(); err != nil {
			return 0, 0, err
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		if err := op(); err != nil {
			return 0, 0, err
		}
	}
	runtime.ReadMemStats(&after)
	n := float64(runs)
	return float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n, nil
}

// GrowthLimit is what the heap may grow by while requests go to ever new places: what the runtime itself keeps, and
// nothing for each request.
const GrowthLimit = 64 << 10

// Growth returns by how many bytes the live heap grows over runs of op.
func Growth(op Op, runs int) (int64, error) {
	for range 1000 { // tables that are made at first use
		if err := op(); err != nil {
			return 0, err
		}
	}
	before := liveHeap()
	for range runs {
		if err := op(); err != nil {
			return 0, err
		}
	}
	grown := liveHeap() - before
	return grown, op() // so that what the requests went through was still in use
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
