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
	shape = engine.HashString(engine.HashSeed, req.Method)
	exact = engine.HashString(engine.HashString(shape, req.URL.Path), req.URL.RawQuery)
	for path := req.URL.Path; path != ""; {
		segment, rest := path, ""
		if i := strings.IndexByte(path[1:], '/'); i >= 0 {
			segment, rest = path[:i+1], path[i+1:]
		}
		if identifier(segment) {
			segment = "/*"
		}
		shape, path = engine.HashString(shape, segment), rest
	}
	return max(exact, 1), max(shape, 1)
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
