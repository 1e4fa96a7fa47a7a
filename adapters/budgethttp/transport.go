package budgethttp

import (
	"net/http"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// NewTransport returns a RoundTripper that sends every request as a call to dep, through base; nil is
// http.DefaultTransport. A nil dep lets everything pass through base as it is.
func NewTransport(base http.RoundTripper, dep *chainbudget.Dependency) http.RoundTripper {
	base = orDefault(base)
	if dep == nil {
		return base
	}
	return &transport{base: base, dep: (*engine.Dependency)(dep)}
}

// NewRouter returns a RoundTripper that picks the dependency of each request by the hosts that the catalog of sdk
// declares. A request to any other host passes through base as it is. A nil base is http.DefaultTransport; a nil or
// zero sdk lets everything pass.
func NewRouter(base http.RoundTripper, sdk *chainbudget.SDK) http.RoundTripper {
	base = orDefault(base)
	if !(*engine.SDK)(sdk).Usable() {
		return base
	}
	return &router{base: base, sdk: (*engine.SDK)(sdk)}
}

func orDefault(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		return http.DefaultTransport
	}
	return base
}

type transport struct {
	base http.RoundTripper
	dep  *engine.Dependency
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return roundTrip(t.base, t.dep, req)
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the base.
func (t *transport) CloseIdleConnections() { closeIdle(t.base) }

type router struct {
	base http.RoundTripper
	sdk  *engine.SDK
}

// RoundTrip implements [http.RoundTripper].
func (t *router) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL != nil {
		if dep := t.sdk.ForHost(req.Context(), req.URL.Host); dep != nil {
			return roundTrip(t.base, dep, req)
		}
	}
	return t.base.RoundTrip(req)
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the base.
func (t *router) CloseIdleConnections() { closeIdle(t.base) }

func closeIdle(base http.RoundTripper) {
	if c, ok := base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Denied returns why a response is the last one of its call: the gate that refused a further retry, and who owns the
// failure. It returns nil for a response that is no failure. Wrapping it in the error that a handler returns makes the
// failed call the exact cause.
//
// For a 5xx or 429 that no transport of this package dealt with (in mode bypass, or with a nil dependency) the reason is
// [ownership.ReasonDisabled] and the owner the request's host: a handler that returns Denied's error fails in every mode.
func Denied(resp *http.Response) *chainbudget.DeniedError {
	if resp == nil || resp.Request == nil {
		return nil
	}
	if x, ok := resp.Request.Context().Value(exchangeKey{}).(*exchange); ok {
		return x.denied
	}
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < 500 || resp.Request.URL == nil {
		return nil
	}
	host := resp.Request.URL.Hostname()
	return &chainbudget.DeniedError{
		Reason: ownership.ReasonDisabled, Dependency: host, Owner: otelprop.Slug(host, otelprop.MaxOwner), OwnerDepth: 1,
		Claim: ownership.ClaimClaimed, Attempts: 1, Status: resp.StatusCode,
	}
}
