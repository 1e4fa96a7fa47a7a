package otelprop

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ordinaryMember = "chainbudget=v1.2.3.1.9f86d081.checkout"

var (
	ordinaryBaggage = []string{"user=1,tenant=acme;ttl=5," + ordinaryMember + ",session=abc%20def"}
	ordinaryHeader  = []string{"v1.2.3.1.9f86d081.checkout;caller=cart;attempt=1;profile=write-path@1a2b3c4d;timeout=250"}
	ordinaryRequest = Request{
		State: Valid, Grant: 2, Limit: 3, Hop: 1, Nonce: 0x9f86d081, Entry: "checkout", Direct: true,
		Caller: "cart", Attempt: 1, Profile: "write-path", Digest: "1a2b3c4d", Timeout: 250 * time.Millisecond,
	}
)

func TestRequest_Write(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tt := range []struct {
		name           string
		r              Request
		member, header string
	}{
		{"all_parameters", ordinaryRequest, "chainbudget=v1.2.3.1.9f86d081.checkout",
			"v1.2.3.1.9f86d081.checkout;caller=cart;attempt=1;profile=write-path@1a2b3c4d;timeout=250"},
		{"zero_value", Request{}, "chainbudget=v1.0.0.1.00000000.unknown", "v1.0.0.1.00000000.unknown"},
		{"largest", Request{
			Grant: 255, Limit: 255, Hop: 255, Nonce: 0xffffffff, Entry: long, Caller: long, Attempt: 255,
			Profile: long[:64], Digest: "ffffffff", Timeout: 24 * time.Hour,
		},
			"chainbudget=v1.99.99.99.ffffffff." + long[:24],
			"v1.99.99.99.ffffffff." + long[:24] + ";caller=" + long[:40] + ";attempt=99;profile=" + long[:64] +
				"@ffffffff;timeout=600000"},
		{"grant_above_limit", Request{Grant: 5, Limit: 2, Hop: 10, Entry: "a"}, "chainbudget=v1.2.2.10.00000000.a", "v1.2.2.10.00000000.a"},
		{"names_become_slugs", Request{Entry: "Check Out", Caller: "Cart.Service/2", Hop: 1},
			"chainbudget=v1.0.0.1.00000000.check-out", "v1.0.0.1.00000000.check-out;caller=cart-service-2"},
		{"profile_too_long", Request{Entry: "a", Profile: long[:65], Digest: "1a2b3c4d"}, "chainbudget=v1.0.0.1.00000000.a", "v1.0.0.1.00000000.a"},
		{"profile_with_bad_characters", Request{Entry: "a", Profile: "a;timeout=1", Digest: "1a2b3c4d"}, "chainbudget=v1.0.0.1.00000000.a", "v1.0.0.1.00000000.a"},
		{"profile_without_digest", Request{Entry: "a", Profile: "write-path"}, "chainbudget=v1.0.0.1.00000000.a", "v1.0.0.1.00000000.a"},
		{"digest_without_profile", Request{Entry: "a", Digest: "1a2b3c4d"}, "chainbudget=v1.0.0.1.00000000.a", "v1.0.0.1.00000000.a"},
		{"timeout_rounded_down", Request{Entry: "a", Timeout: 2*time.Millisecond - 1}, "chainbudget=v1.0.0.1.00000000.a", "v1.0.0.1.00000000.a;timeout=1"},
		{"timeout_below_one_millisecond", Request{Entry: "a", Timeout: 1}, "chainbudget=v1.0.0.1.00000000.a", "v1.0.0.1.00000000.a;timeout=1"},
		{"timeout_negative_is_no_time_not_no_limit", Request{Entry: "a", Timeout: -time.Second}, "chainbudget=v1.0.0.1.00000000.a", "v1.0.0.1.00000000.a;timeout=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.member, tt.r.Member())
			assert.Equal(t, tt.header, tt.r.Header())
			checkRoundTrip(t, tt.r)
			params, other := NewParams(tt.r.Caller, tt.r.Profile, tt.r.Digest), tt.r
			other.Caller, other.Profile, other.Digest = "other", "other", "0badcafe"
			wire, memberLen := other.AppendWireWith([]byte("before"), &params)
			assert.Equal(t, "before"+MemberKey+"="+tt.header, string(wire))
			assert.Len(t, tt.member, memberLen)
		})
	}
}

// TestRequest_RoundTrip writes and reads requests whose fields are drawn from the edges of their ranges and beyond.
func TestRequest_RoundTrip(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	bytes := func() uint8 { return []uint8{0, 1, 2, 9, 10, 98, 99, 100, 255}[rnd.IntN(9)] }
	name := func() string {
		s := make([]byte, []int{0, 1, 8, 23, 24, 25, 40, 41, 64, 65, 300}[rnd.IntN(11)])
		alphabet := []string{"abcz019_-", "aB.;,= \t@%\x00\xff\xc3"}[rnd.IntN(2)]
		for i := range s {
			s[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return string(s)
	}
	for range 20_000 {
		digest := Nonce(rnd.Uint32()).String()
		checkRoundTrip(t, Request{
			Grant: bytes(), Limit: bytes(), Hop: bytes(), Nonce: Nonce(rnd.Uint32()), Entry: name(), Caller: name(),
			Attempt: bytes(), Profile: name(), Digest: digest[:[]int{0, 7, 8, 8}[rnd.IntN(4)]],
			Timeout: time.Duration(rnd.Int64N(int64(20*time.Minute))) - time.Minute,
		})
	}
}

func TestReadRequest_Parameters(t *testing.T) {
	const core = "v1.2.3.1.9f86d081.checkout"
	base := Request{State: Valid, Grant: 2, Limit: 3, Hop: 1, Nonce: 0x9f86d081, Entry: "checkout", Direct: true}
	for _, tt := range []struct {
		name, params string
		want         func(*Request)
	}{
		{"the_last_counts", ";attempt=1;attempt=2", func(r *Request) { r.Attempt = 2 }},
		{"an_invalid_last_one_is_ignored", ";attempt=1;attempt=x", func(r *Request) { r.Attempt = 1 }},
		{"a_zero_last_is_invalid_too", ";attempt=1;attempt=0;timeout=5;timeout=0", func(r *Request) { r.Attempt, r.Timeout = 1, 5*time.Millisecond }},
		{"names_are_case_sensitive", ";Caller=cart", func(*Request) {}},
		{"white_space", " ; caller\t=\tcart ;\tattempt = 99 ", func(r *Request) { r.Caller, r.Attempt = "cart", 99 }},
		{"white_space_inside_a_value", ";attempt=9 9", func(*Request) {}},
		{"empty_parameters", ";;=;caller;;attempt=3;", func(r *Request) { r.Attempt = 3 }},
		{"attempt_100", ";attempt=100", func(*Request) {}},
		{"attempt_with_leading_zero", ";attempt=01", func(*Request) {}},
		{"timeout_1", ";timeout=1", func(r *Request) { r.Timeout = time.Millisecond }},
		{"timeout_600000", ";timeout=600000", func(r *Request) { r.Timeout = 10 * time.Minute }},
		{"timeout_of_seven_digits", ";timeout=0600000", func(*Request) {}},
		{"timeout_of_two_to_the_64", ";timeout=18446744073709551617", func(*Request) {}},
		{"digest_upper_case", ";profile=a@1A2B3C4D", func(*Request) {}},
		{"digest_of_other_letters", ";profile=a@1a2b3c4g", func(*Request) {}},
		{"digest_short", ";profile=a@1a2b3c4", func(*Request) {}},
		{"two_digests", ";profile=a@1a2b3c4d@1a2b3c4d", func(*Request) {}},
		{"profile_without_name", ";profile=@1a2b3c4d", func(*Request) {}},
		{"caller_of_40", ";caller=" + strings.Repeat("c", 40), func(r *Request) { r.Caller = strings.Repeat("c", 40) }},
		{"caller_of_41", ";caller=" + strings.Repeat("c", 41), func(*Request) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := base
			tt.want(&want)
			got, rejects := ReadRequest(nil, []string{core + tt.params}, 3)
			assert.Equal(t, want, got)
			assert.Zero(t, rejects, "a parameter is never a rejection")
		})
	}
}

func TestReadRequest_Limits(t *testing.T) {
	t.Run("header_of_256_bytes", func(t *testing.T) {
		line := ordinaryHeader[0] + ";" + strings.Repeat("x", MaxHeader-len(ordinaryHeader[0])-1)
		got, rejects := ReadRequest(nil, []string{line}, 3)
		assert.Equal(t, ordinaryRequest, got)
		assert.Zero(t, rejects)
		got, rejects = ReadRequest(nil, []string{line + "x"}, 3)
		assert.Equal(t, Request{State: Unreadable}, got)
		assert.Equal(t, Rejects{RejectTooLong: 1}, rejects)
	})
	t.Run("member_of_64_bytes", func(t *testing.T) {
		member := ordinaryMember + "." + strings.Repeat("x", MaxMember-len(ordinaryMember)-1)
		got, _ := ReadRequest([]string{" " + member + " ;p=" + strings.Repeat("q", 100)}, nil, 3)
		assert.Equal(t, Valid, got.State, "white space and properties do not count")
		got, rejects := ReadRequest([]string{member + "x"}, nil, 3)
		assert.Equal(t, Request{State: Unreadable}, got)
		assert.Equal(t, Rejects{RejectTooLong: 1}, rejects)
	})
	t.Run("8192_bytes_of_baggage", func(t *testing.T) {
		before := strings.Repeat("f", MaxBaggageBytes-1-len(ordinaryMember))
		for _, lines := range [][]string{{before + "," + ordinaryMember + ",b=1"}, {before, ordinaryMember, "b=1"}} {
			got, _ := ReadRequest(lines, nil, 3)
			assert.Equal(t, Valid, got.State, "it ends where the bound is")
			lines[0] = "f" + lines[0]
			got, rejects := ReadRequest(lines, nil, 3)
			assert.Equal(t, Request{}, got, "cut by the bound")
			assert.Zero(t, rejects)
		}
	})
	t.Run("max_budget", func(t *testing.T) {
		for maxBudget, want := range map[int]uint8{-1: 0, 0: 0, 1: 1, 98: 98, 99: 99, 100: 99, 1 << 40: 99} {
			got, _ := ReadRequest(nil, []string{"v1.99.99.1.9f86d081.a"}, maxBudget)
			assert.Equal(t, want, got.Grant, "maximum %d", maxBudget)
			assert.Equal(t, want, got.Limit, "maximum %d", maxBudget)
		}
	})
	t.Run("more_than_8_header_lines", func(t *testing.T) {
		lines := make([]string, 9)
		for i := range lines {
			lines[i] = "v1.3.3.1.9f86d081.a"
		}
		got, rejects := ReadRequest(nil, lines[:8], 3)
		assert.Equal(t, uint8(3), got.Grant)
		assert.Zero(t, rejects)
		got, rejects = ReadRequest(nil, lines, 3)
		assert.Equal(t, Request{State: Valid, Limit: 3, Hop: 1, Nonce: 0x9f86d081, Entry: "a", Direct: true}, got,
			"a line that is not read may hold a smaller grant")
		assert.Equal(t, Rejects{RejectDuplicate: 1}, rejects)
	})
	t.Run("a_comma_anywhere_in_a_header_line", func(t *testing.T) {
		for _, line := range []string{ordinaryHeader[0] + ",x", ordinaryHeader[0] + "," + ordinaryHeader[0], "v1.2.3.1.9f86d081.a.x,y", "v2.1,2"} {
			got, rejects := ReadRequest(nil, []string{line}, 3)
			assert.Equal(t, Request{State: Unreadable}, got, line)
			assert.Equal(t, Rejects{RejectMalformed: 1}, rejects, line)
		}
	})
	t.Run("each_grant_is_clamped_to_its_own_limit", func(t *testing.T) {
		got, _ := ReadRequest([]string{"chainbudget=v1.9.1.1.9f86d081.a"}, []string{"v1.3.3.1.9f86d081.a"}, 9)
		assert.Equal(t, uint8(1), got.Grant)
		assert.Equal(t, uint8(3), got.Limit)
	})
}

func TestReadRequest_KeyWithoutValueIsOurs(t *testing.T) {
	for _, line := range []string{"chainbudget", "a=1,chainbudget;p=q", " chainbudget\t,b=2", "chainbudget;p=v1.2.3.1.9f86d081.a"} {
		got, rejects := ReadRequest([]string{line}, nil, 3)
		assert.Equal(t, Request{State: Unreadable}, got, line)
		assert.Equal(t, Rejects{RejectMalformed: 1}, rejects, line)
	}
	for _, line := range []string{"chainbudgets=v1.2.3.1.9f86d081.a", "xchainbudget=v1.2.3.1.9f86d081.a", "a;chainbudget=v1.2.3.1.9f86d081.a", "a=chainbudget"} {
		got, rejects := ReadRequest([]string{line}, nil, 3)
		assert.Equal(t, Request{}, got, line)
		assert.Zero(t, rejects, line)
	}
}

func TestReadRequest_Versions(t *testing.T) {
	for value, want := range map[string]Reject{
		"v2.1.1.1.9f86d081.a": RejectVersion, "v2": RejectVersion, "v0.1.1.1.9f86d081.a": RejectVersion, "v10.x": RejectVersion,
		"v1": RejectMalformed, "v": RejectMalformed, "v.1": RejectMalformed, "V1.1.1.1.9f86d081.a": RejectMalformed,
		"v00.1": RejectMalformed, "v-1.1": RejectMalformed, "v2x.1": RejectMalformed, "2.1": RejectMalformed,
	} {
		got, rejects := ReadRequest(nil, []string{value}, 3)
		assert.Equal(t, Request{State: Unreadable}, got, value)
		var wantRejects Rejects
		wantRejects.add(want)
		assert.Equal(t, wantRejects, rejects, value)
	}
}

func TestRequest_Clamp(t *testing.T) {
	for _, tt := range []struct {
		maxBudget    int
		grant, limit uint8
	}{{-5, 0, 0}, {0, 0, 0}, {3, 3, 3}, {6, 4, 6}, {7, 4, 6}, {1000, 4, 6}} {
		r := Request{Grant: 4, Limit: 6}
		r.Clamp(tt.maxBudget)
		assert.Equal(t, Request{Grant: tt.grant, Limit: tt.limit}, r, "maximum %d", tt.maxBudget)
	}
}

// within reports whether part shares the memory of whole.
func within(part, whole string) bool {
	at := uintptr(unsafe.Pointer(unsafe.StringData(part)))
	from := uintptr(unsafe.Pointer(unsafe.StringData(whole)))
	return from <= at && at < from+uintptr(len(whole))
}

func TestReadRequest_LongLineIsNotPinned(t *testing.T) {
	short := ordinaryMember + "," + strings.Repeat("x", maxPinned-len(ordinaryMember)-1)
	got, _ := ReadRequest([]string{short}, nil, 3)
	require.Equal(t, "checkout", got.Entry)
	assert.True(t, within(got.Entry, short))
	long := short + "x"
	got, _ = ReadRequest([]string{long}, nil, 3)
	require.Equal(t, "checkout", got.Entry)
	assert.False(t, within(got.Entry, long))
}

func TestState_String(t *testing.T) {
	for s, want := range map[State]string{Absent: "absent", Valid: "valid", Unreadable: "unreadable", 3: "invalid"} {
		assert.Equal(t, want, s.String())
	}
}

func TestReject_String(t *testing.T) {
	assert.Equal(t, "invalid", Reject(numRejects).String())
	for i := range numRejects {
		assert.NotEqual(t, "invalid", Reject(i).String())
	}
}

func TestRejects_Saturate(t *testing.T) {
	r := Rejects{RejectMalformed: 65534}
	r.add(RejectMalformed)
	r.add(RejectMalformed)
	assert.Equal(t, Rejects{RejectMalformed: 65535}, r)
}

func TestRequest_Allocations(t *testing.T) {
	var (
		got     Request
		rejects Rejects
		out     []byte
		text    string
		buf     = make([]byte, 0, 512)
		r       = ordinaryRequest
	)
	assert.Zero(t, testing.AllocsPerRun(100, func() { got, rejects = ReadRequest(ordinaryBaggage, ordinaryHeader, 3) }))
	assert.Equal(t, ordinaryRequest, got)
	assert.Zero(t, rejects)
	assert.Zero(t, testing.AllocsPerRun(100, func() { got, rejects = ReadRequest(ordinaryBaggage, nil, 3) }), "relayed")
	assert.Zero(t, testing.AllocsPerRun(100, func() { out, _ = r.AppendWire(buf) }))
	assert.Len(t, out, len(MemberKey)+1+len(ordinaryHeader[0]))
	assert.Equal(t, 1.0, testing.AllocsPerRun(100, func() { text = r.Member() }))
	assert.Equal(t, 1.0, testing.AllocsPerRun(100, func() { text = r.Header() }))
	assert.Equal(t, ordinaryHeader[0], text)
}
