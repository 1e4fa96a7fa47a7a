package budgetconnect

import (
	"net/http"
	"strings"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// The headers in which connect tells the callee how much time there is. It writes them for an attempt with a deadline, and
// leaves them as they are for one without.
const (
	connectTimeout = "Connect-Timeout-Ms"
	grpcTimeout    = "Grpc-Timeout"
)

// cleanHeader copies the headers of a request for one attempt: without an earlier attempt's timeout, and without what of
// ours somebody else put there. With outside, nothing of ours is left in the baggage either. The values are shared.
func cleanHeader(from http.Header, outside bool) http.Header {
	to := make(http.Header, len(from)+4)
	for k, v := range from {
		switch canonical(k) {
		case connectTimeout, grpcTimeout, otelprop.HTTPRequestHeader, otelprop.HTTPReturnHeader:
		case otelprop.HTTPBaggageHeader:
			if outside {
				if v, _ = otelprop.StripBaggage(v); len(v) == 0 {
					continue
				}
			}
			if have := to[otelprop.HTTPBaggageHeader]; have != nil {
				v = append(append([]string(nil), have...), v...)
			}
			to[otelprop.HTTPBaggageHeader] = v
		default:
			to[k] = v[:len(v):len(v)]
		}
	}
	return to
}

// canonical returns the canonical spelling of a key that an adapter reads or writes, and any other key as it is.
func canonical(k string) string {
	for _, own := range [...]string{otelprop.HTTPBaggageHeader, otelprop.HTTPRequestHeader, otelprop.HTTPReturnHeader, connectTimeout, grpcTimeout} {
		if len(k) == len(own) && strings.EqualFold(k, own) {
			return own
		}
	}
	return k
}
