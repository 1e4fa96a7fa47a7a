package member

import (
	"net/http"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// Headers are the headers of a request, under canonical keys.
type Headers interface {
	Values(key string) []string
	SetValues(key string, values []string)
	Delete(key string)
}

// HTTP makes net/http's headers Headers.
type HTTP http.Header

// Values returns the values of a canonical key.
func (h HTTP) Values(key string) []string { return h[key] }

// SetValues replaces the values of a canonical key.
func (h HTTP) SetValues(key string, values []string) { h[key] = values }

// Delete removes a canonical key.
func (h HTTP) Delete(key string) { delete(h, key) }

// StripHeaders takes everything of ours out of the headers of a request, in place. I6: it is what keeps a grant from leaving
// other than through an adapter.
func StripHeaders(h Headers) {
	h.Delete(otelprop.HTTPRequestHeader)
	h.Delete(otelprop.HTTPReturnHeader)
	lines := h.Values(otelprop.HTTPBaggageHeader)
	if len(lines) == 0 {
		return
	}
	kept, found := otelprop.StripBaggage(lines)
	switch {
	case !found:
	case len(kept) == 0:
		h.Delete(otelprop.HTTPBaggageHeader)
	default:
		h.SetValues(otelprop.HTTPBaggageHeader, kept)
	}
}
