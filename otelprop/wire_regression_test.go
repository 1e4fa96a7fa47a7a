package otelprop

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
)

func TestRegression_A075_OnlyCanonicalDecimalsCount(t *testing.T) {
	for _, s := range []string{
		"-1", "-0", "+3", "03", "00", "1e3", "1e1", " 3", "3 ", "0x3", "3_0", "100", "2147483648", "4294967296",
		"9223372036854775808", strings.Repeat("9", 200), "", "\u0663", "\uff13", "\u00b2",
	} {
		for field := range 3 {
			values := [3]string{"2", "3", "1"}
			values[field] = s
			core := "v1." + strings.Join(values[:], ".") + ".9f86d081.a"
			got, rejects := ReadRequest(nil, []string{core}, 3)
			assert.Equal(t, Request{State: Unreadable}, got, core)
			assert.Equal(t, 1, int(rejects[RejectMalformed]+rejects[RejectTooLong]), core)
			_, ok, _ := ReadReturn([]string{"v1." + s + ".0.n.9f86d081.l"}, 0x9f86d081, 3)
			assert.False(t, ok, s)
			_, ok, _ = ReadReturn([]string{"v1.0." + s + ".n.9f86d081.l"}, 0x9f86d081, 3)
			assert.False(t, ok, s)
		}
	}
	got, _ := ReadRequest(nil, []string{"v1.3.0.3.1.9f86d081.a"}, 3)
	assert.Equal(t, Request{State: Unreadable}, got, "3.0 moves every field")
	for n := range 100 {
		got, rejects := ReadRequest(nil, []string{"v1." + strconv.Itoa(n) + ".99.1.9f86d081.a"}, 10)
		assert.Equal(t, uint8(min(n, 10)), got.Grant, "two digits above the maximum are clamped")
		assert.Zero(t, rejects)
	}
}

func TestRegression_A076_EveryBaggageLineIsRead(t *testing.T) {
	got, _ := ReadRequest([]string{"user=1", ordinaryMember}, ordinaryHeader, 3)
	assert.Equal(t, ordinaryRequest, got)
	got, _ = ReadRequest([]string{"user=1", ordinaryMember}, nil, 3)
	assert.Equal(t, Valid, got.State)
	kept, _ := StripBaggage([]string{"user=1", ordinaryMember})
	assert.Equal(t, []string{"user=1"}, kept)
}

func TestRegression_A077_ManyLinesCostNoMoreThanOne(t *testing.T) {
	line := strings.Repeat("k=v,", 2047) + "k=v"
	require.Less(t, len(line), MaxBaggageBytes)
	lines := make([]string, 1000)
	for i := range lines {
		lines[i] = line
	}
	lines[999] = ordinaryMember
	got, rejects := ReadRequest(lines, nil, 3)
	assert.Equal(t, Request{}, got, "a member behind the bound is not looked for: an orphan's budget")
	assert.Zero(t, rejects)
	assert.Zero(t, testing.AllocsPerRun(10, func() { ReadRequest(lines, nil, 3) }))

	lines[0] = ordinaryMember + "," + line
	got, _ = ReadRequest(lines, ordinaryHeader, 3)
	assert.Equal(t, ordinaryRequest, got, "writers put it first, so that it is found whatever follows")
	kept, found := StripBaggage(lines)
	assert.True(t, found)
	assert.LessOrEqual(t, len(strings.Join(kept, ",")), MaxBaggageBytes)
}

func TestRegression_A078_OneHugeMalformedValueIsOneRejection(t *testing.T) {
	huge := strings.Repeat("%zz;", 5<<20/4)
	got, rejects := ReadRequest([]string{"chainbudget=" + huge}, []string{huge}, 3)
	assert.Equal(t, Unreadable, got.State)
	assert.Zero(t, got.Grant)
	assert.Equal(t, Rejects{RejectTooLong: 1}, rejects, "the member is cut by the bound, the header is too long")

	many := strings.Repeat("chainbudget=x,", 5<<20/14)
	got, rejects = ReadRequest([]string{many}, nil, 3)
	assert.Equal(t, Request{State: Unreadable}, got)
	assert.Equal(t, uint16(MaxBaggageBytes/len("chainbudget=x,")), rejects[RejectMalformed])
	assert.Zero(t, testing.AllocsPerRun(10, func() { ReadRequest([]string{many}, nil, 3) }))
}

func TestRegression_A079_ABadEscapeElsewhereDoesNotHideOurs(t *testing.T) {
	for _, foreign := range []string{"x=va%lue", "x=%", "x=%zz", "b ad=2", "=", ";;;", "x=\"q\"", "x=\xff\xfe", "x=1;p q"} {
		got, rejects := ReadRequest([]string{foreign + "," + ordinaryMember}, ordinaryHeader, 3)
		assert.Equal(t, ordinaryRequest, got, foreign)
		assert.Zero(t, rejects, foreign)
		line, _ := MergeBaggage([]string{foreign, "y=2"}, ordinaryMember)
		assert.Equal(t, ordinaryMember+","+foreign+",y=2", line, "and it travels on as it is")
	}
}

func TestRegression_A080_ForeignBytesAreNeitherDecodedNorEncoded(t *testing.T) {
	for c := range 256 {
		if c == ',' {
			continue // ends a member
		}
		foreign := "k=a" + string([]byte{byte(c)}) + "b%20+%2C"
		line, dropped := MergeBaggage([]string{ordinaryMember + "," + foreign, "z=1"}, oursA)
		assert.Equal(t, oursA+","+foreign+",z=1", line)
		assert.Zero(t, dropped)
		kept, _ := StripBaggage([]string{"a=1," + ordinaryMember + "," + foreign})
		assert.Equal(t, []string{"a=1," + foreign}, kept)
	}
}

func TestRegression_A083_OursSurvivesAFullBaggageAndItsParser(t *testing.T) {
	members := make([]string, 64)
	for i := range members {
		members[i] = fmt.Sprintf("k%02d=v", i)
	}
	for _, lines := range [][]string{
		{strings.Join(members, ",")}, {strings.Join(members[:30], ","), strings.Join(members[30:], ",")},
		{strings.Join(members[:10], ",") + ",big=" + strings.Repeat("v", 8100)},
	} {
		line, dropped := MergeBaggage(lines, ordinaryMember)
		assert.Equal(t, 1, dropped)
		for range 20 { // it used to depend on the order of a map
			h := http.Header{"Baggage": {line}}
			ctx := propagation.Baggage{}.Extract(context.Background(), propagation.HeaderCarrier(h))
			assert.Equal(t, "v1.2.3.1.9f86d081.checkout", baggage.FromContext(ctx).Member(MemberKey).Value())
		}
		again, dropped := MergeBaggage([]string{line}, ordinaryMember)
		assert.Equal(t, line, again)
		assert.Zero(t, dropped)
	}
}

func TestRegression_A084_RepeatedWritesDoNotGrow(t *testing.T) {
	lines := []string{"user=1", "tenant=x"}
	r := ordinaryRequest
	size := 0
	for hop := range 5 {
		for attempt := range 10 {
			r.Nonce++
			r.Hop, r.Attempt = uint8(hop+1), uint8(attempt+1)
			line, dropped := MergeBaggage(lines, r.Member())
			lines = []string{line}
			assert.Zero(t, dropped)
			assert.Equal(t, r.Member()+",user=1,tenant=x", line)
			if size == 0 {
				size = len(line)
			}
			assert.Len(t, line, size)
		}
	}
}

func TestRegression_A086_DuplicatesOnlyLowerTheGrant(t *testing.T) {
	m := func(key string, grant int) string { return fmt.Sprintf("%s=v1.%d.5.1.9f86d081.a", key, grant) }
	for _, baggage := range [][]string{
		{m("chainbudget", 5) + "," + m("chainbudget", 0)}, {m("chainbudget", 0) + "," + m("chainbudget", 5)},
		{m("chainbudget", 5), m("chainbudget", 0)}, {m("chainbudget", 0), m("chainbudget", 5)},
	} {
		for _, header := range [][]string{nil, {"v1.5.5.1.9f86d081.a"}, {"v1.5.5.1.deadbeef.b"}} {
			got, rejects := ReadRequest(baggage, header, 9)
			assert.Equal(t, Valid, got.State)
			assert.Zero(t, got.Grant, "%q %q", baggage, header)
			assert.Zero(t, rejects)
		}
	}
	got, _ := ReadRequest([]string{m("Chainbudget", 0)}, []string{"v1.5.5.1.9f86d081.a"}, 9)
	assert.Equal(t, uint8(5), got.Grant, "another case is another key")
	for _, header := range [][]string{{"v1.5.5.1.9f86d081.a", "v1.0.5.1.9f86d081.a"}, {"v1.0.5.1.9f86d081.a", "v1.5.5.1.9f86d081.a"}} {
		got, _ := ReadRequest(nil, header, 9)
		assert.Zero(t, got.Grant)
	}
}

func TestRegression_A082_LostBaggageIsAnOrphansNotUnlimited(t *testing.T) {
	got, rejects := ReadRequest(nil, nil, 99)
	assert.Equal(t, Request{State: Absent}, got)
	assert.Zero(t, rejects)
	got, _ = ReadRequest(nil, ordinaryHeader, 99)
	assert.Equal(t, ordinaryRequest, got, "where only the baggage was dropped, the header says it all")
}

// A087 belongs to the adapters, which decide per request who is external; the codec gives them the means to leave nothing.
func TestRegression_A087_NothingOfOursIsLeftForAnExternalPeer(t *testing.T) {
	for _, lines := range [][]string{ordinaryBaggage, {ordinaryMember, ordinaryMember}, {"a=1, chainbudget = x ;p=1"}, {strings.Repeat("a", 9000) + "," + ordinaryMember}} {
		kept, found := StripBaggage(lines)
		assert.True(t, found)
		assert.NotContains(t, strings.Join(kept, "\n"), MemberKey)
	}
	h := http.Header{"Baggage": ordinaryBaggage}
	Propagator{}.Inject(context.Background(), propagation.HeaderCarrier(h))
	assert.Equal(t, http.Header{"Baggage": {"user=1,tenant=acme;ttl=5,session=abc%20def"}}, h)
}
