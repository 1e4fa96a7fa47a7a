package otelprop

import "strings"

const (
	hexDigits = "0123456789abcdef"
	nonceLen  = 8
)

// Nonce names one attempt. On the wire it is 8 lower-case hexadecimal digits; every value is valid, 0 too.
type Nonce uint32

// String returns the nonce as it stands on the wire.
func (n Nonce) String() string { return string(n.append(make([]byte, 0, nonceLen))) }

func (n Nonce) append(dst []byte) []byte {
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[n>>shift&0xf])
	}
	return dst
}

// parseNonce reads exactly 8 lower-case hexadecimal digits. Upper case is refused: a nonce has one spelling.
func parseNonce(s string) (n Nonce, ok bool) {
	if len(s) != nonceLen {
		return 0, false
	}
	for i := range nonceLen {
		c := s[i]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		default:
			return 0, false
		}
		n = n<<4 | Nonce(c)
	}
	return n, true
}

// parseCount reads a canonical decimal number of 0 to 99: ASCII digits, no sign, no leading zero.
func parseCount(s string) (n uint8, ok bool) {
	v, ok := parseDecimal(s, 2)
	return uint8(v), ok // at most 99
}

// parseDecimal reads a canonical decimal number of at most maxDigits digits.
func parseDecimal(s string, maxDigits int) (n int, ok bool) {
	if s == "" || len(s) > maxDigits || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// cutVersion cuts the version field off. What follows it is in the known version when ok; otherwise why says whether
// the version is unknown or is none.
func cutVersion(s string) (rest string, why Reject, ok bool) {
	if rest, ok = strings.CutPrefix(s, version); ok {
		return rest, 0, true
	}
	field, _, dotted := strings.Cut(s, ".")
	number, isVersion := strings.CutPrefix(field, version[:1])
	if _, canonical := parseDecimal(number, 9); isVersion && canonical && (dotted || number != "1") {
		return "", RejectVersion, false
	}
	return "", RejectMalformed, false
}

// cutField cuts the next field off, with its dot. Fields are so short that a loop beats strings.Cut.
func cutField(s string) (field, rest string) {
	for i := range len(s) {
		if s[i] == '.' {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// trimSpace cuts spaces and tabs, the optional white space of HTTP, off both ends.
func trimSpace(s string) string {
	for s != "" && isSpace(s[0]) {
		s = s[1:]
	}
	for s != "" && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }
