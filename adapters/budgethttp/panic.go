package budgethttp

import (
	"runtime"
	"slices"
	"sync"
)

// panicFrames is how many frames may lie between a middleware's recovery and the writing of its answer.
const panicFrames = 48

// panicking reports whether a deferred function that a panic runs is calling. It is how a panic is known that a middleware
// further in has recovered: the function that recovers still runs on top of it when it writes the answer.
func panicking() bool {
	var callers [panicFrames]uintptr
	return slices.Contains(callers[:runtime.Callers(2, callers[:])], panicSite())
}

// panicSite is the place in package runtime from which panics run deferred functions; 0, which is no place, if it is not
// found. Asking each frame for its name would cost five times as much.
var panicSite = sync.OnceValue(func() (site uintptr) {
	defer func() {
		_ = recover()
		var callers [panicFrames]uintptr
		for _, pc := range callers[:runtime.Callers(1, callers[:])] {
			if frame, _ := runtime.CallersFrames([]uintptr{pc}).Next(); frame.Function == "runtime.gopanic" {
				site = pc
			}
		}
	}()
	panic("chainbudget: to learn what a panic looks like; recovered at once")
})
