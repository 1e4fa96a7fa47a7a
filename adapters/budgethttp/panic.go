package budgethttp

import "runtime"

// panicFrames is how many frames may lie between a middleware's recovery and the writing of its answer.
const panicFrames = 48

// panicking reports whether a deferred function that a panic runs is calling. It is how a panic is known that a middleware
// further in has recovered: the function that recovers still runs on top of it when it writes the answer.
func panicking() bool {
	var callers [panicFrames]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if frame.Function == "runtime.gopanic" {
			return true
		}
		if !more {
			return false
		}
	}
}
