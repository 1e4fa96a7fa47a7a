package connectrpc

import "sync/atomic"

// Kind is a procedure's kind of stream, numbered as connect does.
type Kind uint8

// The kinds; a stream in both directions is ClientStream | ServerStream.
const (
	Unary        Kind = 0
	ClientStream Kind = 1
	ServerStream Kind = 2
)

// Method is what is known about a procedure.
type Method struct {
	Shape      uint64
	Kind       Kind
	Idempotent bool
	MayGet     bool // by HTTP GET
	// Identify tells one of its requests from another, 0 where that is not known.
	Identify func(shape uint64, message any) uint64

	version atomic.Int32 // of HTTP, over connections without TLS; 0 = not known
}

// Streams reports whether the client sends more than one message.
func (m *Method) Streams() bool { return m.Kind&ClientStream != 0 }

func (m *Method) identify(message any) uint64 { return m.Identify(m.Shape, message) }
