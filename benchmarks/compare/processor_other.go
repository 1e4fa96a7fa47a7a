//go:build !unix

package main

import "time"

// processor would return the processor time that the process has used. Here it is the time since its start.
func processor() time.Duration { return time.Since(started) }

var started = time.Now()
