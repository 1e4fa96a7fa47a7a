package otelprop

import "strings"

// window hands out baggage lines until [MaxBaggageBytes] bytes have been seen over all of them. Lines count as if they
// were joined by one comma each, so that a million empty lines end it too.
type window struct{ left int }

// newWindow starts with one byte more than the limit, for the comma that the first line does not have.
func newWindow() window { return window{left: MaxBaggageBytes + 1} }

// next returns the part of line that is within the bound, whole members only; a member that the bound cuts belongs to
// the rest. whole is false when there is a rest: nothing after it may be looked at.
func (w *window) next(line string) (in string, whole bool) {
	w.left--
	if w.left < 0 {
		return "", false
	}
	if len(line) <= w.left {
		w.left -= len(line)
		return line, true
	}
	in = line[:w.left]
	if line[w.left] != ',' {
		in = in[:max(strings.LastIndexByte(in, ','), 0)]
	}
	w.left = 0
	return in, false
}

// findMember finds the first member of ours that begins at or after from: s[start:end] is the member with the white space
// around it and without its commas. from is 0 or the place after a comma.
func findMember(s string, from int) (start, end int, ok bool) {
	for from < len(s) {
		key := strings.Index(s[from:], MemberKey)
		if key < 0 {
			return 0, 0, false
		}
		key += from
		start, after := key, key+len(MemberKey)
		for start > from && isSpace(s[start-1]) {
			start--
		}
		if (start == 0 || s[start-1] == ',') && endsKey(s[after:]) {
			end = len(s)
			if comma := strings.IndexByte(s[after:], ','); comma >= 0 {
				end = after + comma
			}
			return start, end, true
		}
		from = after
	}
	return 0, 0, false
}

// endsKey reports whether a key ends where s begins.
func endsKey(s string) bool {
	for s != "" && isSpace(s[0]) {
		s = s[1:]
	}
	return s == "" || s[0] == '=' || s[0] == ';' || s[0] == ','
}

// isOurs reports whether a member has our key.
func isOurs(member string) bool {
	_, _, ok := findMember(member, 0)
	return ok
}

// memberValue cuts key, properties and white space off a member of ours. Without "=" the value is empty.
func memberValue(member string) string {
	member, _, _ = strings.Cut(member, ";")
	_, value, _ := strings.Cut(member, "=")
	return trimSpace(value)
}

// HasMember reports whether [StripBaggage] would change lines: a member of ours stands in the first [MaxBaggageBytes]
// bytes, or there are more bytes than that, so that one cannot be ruled out. It does not allocate.
func HasMember(lines []string) bool {
	w := newWindow()
	for _, line := range lines {
		in, whole := w.next(line)
		if !whole || isOurs(in) {
			return true
		}
	}
	return false
}

// StripBaggage removes our members from the lines of a baggage header, and keeps foreign members byte for byte and in
// their lines. When there is nothing to remove, it returns lines itself and false, without allocating. Otherwise kept is a
// new slice without empty lines, nil when nothing is left; lines is never written to.
//
// I6: what has not been looked at must not leave. So everything after the last whole member within the first
// [MaxBaggageBytes] bytes, over all lines, is removed too, and found is true.
func StripBaggage(lines []string) (kept []string, found bool) {
	w := newWindow()
	for i, line := range lines {
		in, whole := w.next(line)
		start, end, ours := findMember(in, 0)
		if !found {
			if whole && !ours {
				continue
			}
			found = true
			for _, before := range lines[:i] {
				if !blank(before) {
					kept = append(kept, before)
				}
			}
		}
		if !whole {
			in = strings.Clone(in) // or 8 KiB would hold a line of any length in memory
		}
		if ours {
			in = withoutOurs(in, start, end)
		}
		if !blank(in) {
			kept = append(kept, in)
		}
		if !whole {
			break
		}
	}
	if !found {
		return lines, false
	}
	return kept, true
}

// blank reports whether a line holds no member.
func blank(line string) bool {
	for i := range len(line) {
		if c := line[i]; c != ',' && !isSpace(c) {
			return false
		}
	}
	return true
}

// withoutOurs returns line without members of ours, of which line[start:end] is the first: a part of it where they stand
// at its ends, else a copy.
func withoutOurs(line string, start, end int) string {
	var (
		only   string          // the first run of foreign members
		joined strings.Builder // all of them, once there are two
	)
	for from, ok := 0, true; from < len(line); start, end, ok = findMember(line, from) {
		if !ok {
			start, end = len(line)+1, len(line)
		}
		if start-1 > from {
			run := line[from : start-1]
			switch {
			case only == "":
				only = run
			case joined.Len() == 0:
				joined.Grow(len(line))
				joined.WriteString(only)
				fallthrough
			default:
				joined.WriteByte(',')
				joined.WriteString(run)
			}
		}
		from = end + 1
	}
	if joined.Len() > 0 {
		return joined.String()
	}
	return only
}

// MergeBaggage returns the one baggage line to send: member first, then the foreign members of lines byte for byte and
// in their order. Members of ours in lines are left out wherever they stand, white space around members and empty
// members may be.
//
// The result has at most [MaxBaggageMembers] members and [MaxBaggageBytes] bytes. Foreign members that do not fit are
// dropped whole, from the end; dropped counts them. Lines beyond the first MaxBaggageBytes bytes are not looked at; that
// rest counts as one.
//
// member is what [Request.Member] returns. Anything that is not one member of ours of at most [MaxMember] bytes, such as
// "", is not written. It allocates the result only, and nothing when there are no lines.
func MergeBaggage(lines []string, member string) (line string, dropped int) {
	if len(member) > MaxMember || strings.IndexByte(member, ',') >= 0 || !isOurs(member) {
		member = ""
	}
	if len(lines) == 0 {
		return member, 0
	}
	if len(lines) == 1 && member != "" && fitsBehind(lines[0], member) {
		return member + "," + lines[0], 0
	}

	size := len(member)
	for _, l := range lines {
		if size += 1 + len(l); size > MaxBaggageBytes {
			size = MaxBaggageBytes
			break
		}
	}
	var b strings.Builder
	b.Grow(size)
	b.WriteString(member)
	members := min(len(member), 1)
	w := newWindow()
	for _, l := range lines {
		in, whole := w.next(l)
		for in != "" {
			var foreign string
			foreign, in, _ = strings.Cut(in, ",")
			foreign = trimSpace(foreign)
			if foreign == "" || isOurs(foreign) {
				continue
			}
			comma := min(members, 1)
			if dropped > 0 || members == MaxBaggageMembers || b.Len()+comma+len(foreign) > MaxBaggageBytes {
				dropped++
				continue
			}
			if comma == 1 {
				b.WriteByte(',')
			}
			b.WriteString(foreign)
			members++
		}
		if !whole {
			dropped++
			break
		}
	}
	return b.String(), dropped
}

// fitsBehind reports whether line can follow member unchanged: the ordinary case, for one copy.
func fitsBehind(line, member string) bool {
	return len(member)+1+len(line) <= MaxBaggageBytes &&
		strings.Count(line, ",")+2 <= MaxBaggageMembers &&
		trimSpace(line) != "" &&
		!isOurs(line)
}
