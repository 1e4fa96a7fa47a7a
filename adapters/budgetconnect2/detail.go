package budgetconnect2

import (
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// maxDetails is how many details of an error are looked at.
const maxDetails = 64

// The names of the messages that are looked for among details.
var (
	errorInfoType = string((*errdetails.ErrorInfo)(nil).ProtoReflect().Descriptor().FullName())
	retryInfoType = string((*errdetails.RetryInfo)(nil).ProtoReflect().Descriptor().FullName())
)

// details are the details of an error as far as they are looked at.
func details(e *connect.Error) []*connect.ErrorDetail {
	if e == nil {
		return nil
	}
	all := e.Details()
	return all[:min(len(all), maxDetails)]
}

// returnLines are the lines of the return that an error carries among its details: where a hop passes an error on and
// not its metadata, they are all that is left.
func returnLines(e *connect.Error) (lines []string) {
	for _, d := range details(e) {
		if info := ours(d); info != nil {
			lines = append(lines, info.GetMetadata()[otelprop.ReturnHeader])
		}
	}
	return lines
}

// ours returns a detail that carries a return, or nil for any other.
func ours(d *connect.ErrorDetail) *errdetails.ErrorInfo {
	if d.Type != errorInfoType {
		return nil
	}
	info := new(errdetails.ErrorInfo)
	if proto.Unmarshal(d.Value, info) != nil || info.GetDomain() != otelprop.ErrorDomain || info.GetReason() != otelprop.ErrorReason {
		return nil
	}
	return info
}

// returnDetail is the detail that carries a return.
func returnDetail(line string) (*connect.ErrorDetail, error) {
	return connectproto.NewErrorDetail(&errdetails.ErrorInfo{
		Reason: otelprop.ErrorReason, Domain: otelprop.ErrorDomain, Metadata: map[string]string{otelprop.ReturnHeader: line},
	})
}

// retryInfo is the longest delay that the details ask for.
func retryInfo(e *connect.Error) (hint time.Duration, ok bool) {
	for _, d := range details(e) {
		if d.Type != retryInfoType {
			continue
		}
		info := new(errdetails.RetryInfo)
		if proto.Unmarshal(d.Value, info) != nil || info.GetRetryDelay() == nil {
			continue
		}
		if delay := info.GetRetryDelay().AsDuration(); delay >= 0 {
			hint, ok = max(hint, delay), true
		}
	}
	return hint, ok
}
