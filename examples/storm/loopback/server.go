package loopback

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
)

// Server is one handler behind a port of its own on the loopback interface.
type Server struct {
	// URL is where it listens, without a trailing slash.
	URL string

	http *http.Server
	done chan struct{}
}

// Serve starts a server for h. Close it when it is no longer needed.
func Serve(h http.Handler) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on the loopback interface: %w", err)
	}
	s := &Server{
		URL: "http://" + listener.Addr().String(),
		// Callers that went away are part of the show; net/http's notes about them are not.
		http: &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener) // always ErrServerClosed: nothing else closes the listener
	}()
	return s, nil
}

// Close ends the server and its connections at once, and waits until it no longer accepts.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// NewBase returns a client transport that shares nothing with others and keeps up to idle connections to each server,
// so that a burst of calls does not open and close as many sockets.
func NewBase(idle int) *http.Transport {
	return &http.Transport{MaxIdleConns: idle, MaxIdleConnsPerHost: idle, DisableCompression: true}
}

// Discard reads what is left of a response and closes it, so that its connection is used again.
func Discard(resp *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4096))
	_ = resp.Body.Close()
}
