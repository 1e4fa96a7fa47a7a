//go:build !unix

package main

import "time"

// processor would return the processor time that the process has used.
func processor() (used time.Duration, ok bool) { return 0, false }
