package otelprop

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/stretchr/testify/assert"
)

func TestReturn_Write(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    Return
		want string
	}{
		{"zero_value", Return{}, "v1.0.0.n.00000000.-"},
		{"leaf", Return{Returned: 2, Claim: ownership.ClaimNone, Nonce: 0x9f86d081, Leaf: true}, "v1.2.0.n.9f86d081.l"},
		{"claimed", Return{Returned: 1, Retries: 10, Claim: ownership.ClaimClaimed, Owner: "Ledger DB"}, "v1.1.10.c.00000000.-.ledger-db"},
		{"unclaimed", Return{Claim: ownership.ClaimUnclaimed, Effects: true}, "v1.0.0.u.00000000.e"},
		{"owner_two_below", Return{Claim: ownership.ClaimUnclaimed, Owner: "ledger", Depth: 2}, "v1.0.0.u.00000000.B.ledger"},
		{"depth_saturates", Return{Claim: ownership.ClaimUnclaimed, Leaf: true, Owner: "a", Depth: 200}, "v1.0.0.u.00000000.lZ.a"},
		{"stop", Return{Claim: ownership.ClaimStop, Leaf: true, Effects: true, Owner: "a"}, "v1.0.0.s.00000000.le.a"},
		{"no_claim_is_written_as_none", Return{Claim: ownership.ClaimMissing}, "v1.0.0.n.00000000.-"},
		{"unknown_claim_is_written_as_none", Return{Claim: 200}, "v1.0.0.n.00000000.-"},
		{"largest", Return{
			Returned: 255, Retries: 100, Claim: ownership.ClaimStop, Nonce: 0xffffffff, Leaf: true, Effects: true,
			Owner: strings.Repeat("o", 300),
		}, "v1.99.99.s.ffffffff.le." + strings.Repeat("o", 24)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, "before "+tt.want, string(tt.r.Append([]byte("before "))))
			checkReturnRoundTrip(t, tt.r)
		})
	}
}

func TestReturn_RoundTrip(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		checkReturnRoundTrip(t, Return{
			Returned: uint8(rnd.Uint32()), Retries: uint8(rnd.Uint32()), Claim: ownership.Claim(rnd.IntN(7)),
			Nonce: Nonce(rnd.Uint32()), Leaf: rnd.IntN(2) == 0, Effects: rnd.IntN(2) == 0, Depth: uint8(rnd.IntN(27)),
			Owner: strings.Repeat([]string{"o", "O", ".", "é", "\xff"}[rnd.IntN(5)], rnd.IntN(30)),
		})
	}
}

func TestReadReturn_Lines(t *testing.T) {
	const line = "v1.2.0.c.9f86d081.l.ledger"
	want := Return{Returned: 2, Claim: ownership.ClaimClaimed, Nonce: 0x9f86d081, Leaf: true, Owner: "ledger"}
	t.Run("white_space_around", func(t *testing.T) {
		got, ok, rejects := ReadReturn([]string{"\t" + line + " "}, want.Nonce, 2)
		assert.True(t, ok)
		assert.Equal(t, want, got)
		assert.Zero(t, rejects)
	})
	for leased, returned := range map[int]uint8{-1: 0, 0: 0, 1: 1, 2: 2, 1 << 40: 2} {
		got, ok, _ := ReadReturn([]string{line}, want.Nonce, leased)
		assert.True(t, ok)
		assert.Equal(t, returned, got.Returned, "leased %d", leased)
	}
	for name, tt := range map[string]struct {
		line string
		why  Reject
	}{
		"empty":               {"", RejectMalformed},
		"comma_joined":        {line + "," + line, RejectMalformed},
		"comma_in_the_owner":  {line + ",x", RejectMalformed},
		"claim_of_two":        {"v1.2.0.cu.9f86d081.l", RejectMalformed},
		"claim_placeholder":   {"v1.2.0.?.9f86d081.l", RejectMalformed},
		"no_claim":            {"v1.2.0..9f86d081.l", RejectMalformed},
		"claim_upper_case":    {"v1.2.0.C.9f86d081.l", RejectMalformed},
		"digit_among_flags":   {"v1.2.0.c.9f86d081.l1", RejectMalformed},
		"retries_100":         {"v1.2.100.c.9f86d081.l", RejectMalformed},
		"newer_version_alone": {"v3", RejectVersion},
		"higher_nonce":        {"v1.2.0.c.9f86d082.l", RejectRelayed},
		"lower_nonce":         {"v1.2.0.c.9f86d080.l", RejectRelayed},
		"129_bytes":           {line + "." + strings.Repeat("x", MaxReturn-len(line)), RejectTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok, rejects := ReadReturn([]string{tt.line}, want.Nonce, 2)
			assert.False(t, ok)
			assert.Zero(t, got)
			var wantRejects Rejects
			wantRejects.add(tt.why)
			assert.Equal(t, wantRejects, rejects)
		})
	}
	t.Run("128_bytes", func(t *testing.T) {
		got, ok, _ := ReadReturn([]string{line + "." + strings.Repeat("x", MaxReturn-len(line)-1)}, want.Nonce, 2)
		assert.True(t, ok)
		assert.Equal(t, want, got)
	})
	for flags, wantFlags := range map[string][2]bool{"-": {}, "e": {false, true}, "el": {true, true}, "-l": {true, false}, "Zq": {}, "BlA": {true, false}, "ll": {true, false}} {
		got, ok, _ := ReadReturn([]string{"v1.2.0.n.9f86d081." + flags}, want.Nonce, 2)
		assert.True(t, ok, flags)
		assert.Equal(t, wantFlags, [2]bool{got.Leaf, got.Effects}, flags)
	}
	for flags, depth := range map[string]uint8{"-": 0, "l": 0, "A": 1, "Zl": 26, "CA": 1, "AC": 3} {
		got, ok, _ := ReadReturn([]string{"v1.2.0.u.9f86d081." + flags + ".ledger"}, want.Nonce, 2)
		assert.True(t, ok, flags)
		assert.Equal(t, depth, got.Depth, "%s: the last one counts", flags)
	}
	for _, owner := range []string{"", "Ledger", "a b", "a;b", "\xff"} {
		got, ok, rejects := ReadReturn([]string{"v1.2.0.c.9f86d081.l." + owner}, want.Nonce, 2)
		assert.True(t, ok, owner)
		assert.Empty(t, got.Owner, owner)
		assert.Zero(t, rejects, owner)
	}
}

func TestReturn_Allocations(t *testing.T) {
	lines := []string{"v1.2.0.c.9f86d081.l.ledger"}
	buf := make([]byte, 0, MaxReturn)
	var got Return
	var out []byte
	assert.Zero(t, testing.AllocsPerRun(100, func() { got, _, _ = ReadReturn(lines, 0x9f86d081, 2) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { out = got.Append(buf) }))
	assert.Equal(t, lines[0], string(out))
}
