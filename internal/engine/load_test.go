package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestLoad says when a server sees too many retries: it needs 20 arrivals and 20 answers in ten seconds, half of the answers
// rejections, and more retries among the arrivals than the share.
func TestLoad(t *testing.T) {
	const share = .1
	for _, tt := range []struct {
		name                      string
		first, retries, unlabeled int
		served, rejected          int
		share                     float64
		want                      bool
	}{
		{"above", 18, 3, 0, 0, 21, share, true},
		{"at_the_share", 18, 2, 0, 0, 20, share, false},
		{"half_rejected", 18, 3, 0, 10, 10, share, true},
		{"less_than_half_rejected", 18, 3, 0, 11, 10, share, false},
		{"19_arrivals", 10, 9, 0, 0, 20, share, false},
		{"those_without_an_ordinal_do_not_count", 10, 9, 100, 0, 20, share, false},
		{"19_answers", 10, 10, 0, 0, 19, share, false},
		{"no_share_is_too_much", 0, 50, 0, 0, 50, 1, false},
		{"none_is_allowed", 29, 1, 0, 0, 30, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l load
				l.init()
				for range tt.first {
					l.arrived(1)
				}
				for i := range tt.retries {
					l.arrived(uint8(2 + i%3))
				}
				for range tt.unlabeled {
					l.arrived(0)
				}
				for range tt.served {
					l.answered(time.Now(), false)
				}
				for range tt.rejected {
					l.answered(time.Now(), true)
				}
				assert.Equal(t, tt.want, l.tooManyRetries(tt.share))
				time.Sleep(loadWindow + time.Second)
				assert.False(t, l.tooManyRetries(tt.share), "ten seconds later nothing of it counts")
			})
		})
	}
}
