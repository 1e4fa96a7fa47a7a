package chainbudgettest

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// Adapter is what the conformance suite needs to know of an adapter: how to serve and how to call with it. One value
// describes one protocol in one shape, such as HTTP/2, gRPC's unary calls, or gRPC's server streams.
type Adapter struct {
	// Name names the protocol and its shape in what the suite prints.
	Name string
	// Lacks says of each capability that the adapter does not have why that is so. What it does not list it claims.
	Lacks map[Capability]string
	// Spell gives a header's name, which is in lower case, as the keys of the protocol's own header maps are spelled. Nil
	// leaves names as they are.
	Spell func(name string) string
	// Serve serves s on a loopback address until the test ends and returns that address, as host:port. With a nil SDK
	// it is a server of that protocol without the adapter.
	Serve func(t testing.TB, s Server) (address string)
	// Dial returns a client of the server at l.Address, which is closed when the test ends. With a nil Dependency it is
	// a client of that protocol without the adapter. The client connects when it is first used, and again after its
	// connection is lost.
	Dial func(t testing.TB, l Link) Client
	// Transport is Dial for adapters of net/http, for what only an *http.Request has, with a URL of the server: nil for
	// all others.
	Transport func(t testing.TB, l Link) (transport http.RoundTripper, url string)
}

// Capability is something that not every protocol has. An adapter that does not have it says why in [Adapter].Lacks.
type Capability string

// The capabilities.
const (
	// Streams: an answer has several messages (or parts of a body), which the client reads as they are sent.
	Streams Capability = "streams"
	// Unreplayable: there are requests that can be sent only once, and the client says so by [Request].Once.
	Unreplayable Capability = "unreplayable"
	// Bodies: an answer that is a failure has a body, as long as its handler likes.
	Bodies Capability = "bodies"
	// NetHTTP: the adapter is one of net/http, and has a Transport.
	NetHTTP Capability = "net/http"
	// Upgrades: a connection can be taken over from the protocol.
	Upgrades Capability = "upgrades"
	// Bases: what stands below the adapter's client may break its contract, and the adapter does not pass that on.
	Bases Capability = "bases"
	// ReturnsInHeader: the return goes out with the headers of an answer.
	ReturnsInHeader Capability = "returns in the header"
	// ReturnsInTrailer: the return goes out at the end of an answer.
	ReturnsInTrailer Capability = "returns in the trailer"
	// Hints: a failure can say when to ask again.
	Hints Capability = "hints"
	// Operations: the adapter can tell whether two calls ask the same.
	Operations Capability = "operations"
	// Probes: there are requests of machines that only want to know whether the service is there.
	Probes Capability = "probes"
)

var capabilities = []Capability{
	Streams, Unreplayable, Bodies, NetHTTP, Upgrades, Bases, ReturnsInHeader, ReturnsInTrailer, Hints, Operations, Probes,
}

// Server is a service that the suite asks for.
type Server struct {
	// SDK is the service's, for the adapter's server side; nil means none.
	SDK *chainbudget.SDK
	// Entry makes chains begin here.
	Entry bool
	// Layers is how many more of the adapter's server sides, with the same SDK, stand inside the first.
	Layers int
	// Outside, if not nil, is called before the adapter's server side with each request's context and headers, and
	// returns the context to go on with: it stands for the instrumentation that users install.
	Outside func(ctx context.Context, header http.Header) context.Context
	// Handle is the user's code. A panic of it is recovered outside the adapter's server side and answered as an
	// internal error (500).
	Handle Handler
}

// Handler is a user's code at the server. What it returns is the answer's end: nil, a *[Failure], or an error that wraps
// the error of a call, which makes that call the exact cause.
type Handler func(ctx context.Context, r Received, w Reply) error

// Received is a request as a handler gets it.
type Received struct {
	// Header is what the handler sees of headers or metadata, with any spelling of its keys.
	Header http.Header
	// Body is the whole body or message.
	Body string
}

// Reply is how a handler answers, besides what it returns.
type Reply struct {
	// Header adds a header to the answer, before the first Send.
	Header func(name, value string)
	// Return adds a line where the protocol carries returns, as a server without the SDK, or careless code, would do.
	Return func(line string)
	// Send sends a message at once. Of a protocol without streams it sets the one message.
	Send func(message string) error
	// Writer is the handler's own, of adapters of net/http.
	Writer http.ResponseWriter
	// Request likewise.
	Request *http.Request
}

// Failure is an answer of a service that fails by itself.
type Failure struct {
	// Status is the HTTP status, or what the protocol's code counts as.
	Status int
	// Text is the body, or the status's message.
	Text string
	// After is how many seconds the caller should wait before it asks again; 0 says nothing.
	After int
}

// Error implements error.
func (f *Failure) Error() string { return fmt.Sprintf("status %d: %s", f.Status, f.Text) }

// HTTPStatus is what the status of the answer is.
func (f *Failure) HTTPStatus() int { return f.Status }

// Base is what stands below an adapter's client.
type Base uint8

// The bases.
const (
	// HonestBase is the protocol's own.
	HonestBase Base = iota
	// NeitherBase returns neither an answer nor an error.
	NeitherBase
	// BothBase returns an answer and an error.
	BothBase
)

// Link is a client that the suite asks for.
type Link struct {
	// Address is the server's, as host:port.
	Address string
	// Dependency is for the adapter's client side; nil means none.
	Dependency *chainbudget.Dependency
	// Layers is how many more of the adapter's client sides, for the same dependency, stand below the first.
	Layers int
	// Base is what stands below them all.
	Base Base
}

// Client makes one call and reads its answer to the end.
type Client func(ctx context.Context, r Request) Answer

// Request is one call that the suite makes.
type Request struct {
	// Operation names what is asked: a path, a method's name, or a part of the message. Calls with the same one, body and
	// Write are the same operation.
	Operation string
	// Header is the caller's own map, spelled by [Adapter].Spell, and is handed to the protocol as it is. Nil is no map.
	Header http.Header
	// Body is the body or message.
	Body string
	// Once makes the request one that cannot be sent again.
	Once bool
	// Write makes the request one that must not run twice.
	Write bool
	// Probe makes the request a probe.
	Probe bool
	// Each, if not nil, is called with each part of the answer as it is read, and not any later.
	Each func(part string)
}

// Answer is what came of a call.
type Answer struct {
	// Responded says that the adapter returned a response. Err is the error that it returned; of a protocol that has
	// failures as errors, also for an answer that is a failure.
	Responded bool
	Err       error
	// Status is the HTTP status, or what the protocol's code counts as; 0 without an answer from the server.
	Status int
	// Header has the answer's headers and trailers, with any spelling of its keys.
	Header http.Header
	// Body is all of the answer's messages; of a failure its text.
	Body string
	// Cut is the error that reading the response ended with, nil where it was whole. Where Err says so it may be nil.
	Cut error
	// Denied is why the call was not, or not again, retried; nil for an answer that is no failure.
	Denied *chainbudget.DeniedError
}

// cause is the error that a handler returns to make the call the exact cause of its own failure, or nil.
func (a *Answer) cause() error {
	switch {
	case a.Err != nil:
		return a.Err
	case a.Denied != nil:
		return a.Denied
	default:
		return nil
	}
}

func (a *Answer) String() string {
	return fmt.Sprintf("status %d, body %.80q, response %t, error %v, cut %v, denied %v", a.Status, a.Body, a.Responded, a.Err, a.Cut, a.Denied)
}
