package testnet

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// writeHeader writes a header's lines, without those that the text gets from elsewhere and without the return.
func writeHeader(b *bytes.Buffer, h http.Header) {
	for key, values := range h {
		switch key {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer", otelprop.HTTPReturnHeader:
			continue
		}
		for _, v := range values {
			writeLine(b, key, v)
		}
	}
}

func writeLine(b *bytes.Buffer, key, value string) {
	b.WriteString(key)
	b.WriteString(": ")
	if strings.ContainsAny(value, "\r\n") { // as net/http does, so that a value cannot become a line
		value = strings.NewReplacer("\r", " ", "\n", " ").Replace(value)
	}
	b.WriteString(value)
	b.WriteString("\r\n")
}

// requestText writes a request out, body included. It closes the body.
func requestText(req *http.Request) ([]byte, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	method, host := req.Method, req.Host
	if method == "" {
		method = http.MethodGet
	}
	if host == "" {
		host = req.URL.Host
	}
	var b bytes.Buffer
	b.Grow(512 + len(body))
	b.WriteString(method)
	b.WriteByte(' ')
	b.WriteString(req.URL.RequestURI())
	b.WriteString(" HTTP/1.1\r\nHost: ")
	b.WriteString(host)
	b.WriteString("\r\n")
	if len(body) > 0 {
		writeLength(&b, len(body))
	}
	writeHeader(&b, req.Header)
	for _, v := range req.Header[otelprop.HTTPReturnHeader] { // nobody should, and the handler is to see it
		writeLine(&b, otelprop.HTTPReturnHeader, v)
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes(), nil
}

func writeLength(b *bytes.Buffer, n int) {
	writeLine(b, "Content-Length", strconv.Itoa(n))
}

// reader returns a buffered reader of a text, no larger than it needs to be.
func reader(text []byte) *bufio.Reader {
	return bufio.NewReaderSize(bytes.NewReader(text), len(text))
}

func parseRequest(text []byte) (*http.Request, error) {
	req, err := http.ReadRequest(reader(text))
	if err != nil {
		return nil, err
	}
	req.RemoteAddr = "192.0.2.1:1" // of the block for documentation: nobody's
	return req, nil
}

func parseResponse(text []byte, req *http.Request) (*http.Response, error) {
	return http.ReadResponse(reader(text), req)
}

// responseWriter writes the text of one response.
type responseWriter struct {
	exchange *exchange
	head     bool // the request was a HEAD
	header   http.Header
	status   int
	lines    bytes.Buffer // the header, as it was when WriteHeader was called
	body     []byte
}

// Header implements [http.ResponseWriter].
func (w *responseWriter) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

// WriteHeader implements [http.ResponseWriter]. Informational responses and second calls do nothing.
func (w *responseWriter) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	w.lines.Grow(256)
	writeHeader(&w.lines, w.header)
	returns := w.header[otelprop.HTTPReturnHeader]
	if len(returns) == 0 {
		return
	}
	before := w.exchange.network.latestReturn(w.exchange.host, returns[0])
	switch w.exchange.fault.Return {
	case Remove:
		return
	case Duplicate:
		writeLine(&w.lines, otelprop.HTTPReturnHeader, returns[0])
	case Stale:
		if before == "" {
			return
		}
		returns = []string{before}
	}
	for _, line := range returns {
		writeLine(&w.lines, otelprop.HTTPReturnHeader, line)
	}
}

// Write implements [http.ResponseWriter].
func (w *responseWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, p...)
	return len(p), nil
}

// finish returns the whole text.
func (w *responseWriter) finish() []byte {
	w.WriteHeader(http.StatusOK)
	var b bytes.Buffer
	b.Grow(64 + w.lines.Len() + len(w.body))
	b.WriteString("HTTP/1.1 ")
	b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(w.status), 10))
	b.WriteByte(' ')
	b.WriteString(http.StatusText(w.status))
	b.WriteString("\r\n")
	bodyless := w.status == http.StatusNoContent || w.status == http.StatusNotModified
	if !bodyless {
		writeLength(&b, len(w.body))
	}
	b.Write(w.lines.Bytes())
	b.WriteString("\r\n")
	if !bodyless && !w.head {
		b.Write(w.body)
	}
	return b.Bytes()
}
