package profiles

import (
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestDifferences_are_readable(t *testing.T) {
	a, b := *Builtin().Profiles[ReadHeavy], *Builtin().Profiles[ReadHeavy]
	assert.Empty(t, a.Differences(&b))
	b.Retry.MaxAttempts, b.Backoff.Cap, b.Retry.Statuses = 2, 20*time.Second, nil
	assert.Equal(t, []string{"backoff.cap: 5s, pinned 20s", "retry.max_attempts: 4, pinned 2", "retry.statuses: 408,421,425,429,502,503,504, pinned none"},
		a.Differences(&b))
}

// TestDifferences_show_every_duration_as_one: the canonical form counts nanoseconds, which nobody reads.
func TestDifferences_show_every_duration_as_one(t *testing.T) {
	var zero, set Profile
	count := 0
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case !f.CanSet():
			case f.Type() == reflect.TypeFor[time.Duration]():
				f.SetInt(int64(90 * time.Second))
				count++
			case f.Kind() == reflect.Struct:
				fill(f)
			}
		}
	}
	fill(reflect.ValueOf(&set).Elem())
	list := set.Differences(&zero)
	assert.Len(t, list, count)
	for _, d := range list {
		assert.Regexp(t, regexp.MustCompile(`^[a-z_.]+: 1m30s, pinned 0s$`), d)
	}
}

func TestMismatch_says_who_and_how(t *testing.T) {
	m := Mismatch{Caller: "go", Profile: "payments", Digest: "11111111", Dependencies: []string{"ledger"}, Want: []string{"payments@22222222"}, Requests: 3}
	assert.Equal(t, `caller "go" uses payments@11111111 for "ledger" (pinned: payments@22222222): a profile that this catalog does not have, perhaps an edited copy, in 3 requests`, m.String())
	m.Differences = []string{"retry.max_attempts: 6, pinned 2"}
	assert.Contains(t, m.String(), "retry.max_attempts: 6, pinned 2")
	m.Older = true
	assert.Contains(t, m.String(), "an older catalog")
	m.AgreedSince = true
	assert.Contains(t, m.String(), "by now both agree")
}
