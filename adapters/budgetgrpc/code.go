package budgetgrpc

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// A meaning is what a gRPC code says in terms of HTTP, in which catalogs list what is worth a retry and what is a failure.
type meaning struct {
	status int
	// passing says that asking again can help at all. Where it cannot, listing the status does not change that: 409 is
	// ABORTED and ALREADY_EXISTS.
	passing bool
}

// clientClosedRequest is what google.rpc.Code gives CANCELLED for a status.
const clientClosedRequest = 499

// meanings has the statuses that google.rpc.Code gives to its codes.
var meanings = [...]meaning{
	codes.OK:                 {http.StatusOK, false},
	codes.Canceled:           {clientClosedRequest, false},
	codes.Unknown:            {http.StatusInternalServerError, true},
	codes.InvalidArgument:    {http.StatusBadRequest, false},
	codes.DeadlineExceeded:   {http.StatusGatewayTimeout, true},
	codes.NotFound:           {http.StatusNotFound, false},
	codes.AlreadyExists:      {http.StatusConflict, false},
	codes.PermissionDenied:   {http.StatusForbidden, false},
	codes.ResourceExhausted:  {http.StatusTooManyRequests, true},
	codes.FailedPrecondition: {http.StatusBadRequest, false},
	codes.Aborted:            {http.StatusConflict, true},
	codes.OutOfRange:         {http.StatusBadRequest, false},
	codes.Unimplemented:      {http.StatusNotImplemented, false},
	codes.Internal:           {http.StatusInternalServerError, true},
	codes.Unavailable:        {http.StatusServiceUnavailable, true},
	codes.DataLoss:           {http.StatusInternalServerError, false},
	codes.Unauthenticated:    {http.StatusUnauthorized, false},
}

// meaningOf returns what a code means; one that gRPC does not know means what UNKNOWN does.
func meaningOf(c codes.Code) meaning {
	if int(c) < len(meanings) {
		return meanings[c]
	}
	return meanings[codes.Unknown]
}
