package otelprop

import (
	"strconv"
	"strings"
	"time"
)

// State says what a read of a request found.
type State uint8

const (
	// Absent, the zero value, means that there is neither a member nor a header: the hop is an orphan.
	Absent State = iota
	// Valid means that at least one of them could be read.
	Valid
	// Unreadable means that there is something and none of it can be read. It is worth 0 tokens: it may be somebody
	// newer's budget, and so is no reason to mint.
	Unreadable
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case Absent:
		return "absent"
	case Valid:
		return "valid"
	case Unreadable:
		return "unreadable"
	default:
		return "invalid"
	}
}

// Request is what a caller sends with one attempt. [ReadRequest] makes one from the wire; [Request.AppendWire] writes
// one. Its strings may share memory with the lines that it was read from.
type Request struct {
	// State is set by ReadRequest. Where it is not Valid, all other fields are zero. Writers ignore it.
	State State
	// Grant is the tokens that the callee may use, 0 to 99 and at most Limit.
	Grant uint8
	// Limit is the tokens that the chain was minted with, 0 to 99.
	Limit uint8
	// Hop is 1 for a callee of the entry and one more for each hop below it, 1 to 99.
	Hop uint8
	// Nonce is fresh for each attempt; the return repeats it.
	Nonce Nonce
	// Entry is the slug of the service where the chain began, 1 to 24 bytes.
	Entry string

	// Direct is true when a valid header was there: our caller, or a transparent proxy for it, sent this itself, and a
	// return is owed. It is false when only the member arrived. Writers ignore it.
	Direct bool

	// Caller is the slug of the calling service, 1 to 40 bytes; empty = not said.
	Caller string
	// Attempt is the attempt's number at the caller, 1 to 99; 0 = not said.
	Attempt uint8
	// Profile is the name of the profile that the caller uses, and Digest its digest (8 lower-case hexadecimal
	// digits); both are empty when not said.
	Profile, Digest string
	// Timeout is what was left of the caller's attempt when it was sent, whole milliseconds of 1 ms to 10 min; 0 = not
	// said.
	Timeout time.Duration
}

// core holds the fields that the member and the header have in common.
type core struct {
	grant, limit, hop uint8
	nonce             Nonce
	entry             string
}

// parseCore reads v1.<grant>.<limit>.<hop>.<nonce>.<entry>, with any fields after it.
func parseCore(s string) (c core, why Reject, ok bool) {
	rest, why, ok := cutVersion(s)
	if !ok {
		return core{}, why, false
	}
	grant, rest := cutField(rest)
	limit, rest := cutField(rest)
	hop, rest := cutField(rest)
	nonce, rest := cutField(rest)
	entry, _ := cutField(rest) // what follows belongs to a later minor change
	var okGrant, okLimit, okHop, okNonce bool
	c.grant, okGrant = parseCount(grant)
	c.limit, okLimit = parseCount(limit)
	c.hop, okHop = parseCount(hop)
	c.nonce, okNonce = parseNonce(nonce)
	c.entry = entry
	if !okGrant || !okLimit || !okHop || c.hop == 0 || !okNonce || !isSlug(entry, MaxEntry) {
		return core{}, RejectMalformed, false
	}
	c.grant = min(c.grant, c.limit)
	return c, 0, true
}

// found collects what the members, or the header lines, of one request say.
type found struct {
	first core   // the first valid one: all but the grant comes from it
	text  string // what it was read from
	grant uint8  // the smallest valid grant
	valid bool   // at least one is valid
	any   bool   // at least one is there
	long  bool   // the first valid one is part of a line longer than maxPinned
}

// add reads one of them. A header line mostly says what the member says, which known has then read already.
func (f *found) add(s string, known *found, rejects *Rejects) {
	f.any = true
	if known != nil && known.valid && !known.long && !f.valid && known.text == s {
		f.first, f.text, f.grant, f.valid = known.first, s, known.first.grant, true
		return
	}
	c, why, ok := parseCore(s)
	switch {
	case !ok:
		rejects.add(why)
	case !f.valid:
		f.first, f.text, f.grant, f.valid = c, s, c.grant, true
	default:
		f.grant = min(f.grant, c.grant)
	}
}

// maxPinned is the length up to which an input line may be kept alive by a Request that holds a part of it. Header
// lines are always shorter. An entry cut from a longer baggage line is copied, because somebody who remembers a
// Request, or its entry, must not hold a line of up to the server's whole header limit with it.
const maxPinned = 1024

// ReadRequest reads a request from all lines of its baggage header and all lines of its chainbudget header (nil = not
// there) and clamps grant and limit to maxBudget, the local maximum (below 0 counts as 0, above 99 as 99). It never
// fails: what could not be used is counted in Rejects. Of the baggage it looks at [MaxBaggageBytes] bytes, of the header
// at [MaxHeaderLines] lines. It does not allocate unless the entry has to be copied out of a line longer than 1 KiB.
func ReadRequest(baggage, header []string, maxBudget int) (Request, Rejects) {
	var (
		rejects Rejects
		members found
		lines   found
	)
	readMembers(baggage, &members, &rejects)
	params := readHeader(header, &lines, &members, &rejects)

	var r Request
	switch {
	case lines.valid:
		r.take(lines.first)
		r.Direct = true
		r.Grant = lines.grant
		if members.valid {
			r.Grant = min(r.Grant, members.grant)
		}
		r.readParams(params)
	case members.valid:
		// Something between our caller and us passed the member on, and may do so for any number of its own calls.
		r.take(members.first)
		r.Grant = min(members.grant, 1)
		if members.long {
			r.Entry = strings.Clone(r.Entry)
		}
	case lines.any || members.any:
		r.State = Unreadable
	}
	r.Clamp(maxBudget) // I4
	return r, rejects
}

func (r *Request) take(c core) {
	r.State = Valid
	r.Limit, r.Hop, r.Nonce, r.Entry = c.limit, c.hop, c.nonce, c.entry
}

// Clamp lowers the limit to maxBudget (below 0 counts as 0) and the grant to the limit. [ReadRequest] has done so
// already; a Request that comes from [RequestFromContext] has been clamped to 99 only.
func (r *Request) Clamp(maxBudget int) {
	limit := uint8(min(max(maxBudget, 0), MaxTokens))
	r.Limit = min(r.Limit, limit)
	r.Grant = min(r.Grant, r.Limit)
}

func readMembers(baggage []string, members *found, rejects *Rejects) {
	w := newWindow()
	for _, line := range baggage {
		in, whole := w.next(line)
		for from := 0; ; {
			start, end, ok := findMember(in, from)
			if !ok {
				break
			}
			if value := memberValue(in[start:end]); len(MemberKey)+len("=")+len(value) > MaxMember {
				members.any = true
				rejects.add(RejectTooLong)
			} else {
				had := members.valid
				members.add(value, nil, rejects)
				members.long = members.long || !had && members.valid && len(line) > maxPinned
			}
			from = end + 1
		}
		if !whole {
			break
		}
	}
}

// readHeader reads the header lines and returns the parameters of the only line, "" if there are several.
func readHeader(header []string, lines, members *found, rejects *Rejects) (params string) {
	for _, line := range header[:min(len(header), MaxHeaderLines)] {
		if len(line) > MaxHeader {
			lines.any = true
			rejects.add(RejectTooLong)
			continue
		}
		var value string // a line with a comma was joined of several: it is as malformed as an empty one
		if strings.IndexByte(line, ',') < 0 {
			value, params, _ = strings.Cut(line, ";")
		}
		lines.add(trimSpace(value), members, rejects)
	}
	if len(header) > MaxHeaderLines {
		// A line that nobody read may hold any smaller grant, and duplicates must only lower it.
		lines.grant = 0
		rejects.add(RejectDuplicate)
	}
	if len(header) > 1 {
		return ""
	}
	return params
}

// readParams reads ";"-separated parameters. Unknown and invalid ones are ignored, of repeated ones the last valid one
// counts.
func (r *Request) readParams(params string) {
	for params != "" {
		var name, value string
		name, value, params = cutParam(params)
		switch name {
		case "caller":
			if isSlug(value, MaxCaller) {
				r.Caller = value
			}
		case "attempt":
			if n, ok := parseCount(value); ok && n > 0 {
				r.Attempt = n
			}
		case "profile":
			if at := len(value) - DigestLen - 1; at > 0 && value[at] == '@' && isProfile(value[:at], value[at+1:]) {
				r.Profile, r.Digest = value[:at], value[at+1:]
			}
		case "timeout":
			if ms, ok := parseDecimal(value, 6); ok && ms > 0 && ms <= MaxTimeoutMillis {
				r.Timeout = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// cutParam cuts the next parameter off. It goes over the bytes once: parameters are too short for a search.
func cutParam(s string) (name, value, rest string) {
	param, equals := s, -1
	for i := range len(s) {
		if s[i] == ';' {
			param, rest = s[:i], s[i+1:]
			break
		}
		if s[i] == '=' && equals < 0 {
			equals = i
		}
	}
	if equals < 0 {
		return trimSpace(param), "", rest
	}
	return trimSpace(param[:equals]), trimSpace(param[equals+1:]), rest
}

func isProfile(profile, digest string) bool {
	_, ok := parseNonce(digest) // the same alphabet and length
	return ok && isSlug(profile, MaxProfile)
}

// AppendWire appends the member and, right behind it, the header's parameters:
//
//	chainbudget=v1.2.3.1.9f86d081.checkout;caller=cart;attempt=1;profile=write-path@1a2b3c4d;timeout=250
//
// The first memberLen bytes appended are the baggage member; everything behind "chainbudget=" is the header's value. So
// a caller that makes one string of it has both for one allocation. At most 256 + 12 bytes are appended.
//
// Whatever the fields hold, a reader accepts the result: numbers are brought into their range (a grant above the limit
// becomes the limit, hop 0 becomes 1), Entry and Caller pass through [Slug], Timeout is rounded down to milliseconds (a
// negative one, and one below 1 ms, becomes 1 ms). Empty or zero parameters are left out, and so is a profile whose name or
// digest does not fit the grammar: a shortened name would be the name of another profile. It does not allocate when
// dst has room and the slugs are valid.
func (r *Request) AppendWire(dst []byte) (out []byte, memberLen int) {
	dst, memberLen = r.appendMember(dst)
	dst = appendCaller(dst, r.Caller)
	dst = r.appendAttempt(dst)
	dst = appendProfile(dst, r.Profile, r.Digest)
	return r.appendTimeout(dst), memberLen
}

// Params are the parameters that all requests of one caller with one profile share, checked and spelled once. The zero
// value says nothing.
type Params struct{ caller, profile string }

// NewParams returns the parameters of a caller and its profile, by the rules of [Request.AppendWire].
func NewParams(caller, profile, digest string) Params {
	return Params{caller: string(appendCaller(nil, caller)), profile: string(appendProfile(nil, profile, digest))}
}

// AppendWireWith is [Request.AppendWire] with the Caller, Profile and Digest of p in place of r's own.
func (r *Request) AppendWireWith(dst []byte, p *Params) (out []byte, memberLen int) {
	dst, memberLen = r.appendMember(dst)
	dst = append(dst, p.caller...)
	dst = r.appendAttempt(dst)
	dst = append(dst, p.profile...)
	return r.appendTimeout(dst), memberLen
}

func (r *Request) appendMember(dst []byte) (out []byte, memberLen int) {
	start := len(dst)
	dst = append(dst, MemberKey+"="+version...)
	limit := min(r.Limit, MaxTokens)
	dst = appendCount(dst, min(r.Grant, limit))
	dst = append(dst, '.')
	dst = appendCount(dst, limit)
	dst = append(dst, '.')
	dst = appendCount(dst, min(max(r.Hop, 1), MaxHop))
	dst = append(dst, '.')
	dst = r.Nonce.append(dst)
	dst = append(dst, '.')
	dst = append(dst, Slug(r.Entry, MaxEntry)...)
	return dst, len(dst) - start
}

func appendCaller(dst []byte, caller string) []byte {
	if caller == "" {
		return dst
	}
	dst = append(dst, ";caller="...)
	return append(dst, Slug(caller, MaxCaller)...)
}

func (r *Request) appendAttempt(dst []byte) []byte {
	if r.Attempt == 0 {
		return dst
	}
	dst = append(dst, ";attempt="...)
	return appendCount(dst, min(r.Attempt, MaxAttempt))
}

func appendProfile(dst []byte, profile, digest string) []byte {
	if !isProfile(profile, digest) {
		return dst
	}
	dst = append(dst, ";profile="...)
	dst = append(dst, profile...)
	dst = append(dst, '@')
	return append(dst, digest...)
}

func (r *Request) appendTimeout(dst []byte) []byte {
	if r.Timeout == 0 {
		return dst
	}
	dst = append(dst, ";timeout="...)
	return strconv.AppendInt(dst, min(max(r.Timeout.Milliseconds(), 1), MaxTimeoutMillis), 10)
}

// Member returns the baggage member, with its key.
func (r *Request) Member() string {
	var buf [len(MemberKey) + len("=") + MaxHeader]byte
	wire, memberLen := r.AppendWire(buf[:0])
	return string(wire[:memberLen])
}

// Header returns the value of the request header.
func (r *Request) Header() string {
	var buf [len(MemberKey) + len("=") + MaxHeader]byte
	wire, _ := r.AppendWire(buf[:0])
	return string(wire[len(MemberKey)+len("="):])
}

// appendCount appends a number of 0 to 99.
func appendCount(dst []byte, n uint8) []byte {
	if n >= 10 {
		dst = append(dst, '0'+n/10)
	}
	return append(dst, '0'+n%10)
}
