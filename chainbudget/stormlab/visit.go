package stormlab

import (
	"context"
	"net/http"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// visit is one request at one service: its context there, its request and what it is answered. It runs on the goroutine of
// its caller. The caller's context ends it and shows nothing else.
//
// need says what the request is about: it comes from the request from outside and the path of calls from there, and all attempts
// of a call have the same. What a request needs is drawn from it, so that a repeated one needs the same again.
type visit struct {
	cell   *cell
	to     *service
	client context.Context
	lanes  *int // used so far in the request from outside
	lane   int
	need   stream
	giveUp int64 // when the first of the callers above stops waiting

	request http.Header // what came with it; the service's own from then on
	header  http.Header // of the answer
	status  int
	storm   storm // of the calls that made it fail
}

var (
	_ context.Context     = (*visit)(nil)
	_ http.ResponseWriter = (*visit)(nil)
)

type visitKey struct{}

// Deadline implements [context.Context]: a deadline crosses on the wire or not at all.
func (v *visit) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (v *visit) Done() <-chan struct{} { return v.client.Done() }

// Err implements [context.Context].
func (v *visit) Err() error { return v.client.Err() }

// Value implements [context.Context].
func (v *visit) Value(key any) any {
	if _, ok := key.(visitKey); ok {
		return v
	}
	return nil
}

// serve lets a handler answer the visit's request, which looks like template, and reports whether that went well.
func (v *visit) serve(h http.Handler, template *http.Request) bool {
	req := template.WithContext(v)
	req.Header = v.request
	v.header = make(http.Header, 2)
	h.ServeHTTP(v, req)
	v.WriteHeader(http.StatusOK)
	return v.status < 400
}

// Header implements [http.ResponseWriter].
func (v *visit) Header() http.Header { return v.header }

// WriteHeader implements [http.ResponseWriter].
func (v *visit) WriteHeader(status int) {
	if v.status == 0 {
		v.status = status
	}
}

// Write implements [http.ResponseWriter].
func (v *visit) Write(p []byte) (int, error) {
	v.WriteHeader(http.StatusOK)
	return len(p), nil
}

// needOf is what the nth of call k's repetitions is about.
func (v *visit) needOf(k, n int) stream { return v.need.of(uint64(k)<<32|uint64(n), drawNeed) }

// until returns when whoever waits for ctx stops: one of the callers above, or the time that the wire granted.
func (v *visit) until(ctx context.Context) int64 {
	if deadline, ok := ctx.Deadline(); ok {
		return min(v.giveUp, int64(deadline.Sub(v.cell.start)))
	}
	return v.giveUp
}

// pass sleeps until at, or until just after the end, and reports whether there was time.
func (c *cell) pass(at, end int64) bool {
	if at < end {
		c.sleepUntil(at)
		return true
	}
	c.sleepUntil(end + 1)
	return false
}

// frame is the context of one call, with its attempts counted.
type frame struct {
	context.Context
	lane     int
	need     stream // of all its attempts at the callee
	attempts int
	failed   bool  // an attempt did
	storm    storm // of the attempts that failed
}

// fails notes an attempt that failed, and what had set off its failure below.
func (f *frame) fails(below storm) {
	f.failed = true
	f.storm = f.storm.or(below)
}

// here is the storm of the call's failures as its caller sees it.
func (f *frame) here() storm {
	if !f.failed { // no attempt was made: the cause is here, a gate
		return storm{}
	}
	return f.storm.above(f.attempts > 1)
}

type frameKey struct{}

// Value implements [context.Context].
func (f *frame) Value(key any) any {
	if _, ok := key.(frameKey); ok {
		return f
	}
	return f.Context.Value(key)
}

// attemptEnd returns when an attempt that starts now is given up by its own caller.
func attemptEnd(ctx context.Context, c *cell, now int64) int64 {
	end := int64(1<<63 - 1)
	if deadline, ok := ctx.Deadline(); ok {
		end = int64(deadline.Sub(c.start))
	}
	if call, _ := ctx.Value(ctxkey.Call{}).(*engine.Call); call != nil {
		if limit, ok := call.AttemptLimit(c.start.Add(time.Duration(now))); ok {
			end = min(end, now+int64(limit))
		}
	}
	return end
}
