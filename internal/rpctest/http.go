package rpctest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Serve runs a server on the loopback interface until the test ends, in HTTP/1 and cleartext HTTP/2, and returns its URL.
func Serve(t testing.TB, h http.Handler) string {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// Client returns a client with connections of its own until the test ends, over one version of HTTP.
func Client(t testing.TB, http2 bool) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// LateReset is a network on which every callee resets the stream when its time is over, as a server does that ends a handler
// which does not. It is for bubbles of testing/synctest, in which that is the very instant of the caller's own timer.
type LateReset struct{}

// RoundTrip implements [http.RoundTripper].
func (LateReset) RoundTrip(r *http.Request) (*http.Response, error) {
	deadline, _ := r.Context().Deadline()
	time.Sleep(time.Until(deadline) - time.Millisecond) // the callee was told a millisecond less
	return nil, errors.New("stream error: stream ID 1; CANCEL; received from peer")
}
