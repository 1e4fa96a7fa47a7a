package engine

import (
	"time"

	"github.com/chainbudget/chainbudget-go/internal/rolling"
)

// load is the histogram of inbound attempt numbers, in two columns, and how much of what arrives is rejected: by them a
// server knows that retries keep it overloaded.
type load struct {
	attempts *rolling.Window // first attempts and others
	answers  *rolling.Window // not rejected and rejected
}

const (
	loadWindow  = 10 * time.Second
	loadSamples = 20
	// rejecting is the share of rejected requests from which a server counts as overloaded.
	rejecting = 0.5
)

func (l *load) init() {
	l.attempts, l.answers = rolling.NewWindow(loadWindow), rolling.NewWindow(loadWindow)
}

// arrived counts a request by the ordinal that its caller sent, 0 if it sent none.
func (l *load) arrived(attempt uint8) {
	if attempt > 0 {
		l.attempts.Add(attempt == 1)
	}
}

func (l *load) answered(now time.Time, rejected bool) { l.answers.AddAt(now, !rejected) }

// tooManyRetries reports whether the server is rejecting and more than a share of its requests are retries.
func (l *load) tooManyRetries(share float64) bool {
	if share >= 1 {
		return false
	}
	first, arrived := l.attempts.Ratio()
	served, answered := l.answers.Ratio()
	return arrived >= loadSamples && answered >= loadSamples &&
		float64(answered-served) >= rejecting*float64(answered) && float64(arrived-first) > share*float64(arrived)
}
