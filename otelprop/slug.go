package otelprop

import "unicode/utf8"

// unknownSlug stands for an empty name.
const unknownSlug = "unknown"

// Slug makes a name fit for the wire: ASCII letters in lower case, digits, "_" and "-" stay; every other rune, and every
// byte that is not UTF-8, becomes one "-"; the result is cut to limit bytes. An empty name becomes "unknown". A limit
// below 1 counts as [MaxEntry]. It looks at no more than limit runes and returns name itself, without allocating, where
// nothing has to change.
func Slug(name string, limit int) string {
	if limit < 1 {
		limit = MaxEntry
	}
	if name == "" {
		name = unknownSlug
	}
	if len(name) > limit && isSlug(name[:limit], limit) {
		return name[:limit]
	}
	if isSlug(name, limit) {
		return name
	}
	slug := make([]byte, 0, min(limit, len(name)))
	for name != "" && len(slug) < limit {
		c, size := name[0], 1
		switch {
		case slugBytes[c]:
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		default:
			c = '-'
			_, size = utf8.DecodeRuneInString(name)
		}
		slug = append(slug, c)
		name = name[size:]
	}
	return string(slug)
}

// isSlug reports whether s is 1 to limit bytes of a slug's alphabet.
func isSlug(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if !slugBytes[s[i]] {
			return false
		}
	}
	return true
}

// slugBytes is a slug's alphabet: every entry and owner is looked at byte by byte.
var slugBytes = func() (in [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz0123456789_-") {
		in[c] = true
	}
	return in
}()
