package ownership

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// DeniedError is the final failure of one call: why it was not, or not again, retried, who owns it, and what this hop
// tells its caller when it causes the hop's own failure. Every error that the SDK hands out for a call wraps one, so
// that errors.As finds it and an exact cause is known. It wraps the last attempt's error: what the server said is never
// hidden. A DeniedError is immutable once handed out. The methods of a nil one say that nothing failed.
type DeniedError struct {
	// Reason is the gate that refused a further retry.
	Reason Reason
	// Dependency names what was called.
	Dependency string
	// Owner is the slug of the service that caused the failure: as received, or the dependency's own name.
	Owner string
	// OwnerDepth is how many hops below this one the owner is, as far as returns told: 1 is the direct callee, 0 is not
	// known.
	OwnerDepth int
	// Claim is what goes up if this failure causes the hop's own: claimed, unclaimed or stop. It is none for a call that was
	// canceled for a reason other than time: that is no failure, and causes none.
	Claim Claim
	// Attempts is how many attempts went out; 0 means that the call was refused here, before the first.
	Attempts int
	// Status is the HTTP status of the last attempt, 0 if it got no response.
	Status int
	// RetryAfter is a hint for the caller's own pacing: how long the callee asked to wait, or else a wait that suits
	// the reason; 0 where waiting does not help.
	RetryAfter time.Duration
	// Operation identifies what was asked of the dependency: equal requests have equal values, 0 is not known.
	Operation uint64
	// FailOpen and FailClosed are set when the catalog declares whether this dependency's failure fails its caller.
	FailOpen, FailClosed bool
	// Err is the last attempt's error, or nil when it got a response.
	Err error
}

// Error says in one line what was refused, why, who owns the failure, what the last attempt came to, and which page explains
// the reason.
func (e *DeniedError) Error() string {
	if e == nil {
		return "chainbudget: no failure"
	}
	b := make([]byte, 0, 256)
	b = append(b, "chainbudget: "...)
	b = append(b, e.Dependency...)
	if e.Attempts == 0 {
		b = append(b, ": refused here, no attempt made: "...)
	} else {
		b = append(b, ": no retry after attempt "...)
		b = strconv.AppendInt(b, int64(e.Attempts), 10)
		b = append(b, ": "...)
	}
	b = append(b, e.Reason.String()...)
	b = append(b, " (owner "...)
	b = append(b, e.Owner...)
	b = append(b, ", "...)
	if e.OwnerDepth > 1 {
		b = strconv.AppendInt(b, int64(e.OwnerDepth), 10)
		b = append(b, " hops below, "...)
	}
	b = append(b, e.Claim.String()...)
	b = append(b, ')')
	if e.Status != 0 {
		b = append(b, ": status "...)
		b = strconv.AppendInt(b, int64(e.Status), 10)
	}
	if e.Err != nil {
		b = append(b, ": "...)
		b = append(b, errorText(e.Err)...)
	}
	if page := e.Reason.page(); page != "" {
		b = append(b, seePage...)
		b = append(b, page...)
	}
	return string(b)
}

// LogValue makes log/slog write the failure as a group: dependency, reason, attempt, claim, owner and owner_depth, status and
// retry_after_ms where there are any, the last attempt's error, and the page that explains the reason. The words are those of
// the span events.
func (e *DeniedError) LogValue() slog.Value {
	if e == nil {
		return slog.Value{}
	}
	list := append(make([]slog.Attr, 0, 10),
		slog.String("dependency", e.Dependency), slog.String("reason", e.Reason.String()), slog.Int("attempt", e.Attempts),
		slog.String("claim", e.Claim.String()), slog.String("owner", e.Owner), slog.Int("owner_depth", e.OwnerDepth),
	)
	if e.Status != 0 {
		list = append(list, slog.Int("status", e.Status))
	}
	if e.RetryAfter > 0 {
		list = append(list, slog.Int64("retry_after_ms", e.RetryAfter.Milliseconds()))
	}
	if e.Err != nil {
		list = append(list, slog.String("error", errorText(e.Err)))
	}
	if page := e.Reason.page(); page != "" {
		list = append(list, slog.String("see", page))
	}
	return slog.GroupValue(list...)
}

// maxErrorText bounds how much of a wrapped error is printed.
const maxErrorText = 512

// errorText returns what a wrapped error says, cut to its bound, without the pages of refusals further down: the last word of
// a text is the page of the refusal that it is about, once.
func errorText(err error) string {
	text := withoutPages(err.Error())
	if len(text) <= maxErrorText {
		return text
	}
	end := maxErrorText
	for end > maxErrorText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// seePage stands between an error's text and the page that explains its reason.
const seePage = "; see "

// withoutPages returns text without the pages that it names, also where somebody has cut the last one.
func withoutPages(text string) string {
	const page = seePage + pages
	if !strings.Contains(text, page) {
		return text
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, page)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		text = strings.TrimPrefix(strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyz_"), pageEnd)
	}
}

// Unwrap returns the last attempt's error.
func (e *DeniedError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// Timeout reports whether the last attempt, or the caller's own time, ran out. It makes a *url.Error around e say the
// same.
func (e *DeniedError) Timeout() bool {
	if e == nil {
		return false
	}
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// maxWalk bounds how many errors of a tree are looked at.
const maxWalk = 256

// appendFailures appends the failures that err wraps, each once, in the order of the tree.
func appendFailures(found []*DeniedError, err error) []*DeniedError {
	left := maxWalk
	return walk(found, err, &left)
}

func walk(found []*DeniedError, err error, left *int) []*DeniedError {
	for err != nil && *left > 0 {
		*left--
		if f, ok := err.(*DeniedError); ok {
			if f == nil {
				return found
			}
			for _, have := range found {
				if have == f {
					return found
				}
			}
			return append(found, f)
		}
		switch u := err.(type) {
		case interface{ Unwrap() error }:
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				found = walk(found, e, left)
			}
			return found
		default:
			return found
		}
	}
	return found
}
