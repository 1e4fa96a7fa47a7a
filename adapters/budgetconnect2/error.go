package budgetconnect2

import (
	"errors"

	"connectrpc.com/connect/v2"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
)

// kinds is how this version of connect makes its errors.
var kinds = connectrpc.Errors[*connect.Error]{
	New: func(code uint32, cause error) *connect.Error {
		return connect.NewError(connect.Code(code), cause.Error()).WithCause(cause)
	},
	Code: func(e *connect.Error) uint32 { return uint32(e.Code()) },
}

// asError returns the *connect.Error in err, or nil.
func asError(err error) *connect.Error {
	e, _ := errors.AsType[*connect.Error](err)
	return e
}
