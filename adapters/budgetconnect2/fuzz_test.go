package budgetconnect2

import (
	"testing"

	"connectrpc.com/connect/v2"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// FuzzDetails reads the details of callees' errors: nothing panics, no hint is below 0, and a return is found only in a detail
// of ours.
func FuzzDetails(f *testing.F) {
	own, err := returnDetail("v1.1.1.c.9f86d081.-")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own.Type, own.Value, 1)
	f.Add(errorInfoType, []byte{0xff}, 2)
	f.Add(retryInfoType, []byte("\x0a\x02\x08\x05"), 70)
	f.Add(retryInfoType, []byte("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 1)
	f.Fuzz(func(t *testing.T, kind string, value []byte, n int) {
		e := connect.NewError(connect.CodeUnavailable, "down")
		for range int(uint(n) % 80) {
			e = e.WithDetail(&connect.ErrorDetail{Type: kind, Value: value})
		}
		if hint, ok := retryInfo(e); hint < 0 || hint > 0 && !ok {
			t.Fatalf("%v, %v", hint, ok)
		}
		lines := returnLines(e)
		if len(lines) > maxDetails || len(lines) > 0 && kind != errorInfoType {
			t.Fatalf("%d lines of a %q", len(lines), kind)
		}
		otelprop.ReadReturn(lines, 0x9f86d081, 3)
	})
}
