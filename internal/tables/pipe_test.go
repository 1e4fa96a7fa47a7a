package tables

import (
	"context"
	"net/http"
	"time"
)

// pipe is a transport that runs a handler on the goroutine of its client: the shortest way between the two halves of the
// SDK, for samples of hundreds of thousands. Headers are copied in both directions, the context's values stay behind, and
// bodies do not cross. A client that gives up is noticed by a handler that waits for its context, and gets no response.
type pipe struct{ handler http.Handler }

// RoundTrip implements [http.RoundTripper].
func (p pipe) RoundTrip(req *http.Request) (*http.Response, error) {
	in := req.WithContext(severed{req.Context()})
	in.Header, in.Body = req.Header.Clone(), http.NoBody
	w := pipeWriter{header: make(http.Header, 2)}
	p.handler.ServeHTTP(&w, in)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusOK)
	return &http.Response{
		StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.sent, Body: http.NoBody, Request: req,
	}, nil
}

// severed is a client's context as the server sees it: it ends when the client gives up, and has nothing of the client's.
type severed struct{ context.Context }

// Value implements [context.Context].
func (severed) Value(any) any { return nil }

// Deadline implements [context.Context]: a deadline crosses on the wire or not at all.
func (severed) Deadline() (time.Time, bool) { return time.Time{}, false }

type pipeWriter struct {
	header, sent http.Header
	status       int
}

// Header implements [http.ResponseWriter].
func (w *pipeWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *pipeWriter) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	w.sent = w.header.Clone()
}

// Write implements [http.ResponseWriter].
func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(p), nil
}
