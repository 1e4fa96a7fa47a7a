package budgetconnect

import (
	"net/http"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/internal/rpc"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

const (
	// headerList is the smallest limit of a header list that gRPC clients have: gRPC's announced default. A list beyond a
	// client's limit is no answer at all: it sees internal in place of the error.
	headerList = 8 << 10
	// headerSlack is kept free for what interceptors further out and the transport add.
	headerSlack = 256
	// fieldSize is what HTTP/2 counts for a field beside its name and value.
	fieldSize = 32
)

// fits reports whether an error has room in a gRPC client's header list beside what the handler sends, with what this hop
// adds.
func (in *inbound) fits(e *connect.Error, c rpc.Conclusion) bool {
	size := headerSlack + fields(in.answers.ResponseTrailer()) + fields(e.Meta()) + statusSize(e)
	if c.Line != "" {
		size += len(otelprop.HTTPReturnHeader) + len(c.Line) + fieldSize
	}
	if c.Never {
		size += len(rpc.PushbackKey) + len(rpc.NoRetry) + fieldSize
	}
	return size <= headerList
}

// fields is what headers take.
func fields(h http.Header) (size int) {
	for k, values := range h {
		for _, v := range values {
			size += len(k) + len(v) + fieldSize
		}
	}
	return size
}

// statusSize is at least what an error's own trailers take.
func statusSize(e *connect.Error) int {
	message := e.Message()
	size := len("grpc-status16grpc-message") + 2*fieldSize
	for i := range len(message) {
		if c := message[i]; c >= ' ' && c <= '~' && c != '%' {
			size++
		} else {
			size += len("%00")
		}
	}
	details := 0
	for _, d := range e.Details() {
		details += len("type.googleapis.com/") + len(d.Type()) + len(d.Bytes()) + len("........")
	}
	if details == 0 {
		return size
	}
	details += len(message) + len("......")
	return size + len("grpc-status-details-bin") + (details*4+2)/3 + fieldSize
}
