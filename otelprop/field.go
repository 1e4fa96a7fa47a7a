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
	const h = hexDigits
	return append(dst, h[n>>28], h[n>>24&0xf], h[n>>20&0xf], h[n>>16&0xf], h[n>>12&0xf], h[n>>8&0xf], h[n>>4&0xf], h[n&0xf])
}

// parseNonce reads exactly 8 lower-case hexadecimal digits. Upper case is refused: a nonce has one spelling.
func parseNonce(s string) (n Nonce, ok bool) {
	if len(s) != nonceLen {
		return 0, false
	}
	bad := uint8(0)
	for i := range nonceLen {
		v := hexValues[s[i]]
		bad |= v
		n = n<<4 | Nonce(v&0xf)
	}
	if bad >= notHex {
		return 0, false
	}
	return n, true
}

// notHex is the value of a byte that is no lower-case hexadecimal digit.
const notHex = 0x10

// hexValues are the values of the hexadecimal digits, by byte.
var hexValues = func() (values [256]uint8) {
	for c := range values {
		values[c] = notHex
	}
	for v := range len(hexDigits) {
		values[hexDigits[v]] = uint8(v)
	}
	return values
}()

// parseCount reads a canonical decimal number of 0 to 99: ASCII digits, no sign, no leading zero.
func parseCount(s string) (n uint8, ok bool) {
	switch len(s) {
	case 1:
		n = s[0] - '0'
		return n, n <= 9
	case 2:
		tens, ones := s[0]-'0', s[1]-'0'
		return tens*10 + ones, tens-1 <= 8 && ones <= 9
	}
	return 0, false
}

// takeCount reads what parseCount does, and the dot that ends its field.
func takeCount(s string) (n uint8, rest string, ok bool) {
	switch {
	case len(s) >= 2 && s[1] == '.':
		n, ok = parseCount(s[:1])
		return n, s[2:], ok
	case len(s) >= 3 && s[2] == '.':
		n, ok = parseCount(s[:2])
		return n, s[3:], ok
	}
	return 0, "", false
}

// takeNonce reads a nonce, and the dot that ends its field.
func takeNonce(s string) (n Nonce, rest string, ok bool) {
	if len(s) <= nonceLen || s[nonceLen] != '.' {
		return 0, "", false
	}
	n, ok = parseNonce(s[:nonceLen])
	return n, s[nonceLen+1:], ok
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
