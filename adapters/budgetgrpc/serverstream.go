package budgetgrpc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

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
	if len(md[otelprop.ReturnHeader]) > 0 {
		md = md.Copy()
		delete(md, otelprop.ReturnHeader)
	}
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
