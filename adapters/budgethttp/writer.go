package budgethttp

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// writer is the ResponseWriter that a handler gets: it sets the return as the headers go out. It is one pointer, and so
// is each type built on it, so that handing one out allocates nothing.
type writer struct{ in *inbound }

// Header implements [http.ResponseWriter].
func (w writer) Header() http.Header { return w.in.w.Header() }

// WriteHeader implements [http.ResponseWriter]. Informational answers other than 101 close nothing.
func (w writer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.in.headersOut(status)
	} else if !w.in.sent {
		delete(w.in.w.Header(), otelprop.HTTPReturnHeader) // I6: the user's code may have copied a callee's
	}
	w.in.w.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w writer) Write(p []byte) (int, error) {
	w.in.headersOut(http.StatusOK)
	return w.in.w.Write(p)
}

// WriteString implements [io.StringWriter].
func (w writer) WriteString(s string) (int, error) {
	w.in.headersOut(http.StatusOK)
	return io.WriteString(w.in.w, s)
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (w writer) Unwrap() http.ResponseWriter { return w.in.w }

// FlushError is what http.ResponseController looks for first. It is here even where the server's own writer does not flush
// by itself, because the controller would go on to the one below that, and the headers would go out without the return.
func (w writer) FlushError() error {
	if !canFlush(w.in.w) {
		return http.ErrNotSupported
	}
	w.in.headersOut(http.StatusOK)
	return http.NewResponseController(w.in.w).Flush()
}

// canFlush reports whether http.ResponseController would find something that flushes.
func canFlush(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// hijack hands the connection over. No return can be sent on it any more: what the purse holds is gone.
func (w writer) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.in.w.(http.Hijacker).Hijack()
	if err == nil && !w.in.sent {
		w.in.sent = true
		w.in.End()
	}
	return conn, rw, err
}

// readFrom copies without a buffer of ours, so that sendfile stays possible.
func (w writer) readFrom(src io.Reader) (int64, error) {
	w.in.headersOut(http.StatusOK)
	return w.in.w.(io.ReaderFrom).ReadFrom(src)
}

func (w writer) push(target string, o *http.PushOptions) error {
	return w.in.w.(http.Pusher).Push(target, o)
}

// The types that offer, beside the methods above, exactly what the server's own writer offers (F flushes, H gives the
// connection away, R reads from a source, P pushes), so that nothing is offered that would not work.
type (
	writerFlush                   struct{ writer }
	writerHijack                  struct{ writer }
	writerPush                    struct{ writer }
	writerReadFrom                struct{ writer }
	writerFlushHijack             struct{ writerFlush }
	writerFlushPush               struct{ writerFlush }
	writerFlushReadFrom           struct{ writerFlush }
	writerHijackPush              struct{ writerHijack }
	writerHijackReadFrom          struct{ writerHijack }
	writerReadFromPush            struct{ writerReadFrom }
	writerFlushHijackPush         struct{ writerFlushHijack }
	writerFlushHijackReadFrom     struct{ writerFlushHijack }
	writerFlushReadFromPush       struct{ writerFlushReadFrom }
	writerHijackReadFromPush      struct{ writerHijackReadFrom }
	writerFlushHijackReadFromPush struct{ writerFlushHijackReadFrom }
)

func (w writerFlush) Flush()                                               { w.FlushError() }
func (w writerHijack) Hijack() (net.Conn, *bufio.ReadWriter, error)        { return w.hijack() }
func (w writerPush) Push(target string, o *http.PushOptions) error         { return w.push(target, o) }
func (w writerReadFrom) ReadFrom(src io.Reader) (int64, error)             { return w.readFrom(src) }
func (w writerFlushHijack) Hijack() (net.Conn, *bufio.ReadWriter, error)   { return w.hijack() }
func (w writerFlushPush) Push(target string, o *http.PushOptions) error    { return w.push(target, o) }
func (w writerFlushReadFrom) ReadFrom(src io.Reader) (int64, error)        { return w.readFrom(src) }
func (w writerHijackPush) Push(target string, o *http.PushOptions) error   { return w.push(target, o) }
func (w writerHijackReadFrom) ReadFrom(src io.Reader) (int64, error)       { return w.readFrom(src) }
func (w writerReadFromPush) Push(target string, o *http.PushOptions) error { return w.push(target, o) }
func (w writerFlushHijackPush) Push(target string, o *http.PushOptions) error {
	return w.push(target, o)
}
func (w writerFlushHijackReadFrom) ReadFrom(src io.Reader) (int64, error) { return w.readFrom(src) }
func (w writerFlushReadFromPush) Push(target string, o *http.PushOptions) error {
	return w.push(target, o)
}
func (w writerHijackReadFromPush) Push(target string, o *http.PushOptions) error {
	return w.push(target, o)
}
func (w writerFlushHijackReadFromPush) Push(target string, o *http.PushOptions) error {
	return w.push(target, o)
}

const (
	flushes = 1 << iota
	hijacks
	readsFrom
	pushes
)

// wrapWriter returns the writer of a request with the optional interfaces of the server's own.
func wrapWriter(in *inbound) http.ResponseWriter {
	offers := 0
	if _, ok := in.w.(http.Flusher); ok {
		offers |= flushes
	}
	if _, ok := in.w.(http.Hijacker); ok {
		offers |= hijacks
	}
	if _, ok := in.w.(io.ReaderFrom); ok {
		offers |= readsFrom
	}
	if _, ok := in.w.(http.Pusher); ok {
		offers |= pushes
	}
	w := writer{in}
	switch offers {
	case flushes:
		return writerFlush{w}
	case hijacks:
		return writerHijack{w}
	case pushes:
		return writerPush{w}
	case readsFrom:
		return writerReadFrom{w}
	case flushes | hijacks:
		return writerFlushHijack{writerFlush{w}}
	case flushes | pushes:
		return writerFlushPush{writerFlush{w}}
	case flushes | readsFrom:
		return writerFlushReadFrom{writerFlush{w}}
	case hijacks | pushes:
		return writerHijackPush{writerHijack{w}}
	case hijacks | readsFrom:
		return writerHijackReadFrom{writerHijack{w}}
	case readsFrom | pushes:
		return writerReadFromPush{writerReadFrom{w}}
	case flushes | hijacks | pushes:
		return writerFlushHijackPush{writerFlushHijack{writerFlush{w}}}
	case flushes | hijacks | readsFrom:
		return writerFlushHijackReadFrom{writerFlushHijack{writerFlush{w}}}
	case flushes | readsFrom | pushes:
		return writerFlushReadFromPush{writerFlushReadFrom{writerFlush{w}}}
	case hijacks | readsFrom | pushes:
		return writerHijackReadFromPush{writerHijackReadFrom{writerHijack{w}}}
	case flushes | hijacks | readsFrom | pushes:
		return writerFlushHijackReadFromPush{writerFlushHijackReadFrom{writerFlushHijack{writerFlush{w}}}}
	default:
		return w
	}
}
