package budgetgrpc

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// maxDetails is how many details of a status are looked at.
const maxDetails = 64

// returnLines are the lines of the return that a status carries among its details: where a hop passes an error on and
// not its trailers, they are all that is left.
func returnLines(p *spb.Status) (lines []string) {
	for _, d := range p.GetDetails()[:min(len(p.GetDetails()), maxDetails)] {
		if info := ours(d); info != nil {
			lines = append(lines, info.GetMetadata()[otelprop.ReturnHeader])
		}
	}
	return lines
}

// ours returns a detail that carries a return, or nil for any other.
func ours(d *anypb.Any) *errdetails.ErrorInfo {
	info := new(errdetails.ErrorInfo)
	if !d.MessageIs(info) || d.UnmarshalTo(info) != nil || info.GetDomain() != otelprop.ErrorDomain || info.GetReason() != otelprop.ErrorReason {
		return nil
	}
	return info
}

// returnDetail is the detail that carries a return.
func returnDetail(line string) (*anypb.Any, error) {
	return anypb.New(&errdetails.ErrorInfo{
		Reason: otelprop.ErrorReason, Domain: otelprop.ErrorDomain, Metadata: map[string]string{otelprop.ReturnHeader: line},
	})
}

// retryInfo is the longest delay that the details ask for.
func retryInfo(p *spb.Status) (hint time.Duration, ok bool) {
	for _, d := range p.GetDetails()[:min(len(p.GetDetails()), maxDetails)] {
		info := new(errdetails.RetryInfo)
		if !d.MessageIs(info) || d.UnmarshalTo(info) != nil || info.GetRetryDelay() == nil {
			continue
		}
		if delay := info.GetRetryDelay().AsDuration(); delay >= 0 {
			hint, ok = max(hint, delay), true
		}
	}
	return hint, ok
}
