//go:build linux || darwin

package otelprop

import (
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hugeLine returns a string of 8 MiB that begins with the repeated unit and whose bytes from 16 KiB on cannot be read:
// whoever looks there dies. So a bound is shown to hold without a clock.
func hugeLine(t *testing.T, unit string) string {
	t.Helper()
	const readable, size = 16 << 10, 8 << 20
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(mem)) })
	copy(mem[:readable], strings.Repeat(unit, readable/len(unit)+1))
	require.NoError(t, syscall.Mprotect(mem[readable:], syscall.PROT_NONE))
	return unsafe.String(&mem[0], size)
}

// TestBound_HugeLines reads, strips and merges lines of 8 MiB, of which only the first 8 KiB may be looked at.
func TestBound_HugeLines(t *testing.T) {
	for _, unit := range []string{"a", ",", " ", "a=1,", "chainbudget", "chainbudget=,", " chainbudget ,", oursA + ",", "v1.3.3.1.9f86d081.a;"} {
		line := hugeLine(t, unit)
		lines := []string{line, line}
		many := make([]string, 1000)
		for i := range many {
			many[i] = line
		}

		got, _ := ReadRequest(lines, many, 3)
		assert.LessOrEqual(t, got.Grant, uint8(1), unit)
		_, ok, rejects := ReadReturn(lines[:1], 1, 3)
		assert.False(t, ok)
		assert.Equal(t, Rejects{RejectTooLong: 1}, rejects)

		assert.True(t, HasMember(lines))
		kept, found := StripBaggage(lines)
		assert.True(t, found)
		assert.LessOrEqual(t, len(strings.Join(kept, ",")), MaxBaggageBytes)
		assert.False(t, HasMember(kept))
		merged, dropped := MergeBaggage(lines, oursA)
		assert.LessOrEqual(t, len(merged), MaxBaggageBytes)
		assert.Positive(t, dropped)
		assert.Len(t, Slug(line, MaxEntry), MaxEntry)

		assert.LessOrEqual(t, testing.AllocsPerRun(1, func() { ReadRequest(lines, many, 3) }), 1.0, unit)
		assert.LessOrEqual(t, testing.AllocsPerRun(1, func() { StripBaggage(lines) }), 4.0, unit)
		assert.LessOrEqual(t, testing.AllocsPerRun(1, func() { MergeBaggage(lines, oursA) }), 1.0, unit)
	}
}
