package budgetconnect

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// FuzzHeader copies headers in any spelling: nothing of an earlier attempt stays, nothing else is lost, and the caller's own are
// not written.
func FuzzHeader(f *testing.F) {
	f.Add("baggage", "a=1,chainbudget=v1.9.9.1.9f86d081.a", "Connect-Timeout-Ms", "250", false)
	f.Add("Baggage", "a=1", "bAGGAGE", "chainbudget=v1.9.9.1.9f86d081.a", true)
	f.Add("grpc-timeout", "99999999H", "chainbudget", "v1.2.3.1.9f86d081.checkout\nx", true)
	f.Add("Chainbudget-Return", "v1.1.1.c.9f86d081.-", "X-Own", "\x00", false)
	f.Fuzz(func(t *testing.T, key1, values1, key2, values2 string, outside bool) {
		from := http.Header{key1: strings.Split(values1, "\n")}
		from[key2] = strings.Split(values2, "\n")
		before := from.Clone()
		to := cleanHeader(from, outside)
		for key, values := range before {
			if !slices.Equal(from[key], values) {
				t.Fatalf("the caller's %q is %q, was %q", key, from[key], values)
			}
			switch canonical(key) {
			case connectTimeout, grpcTimeout, otelprop.HTTPRequestHeader, otelprop.HTTPReturnHeader:
				if len(to[canonical(key)]) > 0 || len(to[key]) > 0 {
					t.Fatalf("%q stays: %q", key, to)
				}
			case otelprop.HTTPBaggageHeader:
				if len(to[key]) > 0 && key != otelprop.HTTPBaggageHeader {
					t.Fatalf("%q stays beside the canonical key", key)
				}
				if outside && otelprop.HasMember(to[otelprop.HTTPBaggageHeader]) {
					t.Fatalf("I6: %q goes outside", to)
				}
			default:
				if !slices.Equal(to[key], values) {
					t.Fatalf("%q is %q, was %q", key, to[key], values)
				}
			}
		}
	})
}

// FuzzDetails reads the details of callees' errors: nothing panics, no hint is below 0, and a return is found only in a detail
// of ours.
func FuzzDetails(f *testing.F) {
	own, err := returnDetail("v1.1.1.c.9f86d081.-")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own.Type(), own.Bytes(), 1)
	f.Add(errorInfoType, []byte{0xff}, 2)
	f.Add(retryInfoType, []byte("\x0a\x02\x08\x05"), 70)
	f.Add(retryInfoType, []byte("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 1)
	f.Fuzz(func(t *testing.T, kind string, value []byte, n int) {
		e := connect.NewError(connect.CodeUnavailable, nil)
		for range int(uint(n) % 80) {
			d, err := connect.NewErrorDetail(&anypb.Any{TypeUrl: "type.googleapis.com/" + kind, Value: value})
			if err != nil {
				t.Fatal(err)
			}
			e.AddDetail(d)
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
