package budgetconnect2

import (
	"errors"
	"io"
	"net/http"
	"slices"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// judge says what an attempt came to: err is nil or io.EOF for a success. It returns the failed attempt's error.
func (t *transport) judge(x *connectrpc.Call, a *connectrpc.Attempt, c conn, err error) *connect.Error {
	switch {
	case err == nil, errors.Is(err, io.EOF):
		x.TakeReturn(takeLines(c.info), nil)
		x.Succeed(http.StatusOK)
		return nil
	case connecthttp.IsNotModifiedError(err):
		x.TakeReturn(takeLines(c.info), nil)
		x.Succeed(http.StatusNotModified)
		return nil
	}
	e := asError(err)
	if e == nil { // connect itself, or an interceptor further in, made it
		e = kinds.New(connectrpc.ContextCode(err), err)
	}
	f := connectrpc.Failure{Err: err, Error: e, Code: uint32(e.Code()), Wire: e.IsRemote()}
	if f.Wire {
		x.TakeReturn(takeLines(c.info), func() []string { return returnLines(e) })
		f.Pushback, f.RetryAfter = values(c.info, connectrpc.PushbackHeader), values(c.info, "Retry-After")
		f.Delay, f.Delayed = retryInfo(e)
	} else if over, ok := c.info.TransportInfo.(*connecthttp.ClientInfo); ok {
		if status := over.ResponseStatus(); status >= 300 {
			f.Status = status
		}
	}
	if s := x.Fail(a, &f); s.Cause != nil {
		return kinds.New(s.Code, s.Cause)
	}
	return e
}

// takeLines takes the return's lines out of what an answer brought beside its message, so that nothing passes them on. I6.
func takeLines(info *connect.CallInfo) []string {
	lines := values(info, otelprop.HTTPReturnHeader)
	info.ResponseHeader().Delete(otelprop.HTTPReturnHeader)
	info.ResponseTrailer().Delete(otelprop.HTTPReturnHeader)
	return lines
}

// values are those of a key in headers and trailers. What came without a message connect has in both.
func values(info *connect.CallInfo, key string) []string {
	header, trailer := info.ResponseHeader().Values(key), info.ResponseTrailer().Values(key)
	if len(trailer) == 0 || slices.Equal(header, trailer) {
		return header
	}
	return append(header[:len(header):len(header)], trailer...)
}
