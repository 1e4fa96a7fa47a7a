//go:build unix

package main

import (
	"syscall"
	"time"
)

// processor returns the processor time that the process has used, garbage collection included. ok is false where the
// system does not say.
func processor() (used time.Duration, ok bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
