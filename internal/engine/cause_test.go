package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/chainbudget/chainbudget-go/internal/edges"
	"github.com/chainbudget/chainbudget-go/otelprop"
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

// TestCause_unknown_compares_rates: where an edge has shown too little, a hop that fails more often beside that dependency's
// failures than by itself blames downstream, and one that fails less often then blames itself.
func TestCause_unknown_compares_rates(t *testing.T) {
	for name, c := range map[string]struct {
		ownFailures, both int // of ten requests without a failed call, and of ten with one
		owner             string
	}{
		"more_often_with_it":  {2, 5, "payments"},
		"less_often_with_it":  {8, 5, "checkout"},
		"as_often":            {5, 5, "payments"},
		"nothing_is_known":    {-1, -1, "payments"},
		"too_little_is_known": {-2, -2, "payments"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "chain: {learn: enforce}\n", "plain", 3, can)
			operation := r.sdk.Edges().Operation("start")
			record := func(n, failed int, call edges.Call) {
				for i := range n {
					operation.Record(time.Now(), i < failed, []edges.Call{call})
				}
			}
			switch c.both {
			case -1:
			case -2:
				record(minEvidence-1, 3, edges.Call{Dependency: "payments"})
				record(minEvidence-1, 1, edges.Call{Dependency: "payments", Failed: true})
			default:
				record(10, c.ownFailures, edges.Call{Dependency: "payments"})
				record(10, c.both, edges.Call{Dependency: "payments", Failed: true})
			}
			r.in.Tracker.Failed(&ownership.DeniedError{Dependency: "payments", Owner: "payments", Claim: ownership.ClaimUnclaimed})
			v := r.in.Verdict(t.Context(), Answer{Failed: true})
			assert.Equal(t, c.owner, v.Owner, v.Why)
		})
	}
}

// TestOverload_stops_for_its_own_failures: a server that mostly rejects, and mostly retries, says stop; for a failure that another
// owns it does not, nor while it rejects little, nor while retries are few.
func TestOverload_stops_for_its_own_failures(t *testing.T) {
	for name, c := range map[string]struct {
		attempt  uint8
		rejected int // of twenty
		answer   Answer
		owner    string
		want     ownership.Claim
	}{
		"overloaded":          {2, 20, Answer{Failed: true, Rejected: true}, "", ownership.ClaimStop},
		"half_is_enough":      {2, 10, Answer{Failed: true, Rejected: true}, "", ownership.ClaimStop},
		"rejects_little":      {2, 9, Answer{Failed: true, Rejected: true}, "", ownership.ClaimClaimed},
		"first_attempts":      {1, 20, Answer{Failed: true, Rejected: true}, "", ownership.ClaimClaimed},
		"fails_otherwise":     {2, 20, Answer{Failed: true}, "", ownership.ClaimClaimed},
		"another_is_to_blame": {2, 20, Answer{Failed: true, Rejected: true}, "ledger", ownership.ClaimUnclaimed},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "dependencies: {checkout: {profile: plain}}\n", "plain", 3, can)
			for i := range loadSamples {
				r.sdk.load.arrived(c.attempt)
				r.sdk.load.answered(time.Now(), i < c.rejected)
			}
			if c.owner != "" {
				r.in.Tracker.Failed(&ownership.DeniedError{Dependency: "payments", Owner: c.owner, Claim: ownership.ClaimUnclaimed})
			}
			v := r.in.Verdict(t.Context(), c.answer)
			assert.Equal(t, c.want, v.Claim, v.Why)
		})
	}
}

// TestArrive_owes_a_return_to_who_sent_a_valid_header, and to nobody else.
func TestArrive_owes_a_return_to_who_sent_a_valid_header(t *testing.T) {
	r := newRig(t, "", "plain", 0, can)
	valid := otelprop.Request{State: otelprop.Valid, Grant: 1, Limit: 3, Hop: 1, Nonce: 8, Entry: "edge"}
	direct := valid
	direct.Direct, direct.Nonce = true, 9
	for name, c := range map[string]struct {
		arrival Arrival
		owes    bool
		granted int
	}{
		"direct":     {Arrival{Wire: direct}, true, 1},
		"relayed":    {Arrival{Wire: valid}, false, 1},
		"unreadable": {Arrival{Wire: otelprop.Request{State: otelprop.Unreadable}}, false, 0},
		"orphan":     {Arrival{}, false, 1},
		"entry":      {Arrival{Entry: true, Budget: 3, Wire: direct}, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			in := new(Inbound)
			r.sdk.Arrive(in, c.arrival)
			assert.Equal(t, c.owes, in.Owes())
			assert.Equal(t, c.granted, in.Balance().Granted)
		})
	}
}
