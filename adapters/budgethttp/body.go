package budgethttp

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// requestBody is the body of one attempt. net/http may close a body more than once; the one below is closed once.
type requestBody struct {
	io.ReadCloser
	once   sync.Once
	err    error
	failed atomic.Bool // reading came to something other than the end
	closed atomic.Bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !b.closed.Load() {
		b.failed.Store(true)
	}
	return n, err
}

// brokeOff reports whether the caller's body failed while it was read.
func (b *requestBody) brokeOff() bool { return b.failed.Load() }

func (b *requestBody) Close() error {
	b.closed.Store(true)
	b.once.Do(func() { b.err = b.ReadCloser.Close() })
	return b.err
}

func closeBody(req *http.Request) { closeReader(req.Body) }

func closeReader(r io.Closer) {
	if r != nil {
		r.Close()
	}
}

// responseBody frees the attempt's context when the response has been read or given up.
type responseBody struct {
	io.ReadCloser
	a *attempt
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.a.Release()
	}
	return n, err
}

func (b *responseBody) Close() error {
	err := b.ReadCloser.Close()
	b.a.Release()
	return err
}

// own ties the attempt's context to the life of the response's body. A 101's body is a connection, which has a life of
// its own and must stay a Writer: it is handed on as it is.
func (a *attempt) own(resp *http.Response) {
	switch {
	case !a.Used() || resp.StatusCode == http.StatusSwitchingProtocols:
		return
	case resp.Body == nil || resp.Body == http.NoBody:
		a.Release()
		return
	}
	a.body = responseBody{ReadCloser: resp.Body, a: a}
	resp.Body = &a.body
}

const (
	// drainBytes is how much of a discarded response is read, so that its connection can be used again.
	drainBytes = 256 << 10
	// drainTime is how long that may take; a connection that needs longer is not worth waiting for.
	drainTime = 50 * time.Millisecond
)

// drain reads a discarded response to its end, within bounds, and closes it.
func (a *attempt) drain(resp *http.Response) {
	a.drained = true
	if resp.Body == nil || resp.Body == http.NoBody {
		return
	}
	if resp.StatusCode != http.StatusSwitchingProtocols && resp.ContentLength <= drainBytes {
		timer := time.AfterFunc(drainTime, a.Release)
		io.Copy(io.Discard, io.LimitReader(resp.Body, drainBytes+1))
		timer.Stop()
	}
	resp.Body.Close()
}
