//go:build unix

package main

import (
	"syscall"
	"time"
)

// processor returns the processor time that the process has used, garbage collection included, or the time since its start
// where the system does not say.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return time.Since(started)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var started = time.Now()
