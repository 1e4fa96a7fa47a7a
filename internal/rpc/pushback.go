package rpc

import (
	"math"
	"strconv"
	"time"
)

// PushbackKey is the trailer by which a gRPC server says when to ask again (gRFC A6).
const PushbackKey = "grpc-retry-pushback-ms"

// NoRetry is its value for never.
const NoRetry = "-1"

// Pushback reads the trailer's values. One that is negative or no number, or more than one, asks for no retry.
func Pushback(values []string) (hint time.Duration, ok, never bool) {
	if len(values) == 0 {
		return 0, false, false
	}
	millis, err := strconv.ParseInt(values[0], 10, 64)
	if len(values) > 1 || err != nil || millis < 0 {
		return 0, false, true
	}
	if millis > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64, true, false
	}
	return time.Duration(millis) * time.Millisecond, true, false
}
