package otelprop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// split turns one fuzzed string into header lines.
func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

func seedVectors(f *testing.F, add func(baggage, header string, maxBudget int)) {
	for _, v := range readVectors(f).Request {
		add(strings.Join(v.Baggage, "\n"), strings.Join(v.Header, "\n"), v.MaxBudget)
	}
}

func FuzzReadRequest(f *testing.F) {
	seedVectors(f, func(b, h string, maxBudget int) { f.Add(b, h, maxBudget) })
	f.Add(strings.Repeat("chainbudget=,", 700), strings.Repeat("v1.9.9.1.9f86d081.a\n", 9), 99)
	f.Fuzz(func(t *testing.T, b, h string, maxBudget int) {
		baggage, header := split(b), split(h)
		got, rejects := ReadRequest(baggage, header, maxBudget)
		want, wantRejects := refReadRequest(baggage, header, maxBudget)
		if got != want || rejects != wantRejects {
			t.Fatalf("ReadRequest = %+v %v, want %+v %v", got, rejects, want, wantRejects)
		}
		if int(got.Grant) > max(maxBudget, 0) || got.Grant > got.Limit || got.State != Valid && got != (Request{State: got.State}) {
			t.Fatalf("I4, I5: %+v with a maximum of %d", got, maxBudget)
		}
		if !got.Direct && got.Grant > 1 {
			t.Fatalf("a relayed grant is %d", got.Grant)
		}
		// Duplicates and relays only lower a grant.
		if again, _ := ReadRequest(append(slices.Clone(baggage), baggage...), append(slices.Clone(header), header...), maxBudget); again.Grant > got.Grant {
			t.Fatalf("doubled lines raise the grant from %d to %d", got.Grant, again.Grant)
		}
		if relayed, _ := ReadRequest(baggage, nil, maxBudget); relayed.Grant > 1 {
			t.Fatalf("the member alone is worth %d", relayed.Grant)
		}
		if allocs := testing.AllocsPerRun(1, func() { ReadRequest(baggage, header, maxBudget) }); allocs > 1 {
			t.Fatalf("%v allocations", allocs)
		}
		if got.State == Valid {
			back, _ := ReadRequest([]string{got.Member()}, []string{got.Header()}, maxBudget)
			got.Direct = true
			if back != got {
				t.Fatalf("written and read again: %+v, want %+v", back, got)
			}
		}
	})
}

func FuzzReadReturn(f *testing.F) {
	for _, v := range readVectors(f).Response {
		f.Add(strings.Join(v.Lines, "\n"), uint32(mustNonce(f, v.SentNonce)), v.Leased)
	}
	f.Fuzz(func(t *testing.T, s string, sent uint32, leased int) {
		lines := split(s)
		got, ok, rejects := ReadReturn(lines, Nonce(sent), leased)
		want, wantOK, wantRejects := refReadReturn(lines, Nonce(sent), leased)
		if got != want || ok != wantOK || rejects != wantRejects {
			t.Fatalf("ReadReturn = %+v %v %v, want %+v %v %v", got, ok, rejects, want, wantOK, wantRejects)
		}
		if int(got.Returned) > max(leased, 0) || ok != (got.Claim != ownership.ClaimMissing) {
			t.Fatalf("I3: %+v with %d leased", got, leased)
		}
		if !ok {
			return
		}
		if back, ok, _ := ReadReturn([]string{string(got.Append(nil))}, Nonce(sent), leased); !ok || back != got {
			t.Fatalf("written and read again: %+v %v, want %+v", back, ok, got)
		}
	})
}

func FuzzMergeBaggage(f *testing.F) {
	seedVectors(f, func(b, h string, _ int) { f.Add(b, "chainbudget=v1.1.1.1.9f86d081.a") })
	f.Add(strings.Repeat("a=1,", 70), "chainbudget=v1.1.1.1.9f86d081.a")
	f.Add(strings.Repeat("a=1,", 70)+strings.Repeat("b", 9000), "")
	f.Add("a=1", "a=1,b=2")
	f.Fuzz(func(t *testing.T, b, member string) {
		lines := split(b)
		before := slices.Clone(lines)
		line, dropped := MergeBaggage(lines, member)
		if !slices.Equal(lines, before) {
			t.Fatal("the caller's lines have changed")
		}
		if !refOurs.MatchString(member) || strings.Contains(member, ",") || len(member) > MaxMember {
			member = ""
		}
		// The white space and the empty members of an unchanged line may stay: compare members.
		want, wantDropped := refMerge(lines, member)
		members, _ := refMembers([]string{line})
		wantMembers, _ := refMembers([]string{want})
		if !slices.Equal(members, wantMembers) || dropped != wantDropped {
			t.Fatalf("MergeBaggage = %q %d, want %q %d", line, dropped, want, wantDropped)
		}
		if len(line) > MaxBaggageBytes || strings.Count(line, ",") >= MaxBaggageMembers || !strings.HasPrefix(line, member) {
			t.Fatalf("limits: %d bytes, %d commas: %q", len(line), strings.Count(line, ","), line)
		}
		if _, ours, _ := refForeign([]string{line}); ours != min(len(member), 1) {
			t.Fatalf("%d members of ours in %q", ours, line)
		}
	})
}

func FuzzStripBaggage(f *testing.F) {
	seedVectors(f, func(b, h string, _ int) { f.Add(b) })
	f.Add("a=1," + strings.Repeat("chainbudget=v1,b=2,", 500))
	f.Add(strings.Repeat("\n", 8193))
	f.Add(strings.Repeat("a", 8192) + ",chainbudget=v1.9.9.1.9f86d081.a")
	f.Fuzz(func(t *testing.T, b string) {
		lines := split(b)
		before := slices.Clone(lines)
		kept, found := StripBaggage(lines)
		if !slices.Equal(lines, before) {
			t.Fatal("the caller's lines have changed")
		}
		want, ours, rest := refForeign(lines)
		if found != (ours > 0 || rest) || found != HasMember(lines) {
			t.Fatalf("found = %v with %d members of ours, rest %v", found, ours, rest)
		}
		if got, left, _ := refForeign(kept); left != 0 || !slices.Equal(got, want) {
			t.Fatalf("kept %q, want the members %q", kept, want)
		}
		if !found && (len(kept) != len(lines) || len(kept) > 0 && &kept[0] != &lines[0]) {
			t.Fatal("lines without a member of ours were copied")
		}
		if HasMember(kept) {
			t.Fatalf("still a member in %q", kept)
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add(uint8(2), uint8(3), uint8(1), uint32(0x9f86d081), "checkout", "cart", uint8(1), "write-path", "1a2b3c4d", int64(250e6), uint8(2), "ledger", true, false)
	f.Add(uint8(255), uint8(255), uint8(0), uint32(0), "Ä\xff;=,.", "A B", uint8(255), "p,q", "XYZ", int64(-1), uint8(9), "", false, true)
	f.Fuzz(func(t *testing.T, grant, limit, hop uint8, nonce uint32, entry, caller string, attempt uint8, profile, digest string,
		timeout int64, claim uint8, owner string, leaf, effects bool,
	) {
		r := Request{
			Grant: grant, Limit: limit, Hop: hop, Nonce: Nonce(nonce), Entry: entry, Caller: caller, Attempt: attempt,
			Profile: profile, Digest: digest, Timeout: time.Duration(timeout),
		}
		checkRoundTrip(t, r)
		ret := Return{
			Returned: grant, Retries: limit, Claim: ownership.Claim(claim), Nonce: Nonce(nonce), Leaf: leaf, Effects: effects,
			Owner: owner, Depth: hop,
		}
		checkReturnRoundTrip(t, ret)
	})
}

// checkRoundTrip writes r, reads it and compares with what the writing rules make of it.
func checkRoundTrip(t *testing.T, r Request) {
	t.Helper()
	want := Request{
		State: Valid, Limit: min(r.Limit, 99), Grant: min(r.Grant, r.Limit, 99), Hop: min(max(r.Hop, 1), 99), Nonce: r.Nonce,
		Entry: refSlug(r.Entry, 24), Direct: true, Attempt: min(r.Attempt, 99),
	}
	if r.Caller != "" {
		want.Caller = refSlug(r.Caller, 40)
	}
	if refProfile.MatchString(r.Profile + "@" + r.Digest) {
		want.Profile, want.Digest = r.Profile, r.Digest
	}
	if r.Timeout != 0 {
		want.Timeout = min(max(r.Timeout.Truncate(time.Millisecond), time.Millisecond), 10*time.Minute)
	}
	wire, memberLen := r.AppendWire([]byte("before "))
	both := string(wire[len("before "):])
	member, header := both[:memberLen], both[len("chainbudget="):]
	if member != r.Member() || header != r.Header() || string(wire[:len("before ")]) != "before " {
		t.Fatalf("AppendWire %q, Member %q, Header %q", wire, r.Member(), r.Header())
	}
	if len(member) > MaxMember || len(header) > MaxHeader {
		t.Fatalf("too long: %q %q", member, header)
	}
	got, rejects := ReadRequest([]string{member}, []string{header}, 99)
	if got != want || rejects != (Rejects{}) {
		t.Fatalf("%+v was read as\n%+v %v, want\n%+v", r, got, rejects, want)
	}
}

func checkReturnRoundTrip(t *testing.T, r Return) {
	t.Helper()
	want := r
	want.Returned, want.Retries = min(r.Returned, 99), min(r.Retries, 99)
	if r.Claim < ownership.ClaimNone || r.Claim > ownership.ClaimStop {
		want.Claim = ownership.ClaimNone
	}
	if r.Owner != "" {
		want.Owner = refSlug(r.Owner, 24)
	}
	want.Depth = min(r.Depth, 26)
	line := string(r.Append(nil))
	got, ok, rejects := ReadReturn([]string{line}, r.Nonce, 99)
	if got != want || !ok || rejects != (Rejects{}) || len(line) > MaxReturn {
		t.Fatalf("%+v was written as %q and read as\n%+v %v %v, want\n%+v", r, line, got, ok, rejects, want)
	}
}
