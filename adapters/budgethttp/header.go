package budgethttp

import (
	"net/http"
	"strings"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// copyHeader returns a map of its own with room for what an attempt writes. The values are shared, but cut to their
// length, so that an append below copies. Keys that differ from the canonical ones only in case are folded into them:
// HTTP would send both.
func copyHeader(from http.Header) http.Header {
	to := make(http.Header, len(from)+2)
	for k, v := range from {
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

// stripHeader takes everything of ours out of a header map of requests. I6: it is what keeps a grant from leaving
// other than through an adapter.
func stripHeader(h http.Header) {
	if _, ok := h[otelprop.HTTPRequestHeader]; ok {
		delete(h, otelprop.HTTPRequestHeader)
	}
	lines := h[otelprop.HTTPBaggageHeader]
	if len(lines) == 0 {
		return
	}
	kept, found := otelprop.StripBaggage(lines)
	switch {
	case !found:
	case len(kept) == 0:
		delete(h, otelprop.HTTPBaggageHeader)
	default:
		h[otelprop.HTTPBaggageHeader] = kept
	}
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

// operation identifies what a request asks of its dependency: the method and the shape of the path, in which segments
// that look like identifiers are all alike. It is a hash, never 0.
func operation(req *http.Request) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(req.Method) {
		h = (h ^ uint64(req.Method[i])) * prime
	}
	path := req.URL.Path
	for path != "" {
		var segment string
		if i := strings.IndexByte(path[1:], '/'); i >= 0 {
			segment, path = path[:i+1], path[i+1:]
		} else {
			segment, path = path, ""
		}
		if identifier(segment) {
			segment = "/*"
		}
		for i := range len(segment) {
			h = (h ^ uint64(segment[i])) * prime
		}
	}
	if h == 0 {
		h = 1
	}
	return h
}

// identifier reports whether a path segment looks like the name of one thing rather than of a kind: it has a digit, or
// is long.
func identifier(segment string) bool {
	if len(segment) > 32 {
		return true
	}
	for i := range len(segment) {
		if c := segment[i]; c >= '0' && c <= '9' {
			return true
		}
	}
	return false
}
