package otelprop

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// The reference is WIRE.md written down a second time, slowly: with regular expressions over everything at once. The
// fuzz targets and the property tests compare the codec with it.

var (
	refCore = regexp.MustCompile(`^v1\.(0|[1-9][0-9]?)\.(0|[1-9][0-9]?)\.([1-9][0-9]?)\.([0-9a-f]{8})\.` +
		`([a-z0-9_-]{1,24})(?:\.[\s\S]*)?$`)
	refReturn = regexp.MustCompile(`^v1\.(0|[1-9][0-9]?)\.(0|[1-9][0-9]?)\.([ncus])\.([0-9a-f]{8})\.([A-Za-z-]+)` +
		`(?:\.([^.]*)(?:\.[\s\S]*)?)?$`)
	refNewer   = regexp.MustCompile(`^v(0|[2-9]|[1-9][0-9]{1,8})(\.[\s\S]*)?$|^v1\.`)
	refOurs    = regexp.MustCompile(`^[ \t]*chainbudget[ \t]*($|[=;])`)
	refName    = regexp.MustCompile(`^[a-z0-9_-]{1,40}$`)
	refOwner   = regexp.MustCompile(`^[a-z0-9_-]{1,24}$`)
	refProfile = regexp.MustCompile(`^([a-z0-9_-]{1,64})@([0-9a-f]{8})$`)
	refTwo     = regexp.MustCompile(`^[1-9][0-9]?$`)
	refSix     = regexp.MustCompile(`^[1-9][0-9]{0,5}$`)
)

func refNumber(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func refNonce(s string) Nonce {
	n, _ := strconv.ParseUint(s, 16, 32)
	return Nonce(n)
}

// refMembers returns the non-empty members of lines within the bound, and whether there is a rest.
func refMembers(lines []string) (members []string, rest bool) {
	all := strings.Join(lines, ",")
	if rest = len(all) > MaxBaggageBytes; rest {
		whole := all[MaxBaggageBytes] == ','
		all = all[:MaxBaggageBytes]
		if !whole {
			all = all[:max(strings.LastIndex(all, ","), 0)]
		}
	}
	for _, m := range strings.Split(all, ",") {
		if m = strings.Trim(m, " \t"); m != "" {
			members = append(members, m)
		}
	}
	return members, rest
}

// refForeign returns the members that are not ours.
func refForeign(lines []string) (foreign []string, ours int, rest bool) {
	members, rest := refMembers(lines)
	for _, m := range members {
		if refOurs.MatchString(m) {
			ours++
		} else {
			foreign = append(foreign, m)
		}
	}
	return foreign, ours, rest
}

func refReject(rejects *Rejects, value string) {
	if refNewer.MatchString(value) && !strings.HasPrefix(value, "v1.") {
		rejects[RejectVersion]++
	} else {
		rejects[RejectMalformed]++
	}
}

func refReadRequest(baggage, header []string, maxBudget int) (r Request, rejects Rejects) {
	var members, lines [][]string
	members0, lines0 := 0, len(header)
	all, _ := refMembers(baggage)
	for _, m := range all {
		if !refOurs.MatchString(m) {
			continue
		}
		members0++
		m, _, _ = strings.Cut(m, ";")
		_, value, _ := strings.Cut(m, "=")
		value = strings.Trim(value, " \t")
		if len("chainbudget="+value) > 64 {
			rejects[RejectTooLong]++
		} else if found := refCore.FindStringSubmatch(value); found != nil {
			members = append(members, found)
		} else {
			refReject(&rejects, value)
		}
	}
	for i, line := range header {
		if i == MaxHeaderLines {
			rejects[RejectDuplicate]++
			break
		}
		value, _, _ := strings.Cut(line, ";")
		value = strings.Trim(value, " \t")
		if len(line) > 256 {
			rejects[RejectTooLong]++
		} else if strings.Contains(line, ",") {
			rejects[RejectMalformed]++
		} else if found := refCore.FindStringSubmatch(value); found != nil {
			lines = append(lines, found)
		} else {
			refReject(&rejects, value)
		}
	}
	if members0+lines0 == 0 {
		return r, rejects
	}
	if len(members)+len(lines) == 0 {
		r.State = Unreadable
		return r, rejects
	}
	from := append(append([][]string{}, lines...), members...)
	grant := 99
	for _, f := range from {
		grant = min(grant, refNumber(f[1]), refNumber(f[2]))
	}
	if len(lines) == 0 {
		grant = min(grant, 1)
	}
	if len(header) > MaxHeaderLines && len(lines) > 0 {
		grant = 0
	}
	limit := min(refNumber(from[0][2]), max(maxBudget, 0))
	r = Request{
		State: Valid, Grant: uint8(min(grant, limit)), Limit: uint8(limit), Hop: uint8(refNumber(from[0][3])),
		Nonce: refNonce(from[0][4]), Entry: from[0][5], Direct: len(lines) > 0,
	}
	if len(lines) == 1 && len(header) == 1 {
		for _, p := range strings.Split(header[0], ";")[1:] {
			name, value, _ := strings.Cut(p, "=")
			value = strings.Trim(value, " \t")
			switch strings.Trim(name, " \t") {
			case "caller":
				if refName.MatchString(value) {
					r.Caller = value
				}
			case "attempt":
				if refTwo.MatchString(value) {
					r.Attempt = uint8(refNumber(value))
				}
			case "profile":
				if found := refProfile.FindStringSubmatch(value); found != nil {
					r.Profile, r.Digest = found[1], found[2]
				}
			case "timeout":
				if refSix.MatchString(value) && refNumber(value) <= 600000 {
					r.Timeout = time.Duration(refNumber(value)) * time.Millisecond
				}
			}
		}
	}
	return r, rejects
}

func refReadReturn(lines []string, sent Nonce, leased int) (ret Return, ok bool, rejects Rejects) {
	if len(lines) == 0 {
		return ret, false, rejects
	}
	if len(lines) > 1 {
		rejects[RejectDuplicate]++
		return ret, false, rejects
	}
	line := strings.Trim(lines[0], " \t")
	found := refReturn.FindStringSubmatch(line)
	switch {
	case len(lines[0]) > 128:
		rejects[RejectTooLong]++
	case strings.Contains(line, ","):
		rejects[RejectMalformed]++
	case found == nil:
		refReject(&rejects, line)
	case refNonce(found[4]) != sent:
		rejects[RejectRelayed]++
	default:
		ret = Return{
			Returned: uint8(min(refNumber(found[1]), max(leased, 0))), Retries: uint8(refNumber(found[2])),
			Claim: map[string]ownership.Claim{
				"n": ownership.ClaimNone, "c": ownership.ClaimClaimed,
				"u": ownership.ClaimUnclaimed, "s": ownership.ClaimStop,
			}[found[3]],
			Nonce: sent, Leaf: strings.Contains(found[5], "l"), Effects: strings.Contains(found[5], "e"),
		}
		if refOwner.MatchString(found[6]) {
			ret.Owner = found[6]
		}
		for _, letter := range found[5] {
			if at := strings.IndexRune("ABCDEFGHIJKLMNOPQRSTUVWXYZ", letter); at >= 0 {
				ret.Depth = uint8(1 + at)
			}
		}
		return ret, true, rejects
	}
	return ret, false, rejects
}

func refMerge(lines []string, member string) (line string, dropped int) {
	foreign, _, rest := refForeign(lines)
	if rest {
		dropped++
	}
	var out []string
	if member != "" {
		out = append(out, member)
	}
	for i, f := range foreign {
		if len(out) == MaxBaggageMembers || len(strings.Join(append(out[:len(out):len(out)], f), ",")) > MaxBaggageBytes {
			return strings.Join(out, ","), dropped + len(foreign) - i
		}
		out = append(out, f)
	}
	return strings.Join(out, ","), dropped
}

func refSlug(name string, limit int) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		c, size := utf8.DecodeRuneInString(name[i:])
		i += size
		switch {
		case 'A' <= c && c <= 'Z':
			b.WriteRune(c + 'a' - 'A')
		case c < 128 && strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789_-", c):
			b.WriteRune(c)
		default:
			b.WriteByte('-')
		}
	}
	if name == "" {
		b.WriteString("unknown")
	}
	return b.String()[:min(b.Len(), limit)]
}
