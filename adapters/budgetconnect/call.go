package budgetconnect

import (
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/internal/member"
)

// unary is one unary call.
type unary struct {
	connectrpc.Call
	next connect.UnaryFunc
	req  connect.AnyRequest // the caller's, never written
	last *connect.Error     // of the latest failed attempt

	resp connect.AnyResponse // of the latest attempt
	err  error
}

// keyed reports whether a request has a key by which the callee tells a repetition.
func keyed(h http.Header) bool {
	return len(h["Idempotency-Key"]) > 0 || len(h["X-Idempotency-Key"]) > 0
}

// run makes attempts until one succeeds or a gate refuses.
func (x *unary) run() (connect.AnyResponse, error) {
	if denied := x.Run(x.Begun, x.req.Any(), x); denied != nil {
		return nil, kinds.Failure(x.Parent(), denied, x.last)
	}
	return x.resp, x.err
}

// Try makes one attempt and settles it.
func (x *unary) Try(now time.Time) {
	a := x.Next()
	header := cleanHeader(x.req.Header(), x.External)
	x.Enter(a, now)
	x.Lend(a, now, member.HTTP(header))
	returned := false
	defer func() {
		if !returned {
			x.Abandon(a)
		}
	}()
	resp, err := x.next(a, &request{AnyRequest: x.req, header: header})
	returned = true
	a.Disarm()
	if err != nil {
		x.resp, x.err = nil, err
		x.last = judge(&x.Call, a, err, nil, nil)
	} else {
		x.resp, x.err = resp, nil
		judge(&x.Call, a, nil, resp.Header(), resp.Trailer())
	}
	x.Settle(a)
	a.Release()
}

// request is the caller's request with one attempt's header.
type request struct {
	connect.AnyRequest
	header http.Header
}

// Header returns the attempt's own header map.
func (r *request) Header() http.Header { return r.header }
