package stormlab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// edge is one of the calls that a service makes, and the wire below it.
type edge struct {
	*Call
	cell       *cell
	caller, to *service
	dep        *engine.Dependency // nil = the caller has no SDK
	transport  http.RoundTripper
	rival      *rival // nil = the caller has the SDK
	source     stream
	sends      uint64
	template   http.Request
}

func (c *cell) newEdge(caller, to *service, place int) *edge {
	e := &edge{Call: &caller.Calls[place], cell: c, caller: caller, to: to, template: to.template}
	e.source = streamOf(c.scenario.Seed, c.number, "edge", fmt.Sprintf("%s>%s#%d", caller.name, to.name, place))
	if e.Write {
		e.template.Method = http.MethodPost
	}
	if caller.sdk == nil {
		e.rival = newRival(e, caller.policy)
		return e
	}
	e.template.Host = c.variant.host(to.name)
	e.template.URL = &url.URL{Scheme: "http", Host: e.template.Host, Path: "/"}
	// The error is a profile that does not exist, which was looked for before, or a pin that the catalog prefers.
	dep, _, _ := caller.sdk.Dependency(to.name, c.variant.pinned(to.name, caller.policy))
	e.dep = dep
	e.transport = budgethttp.NewTransport(wire{e}, (*chainbudget.Dependency)(dep))
	return e
}

// call makes one call for the request that v is, and returns why the request fails with it. need tells it from the request's other
// calls.
func (e *edge) call(ctx context.Context, v *visit, lane int, need stream) error {
	if e.cell.crowd != nil {
		return errCrowd
	}
	f := &frame{Context: ctx, lane: lane, need: need}
	err := e.attempts(f, v)
	if err == nil || e.Optional {
		e.cell.ledger.storm(f.here(), e.cell.now())
		return nil
	}
	v.storm = v.storm.or(f.here())
	return err
}

// attempts makes the call's attempts, and returns why the last one failed.
func (e *edge) attempts(f *frame, v *visit) error {
	if e.rival != nil {
		return e.rival.call(f, v)
	}
	if len(e.caller.faults) > 0 {
		if bare, drops := e.caller.withoutSDK(e.cell.now()); bare {
			header := make(http.Header, 1)
			if !drops {
				v.passBaggage(header)
			}
			return result(e.send(f, f, v, header))
		}
	}
	resp, err := e.transport.RoundTrip(e.template.WithContext(f)) // with the template's header, which the SDK does not write to
	if err != nil {
		return err
	}
	if !failed(resp.StatusCode) {
		return nil
	}
	if denied := budgethttp.Denied(resp); denied != nil {
		return denied
	}
	return failure(http.StatusBadGateway)
}

// passBaggage copies the baggage that the visit came with, as a hop does that knows nothing of the SDK.
func (v *visit) passBaggage(to http.Header) {
	if lines := v.request[otelprop.HTTPBaggageHeader]; len(lines) > 0 {
		to[otelprop.HTTPBaggageHeader] = lines
	}
}

// result is what a caller without the SDK makes of an answer.
func result(answer *visit, err error) error {
	if err == nil && failed(answer.status) {
		err = failure(http.StatusBadGateway)
	}
	return err
}

// failed reports whether a status is a failure of the callee, to the SDK as to others.
func failed(status int) bool { return status >= 500 || status == http.StatusTooManyRequests }

// wire is what is below the SDK's transport.
type wire struct{ *edge }

// RoundTrip implements [http.RoundTripper].
func (w wire) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	f := ctx.Value(frameKey{}).(*frame)
	answer, err := w.send(ctx, f, f.Value(visitKey{}).(*visit), req.Header)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: answer.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: answer.header, Body: http.NoBody, Request: req,
	}, nil
}

// errRefused is that of a connection that nobody takes, errLost that of one that broke.
var (
	errRefused error = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	errLost          = errors.Join(io.ErrUnexpectedEOF, syscall.ECONNRESET)
)

// send makes one attempt, with a header that is its own. ctx is the attempt's, f the call's and from the request's that it is made for.
func (e *edge) send(ctx context.Context, f *frame, from *visit, header http.Header) (answer *visit, err error) {
	c, n, now := e.cell, e.sends, e.cell.now()
	var below storm
	defer func() {
		if err != nil || failed(answer.status) {
			f.fails(below)
		}
		c.publish()
	}()
	e.sends++
	f.attempts++
	if c.crowd != nil {
		return nil, errCrowd
	}
	c.ledger.attempt(e, now, f.attempts > 1)
	end := min(from.giveUp, attemptEnd(ctx, c, now))
	arrives := now + c.network.draw(e.source.share(n, drawNetwork)) + e.source.blur(n, drawNetwork+1<<8)
	switch e.to.unreachable(now, e.caller.name, e.source, n) {
	case FaultCrash:
		if c.pass(arrives, end) {
			return nil, errRefused
		}
		return nil, ended(ctx)
	case FaultCut:
		c.pass(min(end, now+int64(hangs)), end)
		return nil, ended(ctx)
	}
	if !c.pass(arrives, end) {
		return nil, ended(ctx)
	}
	again := e.to.MeshRetries
	if len(header[meshLimit]) > 0 && header[meshLimit][0] == "0" {
		again = 0
	}
	for n := 1; ; n++ {
		answer = &visit{cell: c, to: e.to, client: ctx, lanes: from.lanes, lane: f.lane, need: f.need, giveUp: end, request: header}
		if again > 0 {
			answer.request = header.Clone() // the handler takes what is the SDK's off it
			answer.request[meshCount] = []string{strconv.Itoa(n)}
		}
		answer.serve(e.handler(c.now()), &e.template)
		below = below.or(answer.storm)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if n > again || answer.status < 500 {
			return answer, nil
		}
	}
}

// The headers of a mesh, as net/http spells them.
const (
	meshLimit = "X-Envoy-Max-Retries"
	meshCount = "X-Envoy-Attempt-Count"
)

// handler is what serves a request that arrives now.
func (e *edge) handler(now int64) http.Handler {
	if len(e.to.faults) > 0 && e.to.sdk != nil {
		if bare, _ := e.to.withoutSDK(now); bare {
			return e.to.bare
		}
	}
	return e.to.inner
}

// ended is the error of an attempt that nobody answered.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return errLost
}

// pinned returns the profile for a dependency: the catalog's pin, or else the policy's.
func (v *Variant) pinned(dependency string, p Policy) profiles.Name {
	if d := v.catalog().Dependencies[dependency]; d != nil && d.Profile != "" {
		return d.Profile
	}
	return p.profile()
}

// host is a host of the dependency that the catalog takes for what it says the dependency is: by its hosts, or by the hosts
// that are internal.
func (v *Variant) host(dependency string) string {
	c := v.catalog()
	if d := c.Dependencies[dependency]; d != nil && len(d.Hosts) > 0 {
		return strings.Replace(d.Hosts[0], "*", dependency, 1)
	}
	if c.Internal(dependency) {
		return dependency
	}
	for _, pattern := range c.InternalHosts {
		if rest, wild := strings.CutPrefix(pattern, "*."); wild {
			return dependency + "." + rest
		}
	}
	return dependency
}

func (v *Variant) catalog() *profiles.Catalog {
	if v.Catalog == nil {
		return profiles.Builtin()
	}
	return v.Catalog
}

func (v *Variant) policy(service string) Policy {
	if p, ok := v.Except[service]; ok {
		return p
	}
	return v.Policy
}

func (p *Policy) profile() profiles.Name {
	if p.Profile == "" {
		return profiles.ReadHeavy
	}
	return p.Profile
}
