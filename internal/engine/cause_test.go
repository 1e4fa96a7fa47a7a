package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/chainbudget/chainbudget-go/ownership"
)

// TestLearn_what_is_not_remembered_teaches_nothing: a dependency that failed after the failures of the request were full
// must not teach that it worked.
func TestLearn_what_is_not_remembered_teaches_nothing(t *testing.T) {
	r := newRig(t, "", "plain", 0, can)
	late, _, err := r.sdk.Dependency("late", "plain")
	assert.NoError(t, err)
	r.in.callees.add(late)
	for range ownership.MaxFailures {
		r.in.Tracker.Failed(&ownership.DeniedError{Dependency: "payments", Claim: ownership.ClaimUnclaimed})
	}
	r.in.Tracker.Failed(&ownership.DeniedError{Dependency: "late", Claim: ownership.ClaimUnclaimed})
	r.in.Learn(Answer{Failed: true})
	var taught []string
	for _, o := range r.sdk.Edges().Memory().Operations {
		for _, e := range o.Edges {
			taught = append(taught, e.Dependency)
			assert.Equal(t, 1.0, e.Failed)
		}
	}
	assert.Equal(t, []string{"payments"}, taught)
}
