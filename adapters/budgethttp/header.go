package budgethttp

import (
	"net/http"
	"strings"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// copyHeader returns a map of its own with room for what an attempt writes. The values are shared, but cut to their
// length, so that an append below copies. Keys that differ from the canonical ones only in case are folded into them:
// HTTP would send both. A return is left out: it is not a request's.
func copyHeader(from http.Header) http.Header {
	to := make(http.Header, len(from)+2)
	for k, v := range from {
		if k == otelprop.HTTPReturnHeader {
			continue
		}
		if canonical := ours(k); canonical != k {
			if have := to[canonical]; have != nil {
				v = append(append([]string(nil), have...), v...)
			}
			to[canonical] = v
			continue
		}
		if have, ok := to[k]; ok { // a folded key came first
			v = append(append([]string(nil), v...), have...)
		}
		to[k] = v[:len(v):len(v)]
	}
	return to
}

// ours returns the canonical spelling of a key that an adapter writes, and any other key as it is.
func ours(k string) string {
	switch len(k) {
	case len(otelprop.HTTPBaggageHeader):
		if k != otelprop.HTTPBaggageHeader && strings.EqualFold(k, otelprop.HTTPBaggageHeader) {
			return otelprop.HTTPBaggageHeader
		}
	case len(otelprop.HTTPRequestHeader):
		if k != otelprop.HTTPRequestHeader && strings.EqualFold(k, otelprop.HTTPRequestHeader) {
			return otelprop.HTTPRequestHeader
		}
	}
	return k
}

// idempotent reports whether a request may run twice: by its method, or by a key that lets the callee tell.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return first(req.Header, "Idempotency-Key") != "" || first(req.Header, "X-Idempotency-Key") != ""
}

// replayable reports whether a request can be sent twice.
func replayable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

func first(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// operation identifies what a request asks, to tell whether a call repeats a failed one: method, path and query. Its
// shape leaves the query out and takes path segments that look like identifiers as all alike: what is learned about a
// callee holds for a kind of request. Both are hashes, never 0.
func operation(req *http.Request) (exact, shape uint64) {
	exact = engine.HashString(engine.HashSeed, req.Method)
	path := req.URL.Path
	begin, before, one := 0, exact, false // of the segment: where it begins, the shape there, and whether it names one thing
	shape = exact
	for i := range len(path) {
		c := path[i]
		if c == '/' && i > begin {
			shape = segment(before, shape, one || i-begin > longName)
			begin, before, one = i, shape, false
		}
		exact, shape = engine.HashByte(exact, c), engine.HashByte(shape, c)
		one = one || '0' <= c && c <= '9'
	}
	shape = segment(before, shape, one || len(path)-begin > longName)
	return max(engine.HashString(exact, req.URL.RawQuery), 1), max(shape, 1)
}

// longName is how long a path segment may be, with its slash, that names a kind of thing rather than one: what is longer,
// or has a digit, is taken for an identifier.
const longName = 32

// segment returns the shape of a path after one more segment, which alone made shape of before.
func segment(before, shape uint64, identifier bool) uint64 {
	if identifier {
		return engine.HashString(before, "/*")
	}
	return shape
}
