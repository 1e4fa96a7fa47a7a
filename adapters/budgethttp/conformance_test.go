package budgethttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// protocol is one that net/http speaks, with what a saboteur may put between.
type protocol struct {
	name   string
	scheme string
	server func(*httptest.Server) // configures and starts it
	pool   func(*http.Transport)
	lacks  map[chainbudgettest.Capability]string

	sabotage broken // none, but in the tests of the suite itself
}

var http1 = protocol{
	name: "HTTP/1.1", scheme: "http", server: (*httptest.Server).Start,
	lacks: map[chainbudgettest.Capability]string{},
}

var http2TLS = protocol{
	name: "HTTP/2", scheme: "https",
	server: func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	},
	pool: func(p *http.Transport) { p.ForceAttemptHTTP2 = true },
	lacks: map[chainbudgettest.Capability]string{
		chainbudgettest.Upgrades: "a connection of HTTP/2 is shared, so nobody can take it over",
	},
}

var http2Clear = protocol{
	name: "HTTP/2 without TLS", scheme: "http",
	server: func(s *httptest.Server) {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	},
	pool: func(p *http.Transport) {
		p.Protocols = new(http.Protocols)
		p.Protocols.SetUnencryptedHTTP2(true)
	},
	lacks: http2TLS.lacks,
}

// adapter describes the package to the conformance suite.
func (p protocol) adapter() chainbudgettest.Adapter {
	lacks := map[chainbudgettest.Capability]string{
		chainbudgettest.ReturnsInTrailer: "most proxies drop the trailers of responses, so the return is a header",
	}
	for c, why := range p.lacks {
		lacks[c] = why
	}
	return chainbudgettest.Adapter{
		Name: "budgethttp over " + p.name, Lacks: lacks, Spell: http.CanonicalHeaderKey,
		Serve: p.serve, Dial: p.dial,
		Transport: func(t testing.TB, l chainbudgettest.Link) (http.RoundTripper, string) {
			return p.transport(t, l), p.scheme + "://" + l.Address + "/"
		},
	}
}

func (p protocol) serve(t testing.TB, s chainbudgettest.Server) (address string) {
	h := p.handler(s)
	server := httptest.NewUnstartedServer(h)
	p.server(server)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func (p protocol) handler(s chainbudgettest.Server) http.Handler {
	var h http.Handler = budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		err = s.Handle(r.Context(), chainbudgettest.Received{Header: r.Header, Body: string(body)}, chainbudgettest.Reply{
			Header: func(name, value string) { w.Header().Add(name, value) },
			Return: func(line string) { w.Header().Add(otelprop.HTTPReturnHeader, line) },
			Send: func(message string) error {
				if _, err := io.WriteString(w, message); err != nil {
					return err
				}
				return http.NewResponseController(w).Flush()
			},
			Writer: w, Request: r,
		})
		if failure, ok := err.(*chainbudgettest.Failure); ok {
			if failure.After > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(failure.After))
			}
			http.Error(w, failure.Text, failure.Status)
			return nil
		}
		return err
	})
	if s.SDK == nil {
		return outside(s, budgethttp.NewHandler(h, nil))
	}
	var options []budgethttp.HandlerOption
	if s.Entry && !p.sabotage.noEntry {
		options = append(options, budgethttp.Entry())
	}
	h = p.sabotage.inside.around(h)
	for range s.Layers + 1 {
		h = budgethttp.NewHandler(h, s.SDK, options...)
	}
	return outside(s, p.sabotage.outside.around(h))
}

// outside is what stands around the server side: a recovering middleware, and what the suite installs.
func outside(s chainbudgettest.Server, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		if s.Outside != nil {
			r = r.WithContext(s.Outside(r.Context(), r.Header))
		}
		next.ServeHTTP(w, r)
	})
}

// transport is the client side over a connection pool of its own.
func (p protocol) transport(t testing.TB, l chainbudgettest.Link) http.RoundTripper {
	pool := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // httptest's certificate is its own
	if p.pool != nil {
		p.pool(pool)
	}
	t.Cleanup(pool.CloseIdleConnections)
	var base http.RoundTripper = pool
	switch l.Base {
	case chainbudgettest.NeitherBase:
		base = roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			closeRequest(r)
			return nil, nil
		})
	case chainbudgettest.BothBase:
		base = roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			resp, err := pool.RoundTrip(r)
			return resp, errors.Join(errors.New("an error beside the response"), err)
		})
	}
	if l.Dependency == nil {
		return p.sabotage.without.around(budgethttp.NewTransport(base, nil))
	}
	base = p.sabotage.below.around(base)
	for range l.Layers + 1 {
		base = budgethttp.NewTransport(base, l.Dependency)
	}
	return p.sabotage.above.around(base)
}

func closeRequest(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

func (p protocol) dial(t testing.TB, l chainbudgettest.Link) chainbudgettest.Client {
	transport := p.transport(t, l)
	return func(ctx context.Context, r chainbudgettest.Request) (a chainbudgettest.Answer) {
		req, err := http.NewRequestWithContext(ctx, method(r), p.scheme+"://"+l.Address+path(r), body(r))
		if err != nil {
			return chainbudgettest.Answer{Err: err}
		}
		if req.Header = r.Header; req.Header == nil && l.Dependency == nil {
			req.Header = make(http.Header) // net/http's own transport insists
		}
		if p.sabotage.careless && l.Dependency != nil {
			req.Header.Set("X-Careless", "1")
		}
		resp, err := transport.RoundTrip(req)
		a.Responded, a.Err = resp != nil, err
		if denied, ok := errors.AsType[*chainbudget.DeniedError](err); ok {
			a.Denied = denied
		} else if l.Dependency != nil {
			a.Denied = budgethttp.Denied(resp)
		}
		if resp == nil {
			return a
		}
		defer resp.Body.Close()
		a.Status, a.Header = resp.StatusCode, resp.Header
		buf := make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buf)
			if n > 0 {
				a.Body += string(buf[:n])
				if r.Each != nil {
					r.Each(string(buf[:n]))
				}
			}
			if err != nil {
				if err != io.EOF {
					a.Cut = err
				}
				return a
			}
		}
	}
}

func method(r chainbudgettest.Request) string {
	switch {
	case r.Write:
		return http.MethodPost
	case r.Body != "":
		return http.MethodPut
	default:
		return http.MethodGet
	}
}

func path(r chainbudgettest.Request) string {
	if r.Probe {
		return "/healthz"
	}
	return "/" + r.Operation
}

func body(r chainbudgettest.Request) io.Reader {
	switch {
	case r.Body == "":
		return nil
	case r.Once:
		return io.MultiReader(strings.NewReader(r.Body)) // net/http cannot rewind it
	default:
		return strings.NewReader(r.Body)
	}
}

func TestConformance(t *testing.T) {
	for _, p := range []protocol{http1, http2TLS, http2Clear} {
		t.Run(p.name, func(t *testing.T) { chainbudgettest.Conform(t, p.adapter()) })
	}
}
