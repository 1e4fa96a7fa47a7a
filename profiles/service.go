package profiles

import (
	"net/http"
	"slices"
	"strings"
)

// Service is what the catalog says about a service's own, inbound side. A nil Service is one about which it says
// nothing.
type Service struct {
	Name            string
	Serves          []string         // the dependencies that it is to its callers; its own name by default
	Routes          map[string]Route // by pattern, in the syntax of net/http.ServeMux
	Idempotent      []string         // patterns of operations that may run twice, in the same syntax
	FailureStatuses []int            // HTTP statuses that are failures of this service; empty = every 5xx, and 429

	routes     *patternSet
	idempotent *patternSet
}

// Route sets what holds for the chains that begin at one route.
type Route struct {
	Budget int // tokens that an entry mints there, instead of the chain's
}

// Budget returns the tokens that an entry mints for r, if one of the service's routes matches it. A service without
// routes costs one comparison. gRPC and connect ask with POST and the full method as the path.
func (s *Service) Budget(r *http.Request) (tokens int, ok bool) {
	if s == nil || s.routes == nil {
		return 0, false
	}
	route, ok := s.Routes[s.routes.match(r)]
	return route.Budget, ok
}

// IdempotentRequest reports whether the catalog lists the operation of r as one that may run twice.
func (s *Service) IdempotentRequest(r *http.Request) bool {
	return s != nil && s.idempotent != nil && s.idempotent.match(r) != ""
}

// Failure reports whether an HTTP status is a failure of this service: one that the catalog lists, or else any 5xx, and
// 429.
func (s *Service) Failure(status int) bool {
	if s != nil && len(s.FailureStatuses) > 0 {
		return slices.Contains(s.FailureStatuses, status)
	}
	return status >= 500 && status <= 599 || status == http.StatusTooManyRequests
}

// patternSet finds the pattern for a request with the rules, and the code, of http.ServeMux: a route of the catalog
// means what the same string means to the service's own mux.
type patternSet struct {
	mux   http.ServeMux
	known map[string]bool
}

// add registers a pattern; what is wrong with it, or "".
func (s *patternSet) add(pattern string) (what string) {
	// ServeMux has no other way to refuse a pattern than a panic with a good explanation.
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			what = p.Error()
		case string:
			what = p
		default:
			what = "not a pattern"
		}
		what = withoutCallers(what)
	}()
	s.mux.Handle(pattern, http.NotFoundHandler())
	if s.known == nil {
		s.known = map[string]bool{}
	}
	s.known[pattern] = true
	return ""
}

func (s *patternSet) match(r *http.Request) (pattern string) {
	if r == nil || r.URL == nil {
		return ""
	}
	// For CONNECT the mux may name a path to redirect to instead of a pattern.
	if _, pattern = s.mux.Handler(r); !s.known[pattern] {
		return ""
	}
	return pattern
}

// withoutCallers cuts the places out of ServeMux's explanation: they are lines of this file.
func withoutCallers(what string) string {
	for {
		before, rest, found := strings.Cut(what, " (registered at ")
		if !found {
			return strings.ReplaceAll(what, "\n", " ")
		}
		_, after, _ := strings.Cut(rest, ")")
		what = before + after
	}
}
