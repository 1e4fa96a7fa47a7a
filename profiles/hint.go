package profiles

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// ParseRetryAfter reads the lines of a Retry-After header: seconds or an HTTP date, the first valid line counts. A date
// in the past is 0. Seconds beyond the largest Duration are that Duration. Signs, fractions, exponents, words and empty
// lines are no hint (ok is false), and then the backoff decides alone. now is the reference for dates; HTTP dates
// have whole seconds. It allocates nothing for seconds.
func ParseRetryAfter(values []string, now time.Time) (hint time.Duration, ok bool) {
	for _, v := range values {
		v = strings.Trim(v, " \t")
		if hint, ok = parseCount(v, time.Second); ok {
			return hint, true
		}
		// A date is at most 33 bytes long ("Wednesday, 09-Nov-94 08:49:37 GMT"); longer lines are not looked at.
		if len(v) < 8 || len(v) > 40 {
			continue
		}
		if date, err := http.ParseTime(v); err == nil {
			return max(0, date.Sub(now)), true
		}
	}
	return 0, false
}

// ParseRetryAfterMillis reads the lines of an x-amz-retry-after header: whole milliseconds, with the rules of
// [ParseRetryAfter].
func ParseRetryAfterMillis(values []string) (hint time.Duration, ok bool) {
	for _, v := range values {
		if hint, ok = parseCount(strings.Trim(v, " \t"), time.Millisecond); ok {
			return hint, true
		}
	}
	return 0, false
}

// parseCount reads ASCII digits only; a number of any length saturates.
func parseCount(s string, unit time.Duration) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	var n int64
	limit := math.MaxInt64 / int64(unit)
	for i := range len(s) {
		digit := s[i] - '0'
		if digit > 9 {
			return 0, false
		}
		if n <= limit {
			n = n*10 + int64(digit) // limit*10+9 fits: unit is at least 1 ms
		}
	}
	if n > limit {
		return math.MaxInt64, true
	}
	return time.Duration(n) * unit, true
}
