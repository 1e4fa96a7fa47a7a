package chainbudgettest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// visit is one request as it is handled by a hop, or by the entry (hop 0).
type visit struct {
	hop     int
	number  int // of the request, at the entry
	granted int
	held    int // by the entry, at the end
	status  int
	fault   FaultKind
	purse   *engine.Inbound // nil where a service under test called nobody
	calls   []*call
}

// call is one call of a visit.
type call struct {
	number   int
	attempts []*attempt
}

// attempt is one request on the wire, as it leaves.
type attempt struct {
	id     int
	hop    int // of the callee
	wire   otelprop.Request
	status int
	err    error
	ret    otelprop.Return
	home   bool   // a return came
	late   bool   // as the attempt's time was over, or nearly so: the caller may not have waited for it
	at     *visit // nil = it did not arrive
}

type (
	visitKey struct{}
	callKey  struct{}
)

// meter is the network below every transport: it writes down what leaves and what comes back.
type meter struct {
	run *run
	hop int // of the callee
}

// RoundTrip implements [http.RoundTripper].
func (m meter) RoundTrip(req *http.Request) (*http.Response, error) {
	r, ctx := m.run, req.Context()
	a := r.leave(ctx, m.hop, req.Header)
	req = req.Clone(ctx)
	req.Header.Set(attemptID, strconv.Itoa(a.id))
	begun := time.Now()
	resp, err := r.base.RoundTrip(req)
	took := time.Since(begun)
	r.mu.Lock()
	defer r.mu.Unlock()
	a.late = ctx.Err() != nil || a.wire.Timeout > 0 && took > a.wire.Timeout-a.wire.Timeout/4
	if a.err = err; err != nil {
		return nil, err
	}
	a.status = resp.StatusCode
	a.ret, a.home, _ = otelprop.ReadReturn(resp.Header[otelprop.HTTPReturnHeader], a.wire.Nonce, int(a.wire.Grant))
	return resp, nil
}

// leave writes an attempt down.
func (r *run) leave(ctx context.Context, hop int, header http.Header) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &attempt{id: len(r.attempts), hop: hop}
	a.wire, _ = otelprop.ReadRequest(header[otelprop.HTTPBaggageHeader], header[otelprop.HTTPRequestHeader], otelprop.MaxTokens)
	r.attempts = append(r.attempts, a)
	v, _ := ctx.Value(visitKey{}).(*visit)
	if v == nil {
		r.strays = append(r.strays, a)
		return a
	}
	if in := engine.FromContext(ctx); in != nil && v.purse == nil {
		v.purse = in
	}
	number, _ := ctx.Value(callKey{}).(int)
	v.add(a, number)
	return a
}

// add adds an attempt to its call. The made-up hops number their calls; of a service under test, each first attempt begins
// a call, and a later one belongs to the latest call that has one attempt less.
func (v *visit) add(a *attempt, number int) {
	for i := len(v.calls) - 1; i >= 0; i-- {
		c := v.calls[i]
		if number > 0 && c.number == number || number == 0 && a.wire.Attempt > 1 && len(c.attempts) == int(a.wire.Attempt)-1 {
			c.attempts = append(c.attempts, a)
			return
		}
	}
	v.calls = append(v.calls, &call{number: number, attempts: []*attempt{a}})
}

// door is what a request passes first at a hop.
type door struct {
	run  *run
	hop  int
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (d *door) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r := d.run
	id, err := strconv.Atoi(req.Header.Get(attemptID))
	req.Header.Del(attemptID)
	fault := r.next(d.hop)
	r.mu.Lock()
	if err != nil || id < 0 || id >= len(r.attempts) || r.attempts[id].at != nil {
		r.mu.Unlock()
		http.Error(w, "not of this chain", http.StatusNotFound)
		return
	}
	a := r.attempts[id]
	v := &visit{hop: d.hop, granted: int(a.wire.Grant), fault: fault}
	a.at = v
	r.mu.Unlock()
	req = req.WithContext(context.WithValue(req.Context(), visitKey{}, v))
	out := &exit{ResponseWriter: w, visit: v, silent: fault == Silent}
	switch {
	case fault == Hangs:
		<-req.Context().Done() // of the connection: the time that a caller grants is for services that keep it
		return
	case fault == Fails && r.chain.Services[d.hop] != nil:
		out.WriteHeader(http.StatusServiceUnavailable)
		return
	case fault == Breaks:
		d.next.ServeHTTP(&exit{ResponseWriter: nowhere{make(http.Header)}, visit: v}, req)
		panic(http.ErrAbortHandler)
	}
	d.next.ServeHTTP(out, req)
	out.WriteHeader(http.StatusOK)
}

// exit writes down how a hop answers.
type exit struct {
	http.ResponseWriter
	visit  *visit
	silent bool
	sent   bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *exit) WriteHeader(status int) {
	if w.sent {
		return
	}
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.sent = true
		w.visit.status = status
		if w.silent {
			w.Header().Del(otelprop.HTTPReturnHeader)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *exit) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// FlushError is what http.ResponseController looks for.
func (w *exit) FlushError() error {
	w.WriteHeader(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements [http.Flusher].
func (w *exit) Flush() { _ = w.FlushError() }

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *exit) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// nowhere is the writer of an answer that nobody gets.
type nowhere struct{ header http.Header }

func (w nowhere) Header() http.Header         { return w.header }
func (w nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (w nowhere) WriteHeader(int)             {}

// failed reports whether the attempt came to a failure.
func (a *attempt) failed() bool {
	return a.err != nil || a.status >= 500 || a.status == http.StatusTooManyRequests
}

// claim is what came with a failed attempt.
func (a *attempt) claim() ownership.Claim {
	if !a.home || a.ret.Claim == ownership.ClaimNone {
		return ownership.ClaimMissing
	}
	return a.ret.Claim
}

// each calls f with every attempt below the visit, callers first.
func (v *visit) each(f func(from *visit, c *call, n int, a *attempt)) {
	for _, c := range v.calls {
		for i, a := range c.attempts {
			f(v, c, i, a)
			if a.at != nil {
				a.at.each(f)
			}
		}
	}
}
