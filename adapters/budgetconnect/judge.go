package budgetconnect

import (
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// judge says what an attempt came to: err is nil, and header and trailer are the answer's, for a success. It returns the
// failed attempt's error.
func judge(x *connectrpc.Call, a *connectrpc.Attempt, err error, header, trailer http.Header) *connect.Error {
	if err == nil {
		x.TakeReturn(takeLines(header, trailer), nil)
		x.Succeed(http.StatusOK)
		return nil
	}
	e := asError(err)
	if e == nil { // an interceptor further in made it
		e = connect.NewError(connect.CodeUnknown, err)
	}
	if connect.IsNotModifiedError(e) {
		x.TakeReturn(takeLines(e.Meta(), nil), nil)
		x.Succeed(http.StatusNotModified)
		return nil
	}
	f := connectrpc.Failure{Err: err, Error: e, Code: uint32(e.Code()), Wire: connect.IsWireError(e)}
	if f.Wire {
		x.TakeReturn(takeLines(e.Meta(), nil), func() []string { return returnLines(e) })
		f.Pushback, f.RetryAfter = e.Meta()[connectrpc.PushbackHeader], e.Meta()["Retry-After"]
		f.Delay, f.Delayed = retryInfo(e)
	} else {
		f.Status = answered(e)
	}
	if s := x.Fail(a, &f); s.Cause != nil {
		return kinds.New(s.Code, s.Cause)
	}
	return e
}

// answered returns the HTTP status that an error is about, or 0. Connect keeps it in the error's text only.
func answered(e *connect.Error) int {
	text := strings.TrimPrefix(e.Message(), "HTTP status ")
	number, rest, _ := strings.Cut(text, " ")
	status, err := strconv.Atoi(number)
	if err != nil || status < 300 || status > 599 || rest != http.StatusText(status) {
		return 0
	}
	return status
}

// takeLines takes the return's lines out of what an attempt's answer brought beside its message, so that nothing passes them
// on. I6.
func takeLines(header, trailer http.Header) []string {
	lines := header[otelprop.HTTPReturnHeader]
	if more := trailer[otelprop.HTTPReturnHeader]; len(more) > 0 {
		lines = append(lines[:len(lines):len(lines)], more...)
		delete(trailer, otelprop.HTTPReturnHeader)
	}
	if len(lines) > 0 {
		delete(header, otelprop.HTTPReturnHeader)
	}
	return lines
}
