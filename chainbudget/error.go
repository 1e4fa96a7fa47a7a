package chainbudget

import "github.com/chainbudget/chainbudget-go/ownership"

// DeniedError is the error of a failed call: the gate that refused a further retry, who owns the failure, and the last
// attempt's error, which errors.Is and errors.As find.
type DeniedError = ownership.DeniedError

// retryableError marks an error as worth a retry.
type retryableError struct{ error }

func (e retryableError) Unwrap() error { return e.error }

// Retryable marks an error returned by the function given to [Do] or [Call] as one that may go away. It returns nil for
// nil.
func Retryable(err error) error {
	if err == nil {
		return nil
	}
	return retryableError{err}
}
