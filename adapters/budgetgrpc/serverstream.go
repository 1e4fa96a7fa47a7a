package budgetgrpc

import (
	"context"
	"runtime"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/chainbudget/chainbudget-go/internal/ctxkey"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// serverStream is the stream that a handler gets: with the request's context, and with trailers that are its own.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
	in  *inbound // nil where the SDK has no part

	mu  sync.Mutex
	set metadata.MD // the handler's own trailer
}

// Context implements [grpc.ServerStream].
func (s *serverStream) Context() context.Context { return s.ctx }

// SetTrailer implements [grpc.ServerStream]. I6: a return that the handler copied from a callee does not go out.
func (s *serverStream) SetTrailer(md metadata.MD) {
	md = ownTrailer(md)
	s.mu.Lock()
	s.set = metadata.Join(s.set, md)
	s.mu.Unlock()
	s.ServerStream.SetTrailer(md)
}

// trailer is what the handler has set so far.
func (s *serverStream) trailer() metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

// ownTrailer returns a trailer without a return.
func ownTrailer(md metadata.MD) metadata.MD {
	for k := range md {
		if canonical(k) == otelprop.ReturnHeader {
			md = md.Copy()
			delete(md, k)
		}
	}
	return md
}

// ownTrailers is the transport's stream for grpc.SetTrailer, which a handler calls with its context.
type ownTrailers struct{ grpc.ServerTransportStream }

// SetTrailer implements [grpc.ServerTransportStream]. I6.
func (s ownTrailers) SetTrailer(md metadata.MD) error {
	return s.ServerTransportStream.SetTrailer(ownTrailer(md))
}

// streamKey is the key under which gRPC looks for the transport's stream.
var streamKey = ctxkey.Of(func(ctx context.Context) { grpc.ServerTransportStreamFromContext(ctx) })

// settingTrailer reports whether grpc.SetTrailer asks for the transport's stream. Others must get the stream itself: what
// sets or asks for compressors takes no other type.
func settingTrailer() bool {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if frame.Function == "google.golang.org/grpc.SetTrailer" {
			return true
		}
		if !more {
			return false
		}
	}
}
