package profiles

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// FuzzRetryAfter reads what servers write into Retry-After and its like: never below 0, never a hint where there is none, and
// white space, or a line before that is no hint, changes nothing.
func FuzzRetryAfter(f *testing.F) {
	for _, line := range []string{"", "0", "1", " 120\t", "-1", "+1", "1.5", "1e3", "٣", "9223372036854775807", strings.Repeat("9", 400),
		"Wed, 21 Oct 2026 07:28:00 GMT", "Wednesday, 21-Oct-26 07:28:00 GMT", "Wed Oct 21 07:28:00 2026", "Thu, 01 Jan 1970 00:00:00 GMT"} {
		f.Add(line, int64(1_792_567_680))
	}
	f.Fuzz(func(t *testing.T, line string, unix int64) {
		now := time.Unix(unix%(1<<36), 0)
		hint, ok := ParseRetryAfter([]string{line}, now)
		millis, okMillis := ParseRetryAfterMillis([]string{line})
		if hint < 0 || millis < 0 || !ok && hint != 0 || !okMillis && millis != 0 {
			t.Fatalf("%q: %v %v, %v %v", line, hint, ok, millis, okMillis)
		}
		digits := strings.Trim(line, " \t")
		number := digits != "" && strings.Trim(digits, "0123456789") == ""
		if okMillis != number || number && !ok {
			t.Fatalf("%q is a number of digits: %t; read as seconds %t, as milliseconds %t", line, number, ok, okMillis)
		}
		if n, err := strconv.ParseInt(digits, 10, 64); number && (err != nil || n > math.MaxInt64/int64(time.Second)) {
			if hint != math.MaxInt64 {
				t.Fatalf("%q: %v does not saturate", line, hint)
			}
		} else if number && hint != time.Duration(n)*time.Second {
			t.Fatalf("%q: %v", line, hint)
		}
		for _, lines := range [][]string{{"\t" + line + " "}, {"soon", line}, {line, "7"}} {
			if again, okAgain := ParseRetryAfter(lines, now); ok && (again != hint || !okAgain) {
				t.Fatalf("%q: %v, %v; alone %v", lines, again, okAgain, hint)
			}
		}
	})
}
