package otelprop

import (
	"strings"
	"testing"
)

// BenchmarkRead compares ordinary input with hostile input: what follows the bound must cost nothing.
func BenchmarkRead(b *testing.B) {
	const unit = " chainbudget=x ,"
	line := strings.Repeat(unit, MaxBaggageBytes/len(unit))
	many := make([]string, 1000)
	for i := range many {
		many[i] = line
	}
	huge := []string{strings.Repeat(unit, 8<<20/len(unit))}
	for _, bb := range []struct {
		name            string
		baggage, header []string
	}{
		{"ordinary", ordinaryBaggage, ordinaryHeader},
		{"relayed", ordinaryBaggage, nil},
		{"junk_8KiB", []string{line}, ordinaryHeader},
		{"junk_1000_lines_of_8KiB", many, ordinaryHeader},
		{"junk_one_line_of_8MiB", huge, ordinaryHeader},
	} {
		b.Run("request/"+bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ReadRequest(bb.baggage, bb.header, 3)
			}
		})
		b.Run("strip/"+bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				StripBaggage(bb.baggage)
			}
		})
		b.Run("merge/"+bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				MergeBaggage(bb.baggage, oursA)
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	r := ordinaryRequest
	buf := make([]byte, 0, 512)
	ret := Return{Returned: 2, Claim: 2, Nonce: 1, Owner: "ledger"}
	b.Run("request", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.AppendWire(buf)
		}
	})
	b.Run("return", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ret.Append(buf)
		}
	})
}
