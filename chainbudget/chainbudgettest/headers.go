package chainbudgettest

import (
	"maps"
	"slices"
	"strings"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// headerCases are about what an attempt writes, and where.
var headerCases = []Case{
	{Name: "callers_headers_untouched", check: callersHeadersUntouched,
		Checks: "the caller's header map is after a call with retries what it was before"},
	{Name: "headers_of_each_attempt", check: headersOfEachAttempt,
		Checks: "each attempt has the caller's headers and one wire of its own, with a fresh nonce and its number"},
	{Name: "no_headers", check: noHeaders,
		Checks: "a request without a header map is sent with the wire"},
	{Name: "foreign_baggage_kept", check: foreignBaggageKept,
		Checks: "foreign baggage goes on byte for byte, behind the member"},
	{Name: "old_wire_replaced", check: oldWireReplaced,
		Checks: "a wire that is already on the caller's headers is replaced and not added to"},
}

// failsTwice is a callee that runs the SDK and succeeds at the third request.
func failsTwice() []Handler {
	return []Handler{
		says(ownership.ClaimClaimed, fails(503)), says(ownership.ClaimClaimed, fails(503)), says(ownership.ClaimNone, answers("done")),
	}
}

func callersHeadersUntouched(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(failsTwice()...)
	header := s.header("x-own", "1", otelprop.BaggageHeader, "user=u1")
	before := header.Clone()
	s.succeeded(s.dial(rec, c.address)(s.chain(rec), Request{Header: header, Body: "asked"}), "done")
	expect(s, "attempts", len(c.all()), 3)
	if !maps.EqualFunc(header, before, slices.Equal) {
		s.Errorf("the caller's headers are %v, and were %v", header, before)
	}
}

func headersOfEachAttempt(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(failsTwice()...)
	s.succeeded(s.dial(rec, c.address)(s.chain(rec), Request{Header: s.header("x-own", "1"), Body: "asked"}), "done")
	all := c.all()
	expect(s, "attempts", len(all), 3)
	seen := map[otelprop.Nonce]bool{}
	for i, a := range all {
		if got := lines(a.Header, "x-own"); !slices.Equal(got, []string{"1"}) {
			s.Errorf("attempt %d: the caller's header is %q", i+1, got)
		}
		s.oneWire(a)
		expect(s, "number", int(a.wire.Attempt), i+1)
		expect(s, "caller", a.wire.Caller, "caller")
		expect(s, "profile", a.wire.Profile, string(suiteProfile))
		if a.wire.Digest == "" || seen[a.wire.Nonce] {
			s.Errorf("attempt %d: digest %q, nonce %v seen before: %t", i+1, a.wire.Digest, a.wire.Nonce, seen[a.wire.Nonce])
		}
		seen[a.wire.Nonce] = true
	}
}

// oneWire fails the case unless the request has one request header, and one member that says the same.
func (s *stage) oneWire(a arrival) {
	s.Helper()
	header, baggage := lines(a.Header, otelprop.RequestHeader), lines(a.Header, otelprop.BaggageHeader)
	if len(header) != 1 || len(baggage) != 1 || !a.wire.Direct || strings.Count(baggage[0], otelprop.MemberKey+"=") != 1 ||
		!strings.HasPrefix(baggage[0], otelprop.MemberKey+"=") {
		s.Errorf("the request brings %q and baggage %q; want one of each, ours first", header, baggage)
		return
	}
	core, _, _ := strings.Cut(header[0], ";")
	member, _, _ := strings.Cut(strings.TrimPrefix(baggage[0], otelprop.MemberKey+"="), ",")
	expect(s, "the member beside the header", member, core)
}

func noHeaders(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(says(ownership.ClaimNone, answers("done")))
	s.succeeded(s.dial(rec, c.address)(s.chain(rec), Request{}), "done")
	for _, a := range c.all() {
		s.oneWire(a)
	}
}

func foreignBaggageKept(s *stage) {
	const foreign = "user=u%201;ttl=60,tenant=t1"
	rec := s.sdk("caller", rules{})
	c := s.callee(says(ownership.ClaimNone, answers("done")))
	s.succeeded(s.dial(rec, c.address)(s.chain(rec), Request{Header: s.header(otelprop.BaggageHeader, foreign)}), "done")
	for _, a := range c.all() {
		s.oneWire(a)
		if line := strings.Join(lines(a.Header, otelprop.BaggageHeader), ","); !strings.HasSuffix(line, ","+foreign) {
			s.Errorf("the baggage %q does not end with %q", line, foreign)
		}
	}
}

func oldWireReplaced(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(says(ownership.ClaimNone, answers("done")))
	old := otelprop.Request{Grant: 9, Limit: 9, Hop: 9, Nonce: nextNonce(), Entry: "elsewhere"}
	header := s.header(otelprop.RequestHeader, old.Header(), otelprop.BaggageHeader, old.Member()+",user=u1")
	s.succeeded(s.dial(rec, c.address)(s.chain(rec), Request{Header: header}), "done")
	for _, a := range c.all() {
		s.oneWire(a)
		if a.wire.Nonce == old.Nonce || a.wire.Entry != "caller" {
			s.Errorf("the request brings %+v, which is the old wire", a.wire)
		}
	}
}
