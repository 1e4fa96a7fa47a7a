package otelprop

import (
	"strings"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// Return is what a callee sends back for one attempt. Its strings may share memory with the line that it was read from,
// which is at most [MaxReturn] bytes long.
type Return struct {
	// Returned is the tokens that come back, 0 to 99; read, it is at most what was leased.
	Returned uint8
	// Retries is the retries made by this hop and all known below, 0 to 99; 99 means 99 or more.
	Retries uint8
	// Claim says who owns the failure. A return that was read never holds ClaimMissing; written, ClaimMissing and
	// values that are no claim become ClaimNone, which a caller reads as missing when its attempt failed.
	Claim ownership.Claim
	// Depth is how many hops below the one that answers the owner is, 0 to 26: 0 is that hop itself, or not said; 26 means
	// 26 or more.
	Depth uint8
	// Nonce repeats the request's.
	Nonce Nonce
	// Leaf is true when this hop made no outbound call for the request.
	Leaf bool
	// Effects is true when this hop or one below sent a non-idempotent call that may have run.
	Effects bool
	// Owner is the slug of the service that claimed, 1 to 24 bytes; empty = not said.
	Owner string
}

// MaxDepth is where the depth of a return saturates: it is one upper-case letter among the flags.
const MaxDepth = 'Z' - 'A' + 1

// claimLetters are the claims on the wire, indexed by ownership.Claim.
const claimLetters = "?ncus"

// ReadReturn reads the return from all lines of a response's header or trailer. sent is the nonce of the attempt that the
// response answers and leased the tokens that it carried (below 0 counts as 0). ok is false when there is no return
// that counts: the claim is then missing and the whole lease is lost. Rejects says why, and is zero when there were no
// lines. It does not allocate.
func ReadReturn(lines []string, sent Nonce, leased int) (ret Return, ok bool, rejects Rejects) {
	if len(lines) == 0 {
		return Return{}, false, rejects
	}
	if len(lines) > 1 {
		// One of them is not about this attempt, and nothing tells which.
		rejects.add(RejectDuplicate)
		return Return{}, false, rejects
	}
	ret, why, ok := parseReturn(lines[0])
	if ok && ret.Nonce != sent {
		ok, why = false, RejectRelayed
	}
	if !ok {
		rejects.add(why)
		return Return{}, false, rejects
	}
	ret.Returned = uint8(min(int(ret.Returned), max(leased, 0))) // I3: never more than was lent
	return ret, true, rejects
}

// parseReturn reads v1.<returned>.<retries>.<claim>.<nonce>.<flags>[.<owner>], with any fields after it.
func parseReturn(line string) (ret Return, why Reject, ok bool) {
	if len(line) > MaxReturn {
		return Return{}, RejectTooLong, false
	}
	if strings.IndexByte(line, ',') >= 0 {
		return Return{}, RejectMalformed, false // several lines, joined on the way
	}
	rest, why, ok := cutVersion(trimSpace(line))
	if !ok {
		return Return{}, why, false
	}
	var okReturned, okRetries, okClaim, okNonce bool
	ret.Returned, rest, okReturned = takeCount(rest)
	ret.Retries, rest, okRetries = takeCount(rest)
	ret.Claim, rest, okClaim = takeClaim(rest)
	ret.Nonce, rest, okNonce = takeNonce(rest)
	flags, rest := cutField(rest)
	okFlags := ret.parseFlags(flags)
	if !okReturned || !okRetries || !okClaim || !okNonce || !okFlags {
		return Return{}, RejectMalformed, false
	}
	owner, _ := cutField(rest)
	if isSlug(owner, MaxOwner) {
		ret.Owner = owner
	}
	return ret, 0, true
}

// takeClaim reads a claim and the dot that ends its field.
func takeClaim(s string) (c ownership.Claim, rest string, ok bool) {
	if len(s) < 2 || s[1] != '.' {
		return ownership.ClaimMissing, "", false
	}
	for i := ownership.ClaimMissing + 1; int(i) < len(claimLetters); i++ {
		if claimLetters[i] == s[0] {
			return i, s[2:], true
		}
	}
	return ownership.ClaimMissing, "", false
}

// parseFlags reads one or more letters or "-". Unknown letters belong to a later minor change. Of several depths the last
// counts.
func (r *Return) parseFlags(s string) (ok bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case c == 'l':
			r.Leaf = true
		case c == 'e':
			r.Effects = true
		case 'A' <= c && c <= 'Z':
			r.Depth = c - 'A' + 1
		case 'a' <= c && c <= 'z', c == '-':
		default:
			return false
		}
	}
	return s != ""
}

// Append appends the return's line to dst, at most [MaxReturn] bytes. Whatever the fields hold, a reader accepts it:
// numbers above 99 become 99, Owner passes through [Slug]. It does not allocate when dst has room and the slug is valid.
func (r *Return) Append(dst []byte) []byte {
	dst = append(dst, version...)
	dst = appendCount(dst, min(r.Returned, MaxTokens))
	dst = append(dst, '.')
	dst = appendCount(dst, min(r.Retries, MaxTokens))
	claim := r.Claim
	if claim == ownership.ClaimMissing || int(claim) >= len(claimLetters) {
		claim = ownership.ClaimNone
	}
	dst = append(dst, '.', claimLetters[claim], '.')
	dst = r.Nonce.append(dst)
	dst = append(dst, '.')
	if r.Leaf {
		dst = append(dst, 'l')
	}
	if r.Effects {
		dst = append(dst, 'e')
	}
	if r.Depth > 0 {
		dst = append(dst, 'A'+min(r.Depth, MaxDepth)-1)
	}
	if !r.Leaf && !r.Effects && r.Depth == 0 {
		dst = append(dst, '-')
	}
	if r.Owner != "" {
		dst = append(dst, '.')
		dst = append(dst, Slug(r.Owner, MaxOwner)...)
	}
	return dst
}
