package subject

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

const target = "http://payments.internal/v1/charges"

var targetURL = &url.URL{Scheme: "http", Host: "payments.internal", Path: "/v1/charges"}

// callee stands for what is called, in place of a network: it answers at once, and sends back what an SDK there would.
// Every library gets the same answer for the same work.
type callee struct {
	*tally
	watches bool // it asks the request's context for Done, as net/http does
	answers answers
	waits   bool   // after an answer that is going to be repeated, it waits for a timer of no length
	reads   []byte // what it reads bodies into, piece by piece; nil = it does not read them
}

// answers is what a callee answers.
type answers uint8

const (
	succeeding  answers = iota // 200
	alternating                // 503 and 200 in turn
	failing                    // 503
	forbidding                 // 503, and nobody is to send the request again
)

// RoundTrip implements [http.RoundTripper].
func (c *callee) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.watches && req.Context().Done() == nil {
		return nil, errors.New("the attempt cannot be canceled")
	}
	if req.Body != nil {
		if err := c.receive(req.Body); err != nil {
			return nil, err
		}
	}
	status, claim := http.StatusOK, ".0.n."
	switch n := c.hit(); {
	case c.answers == failing, c.answers == alternating && n%2 == 1:
		status = http.StatusServiceUnavailable
		if c.waits {
			<-time.NewTimer(0).C
		}
	case c.answers == forbidding:
		status, claim = http.StatusServiceUnavailable, ".0.u."
	}
	lease := noLease
	if lines := req.Header[otelprop.HTTPRequestHeader]; len(lines) > 0 {
		lease = lines[0]
	}
	nonce, grant := leased(lease)
	header := http.Header{otelprop.HTTPReturnHeader: {"v1." + grant + claim + nonce + ".-"}}
	if c.answers == forbidding {
		header[shouldRetryHeader] = []string{"false"}
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, Request: req,
		Header: header,
	}, nil
}

// shouldRetryHeader is what some public APIs say beside a failure, and what libraries can be told to look at that do not
// read a claim.
const shouldRetryHeader = "X-Should-Retry"

// forbidden reports whether a response says that nobody is to send the request again.
func forbidden(resp *http.Response) bool {
	return resp != nil && resp.Header.Get(shouldRetryHeader) == "false"
}

// receive reads a body to its end as net/http does to send it: copied once, through a buffer that is there.
func (c *callee) receive(body io.ReadCloser) error {
	for c.reads != nil {
		if _, err := body.Read(c.reads); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	return body.Close()
}

// noLease is the lease of a request that carries none. It is read like any other, so that no side has more work done for
// it than another.
const noLease = "v1.0.0.0.00000000.checkout"

// leased cuts nonce and grant out of v1.<grant>.<limit>.<hop>.<nonce>.<entry>.
func leased(line string) (nonce, grant string) {
	_, rest, _ := strings.Cut(line, ".")
	grant, rest, _ = strings.Cut(rest, ".")
	_, rest, _ = strings.Cut(rest, ".")
	_, rest, _ = strings.Cut(rest, ".")
	nonce, _, _ = strings.Cut(rest, ".")
	return nonce, grant
}

// get sends one GET and demands a 200.
func get(ctx context.Context, rt http.RoundTripper, header http.Header) error {
	return getStatus(ctx, rt, header, http.StatusOK)
}

// getStatus sends one GET and demands a status.
func getStatus(ctx context.Context, rt http.RoundTripper, header http.Header, status int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	if header != nil {
		req.Header = header
	}
	return send(rt, req, status)
}

func send(rt http.RoundTripper, req *http.Request, status int) error {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	return wantStatus(resp.StatusCode, status)
}

func wantStatus(status, want int) error {
	if status != want {
		return fmt.Errorf("status %d, want %d", status, want)
	}
	return nil
}

// response is a server's ResponseWriter that keeps only status and header.
type response struct {
	header http.Header
	status int
}

func newResponse() *response { return &response{header: make(http.Header)} }

func (w *response) Header() http.Header { return w.header }
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}
func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(p), nil
}
func (w *response) Flush() {}

// serverRequest is a request as a server hands it to a handler.
func serverRequest(ctx context.Context, header http.Header) *http.Request {
	r := &http.Request{
		Method: http.MethodGet, URL: targetURL, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: http.NoBody, Host: targetURL.Host, RemoteAddr: "192.0.2.1:1234", RequestURI: targetURL.Path,
	}
	return r.WithContext(ctx)
}

// served is the innermost handler. It counts the requests that reach it.
func (s *stage) served() http.Handler {
	t := s.tally()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.hit()
		w.WriteHeader(http.StatusOK)
	})
}
