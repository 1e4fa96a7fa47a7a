package nethttp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
)

// NeverDialed reports whether an error proves that no connection was made. It is asked only where net/http's own word is
// not to be had: below a repetition of its own it says nothing about what was sent before.
func NeverDialed(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// Refused reports whether the callee's HTTP/2 said that it did nothing with the request.
func Refused(err error) bool {
	stream, ok := errors.AsType[streamError](err)
	return ok && stream.Code == refusedStream
}

// Broken reports whether a connection, or a stream of one, ended before the answer did.
func Broken(err error) bool {
	if stream, ok := errors.AsType[streamError](err); ok {
		return stream.Code != canceledStream
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || is[net.Error](err)
}

// Permanent reports whether an error stays however often one asks.
func Permanent(err error) bool {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return true
	}
	return is[*tls.CertificateVerificationError](err) || is[x509.UnknownAuthorityError](err) ||
		is[x509.CertificateInvalidError](err) || is[x509.HostnameError](err) || is[tls.RecordHeaderError](err)
}

// is reports whether the error's tree holds an E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// streamError has the shape of HTTP/2's stream errors; net/http's own type converts itself into any struct of this
// shape.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error implements error.
func (streamError) Error() string { return "stream error" }

const (
	refusedStream  = 7
	canceledStream = 8
)
