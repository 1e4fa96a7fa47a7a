package rpc

import "net/http"

// A Meaning is what a code says in terms of HTTP, in which catalogs list what is worth a retry and what is a failure.
type Meaning struct {
	Status int
	// Passing says that asking again can help at all. Where it cannot, listing the status does not change that: 409 is
	// ABORTED and ALREADY_EXISTS.
	Passing bool
}

// clientClosedRequest is what google.rpc.Code gives CANCELLED for a status.
const clientClosedRequest = 499

// meanings has the statuses that google.rpc.Code gives to its codes, by the code's number.
var meanings = [...]Meaning{
	0:  {http.StatusOK, false},
	1:  {clientClosedRequest, false},            // CANCELLED
	2:  {http.StatusInternalServerError, true},  // UNKNOWN
	3:  {http.StatusBadRequest, false},          // INVALID_ARGUMENT
	4:  {http.StatusGatewayTimeout, true},       // DEADLINE_EXCEEDED
	5:  {http.StatusNotFound, false},            // NOT_FOUND
	6:  {http.StatusConflict, false},            // ALREADY_EXISTS
	7:  {http.StatusForbidden, false},           // PERMISSION_DENIED
	8:  {http.StatusTooManyRequests, true},      // RESOURCE_EXHAUSTED
	9:  {http.StatusBadRequest, false},          // FAILED_PRECONDITION
	10: {http.StatusConflict, true},             // ABORTED
	11: {http.StatusBadRequest, false},          // OUT_OF_RANGE
	12: {http.StatusNotImplemented, false},      // UNIMPLEMENTED
	13: {http.StatusInternalServerError, true},  // INTERNAL
	14: {http.StatusServiceUnavailable, true},   // UNAVAILABLE
	15: {http.StatusInternalServerError, false}, // DATA_LOSS
	16: {http.StatusUnauthorized, false},        // UNAUTHENTICATED
}

// unknown is the code of what has no code.
const unknown = 2

// MeaningOf returns what a code means; one that gRPC does not know means what UNKNOWN does.
func MeaningOf(code uint32) Meaning {
	if code < uint32(len(meanings)) {
		return meanings[code]
	}
	return meanings[unknown]
}
