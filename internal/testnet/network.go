package testnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// Network is an [http.RoundTripper] that leads to handlers, by host. Use [New].
type Network struct {
	plan func(*http.Request) Fault
	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu       sync.Mutex
	handlers map[string]http.Handler
	returns  map[string]string // the latest return of each host, for Stale
	closed   bool
	running  sync.WaitGroup
}

// New returns a network without hosts. plan must neither change nor keep the request; it may be called by many
// goroutines at once.
func New(plan func(*http.Request) Fault) *Network {
	if plan == nil {
		plan = func(*http.Request) Fault { return Fault{} }
	}
	n := &Network{plan: plan, handlers: make(map[string]http.Handler), returns: make(map[string]string)}
	n.ctx, n.stop = context.WithCancel(context.Background())
	return n
}

// Handle makes h the handler of a host, written as in a request's URL: with the port, if that has one.
func (n *Network) Handle(host string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handlers[host] = h
}

// Wait blocks until no handler runs.
func (n *Network) Wait() { n.running.Wait() }

// Close cancels the context of every handler that runs, breaks what waits, and waits until no handler runs. Requests
// after it are refused.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.stop()
	n.running.Wait()
}

// begin returns a host's handler and counts it as running.
func (n *Network) begin(host string) (http.Handler, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.handlers[host]
	switch {
	case h == nil:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
	case n.closed:
		return nil, errRefused
	}
	n.running.Add(1)
	return h, nil
}

// latestReturn stores the return of a response and gives the one before.
func (n *Network) latestReturn(host, line string) (before string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before = n.returns[host]
	n.returns[host] = line
	return before
}

var (
	errRefused error = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	errReset   error = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	errClosed        = errors.New("testnet: the network was closed")
)

// RoundTrip implements [http.RoundTripper].
func (n *Network) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil || req.URL.Host == "" {
		closeBody(req)
		return nil, errors.New("testnet: the request names no host")
	}
	ctx := req.Context()
	if ctx.Err() != nil {
		closeBody(req)
		return nil, context.Cause(ctx)
	}
	fault := n.plan(req)
	switch fault.Kind {
	case Refuse, Drop, Hang:
		closeBody(req)
		return nil, n.withoutHandler(ctx, fault)
	}
	text, err := requestText(req)
	if err != nil {
		return nil, err
	}
	handler, err := n.begin(req.URL.Host)
	if err != nil {
		return nil, err
	}
	x := &exchange{network: n, host: req.URL.Host, fault: fault, handler: handler, answered: make(chan answer, 1)}
	x.ctx, x.cancel = context.WithCancel(n.ctx)
	go x.serve(text)
	select {
	case a := <-x.answered:
		if a.err != nil {
			return nil, a.err
		}
		return parseResponse(a.text, req)
	case <-ctx.Done():
		x.clientGone()
		return nil, context.Cause(ctx)
	case <-n.ctx.Done():
		return nil, errClosed
	}
}

// withoutHandler plays a fault that the request does not survive.
func (n *Network) withoutHandler(ctx context.Context, fault Fault) error {
	var result error
	var arrives <-chan time.Time // never, of a Hang
	switch fault.Kind {
	case Refuse:
		result = errRefused
	case Drop:
		result = errReset
	}
	if result != nil {
		if fault.Before <= 0 {
			return result
		}
		timer := time.NewTimer(fault.Before)
		defer timer.Stop()
		arrives = timer.C
	}
	select {
	case <-arrives:
		return result
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.ctx.Done():
		return errClosed
	}
}

// wait sleeps, unless the network is closed meanwhile.
func (n *Network) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.ctx.Done():
	}
}

// exchange is one request that reaches its handler.
type exchange struct {
	network  *Network
	host     string
	fault    Fault
	handler  http.Handler
	ctx      context.Context // the handler's
	cancel   context.CancelFunc
	answered chan answer // room for one
}

type answer struct {
	text []byte
	err  error
}

// answer tells the client; nobody else does.
func (x *exchange) answer(a answer) { x.answered <- a }

// clientGone cancels the handler's context when the fault says that the handler notices.
func (x *exchange) clientGone() {
	switch d := x.fault.Notice; {
	case d == 0:
		x.cancel()
	case d > 0:
		time.AfterFunc(d, x.cancel)
	}
}

// serve runs the handler. It is one goroutine.
func (x *exchange) serve(text []byte) {
	n := x.network
	defer n.running.Done()
	defer x.cancel()
	n.wait(x.fault.Before)
	if x.fault.Kind == Crash {
		crash := func() {
			x.cancel()
			x.answer(answer{err: errReset})
		}
		if x.fault.After > 0 {
			time.AfterFunc(x.fault.After, crash)
		} else {
			crash()
		}
	}
	req, err := parseRequest(text)
	if err != nil {
		if x.fault.Kind != Crash {
			x.answer(answer{err: fmt.Errorf("testnet: the request does not survive its own text: %w", err)})
		}
		return
	}
	w := &responseWriter{exchange: x, head: req.Method == http.MethodHead}
	returned := false
	defer func() {
		if !returned { // a panic, or the end of the goroutine: the end of the connection, as in net/http
			_ = recover()
		}
		x.finish(w, returned)
	}()
	x.handler.ServeHTTP(w, req.WithContext(x.ctx))
	returned = true
}

// finish sends what the handler leaves behind.
func (x *exchange) finish(w *responseWriter, returned bool) {
	switch x.fault.Kind {
	case Crash, Swallow:
		return
	}
	x.network.wait(x.fault.After)
	if !returned || x.fault.Kind == Lose {
		x.answer(answer{err: io.EOF})
		return
	}
	x.answer(answer{text: w.finish()})
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
