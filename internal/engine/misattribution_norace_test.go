//go:build !race

package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// world is a service whose truth is known: it calls every dependency in every request, answers without those that fail
// open, fails with those that fail closed, and now and then fails by itself.
type world struct {
	open, closed                   int     // how many dependencies
	openFails, closedFails, myself float64 // how likely each fails in a request
	wraps                          bool    // the handler says which error failed it

	sdk    *SDK
	deps   []*Dependency // those that fail open come first
	random *rand.Rand
	failed []*ownership.DeniedError
	causes []error
}

var errMine = errors.New("my own failure")

func (w *world) init(t *testing.T) {
	catalog, err := profiles.Load([]byte("version: 1\nchain: {learn: enforce}\n"), "world")
	require.NoError(t, err)
	w.sdk = new(SDK)
	w.sdk.Init(Config{Service: "me", Catalog: catalog})
	w.random = rand.New(rand.NewPCG(17, uint64(w.open)))
	for i := range w.open + w.closed {
		d, _, err := w.sdk.Dependency(fmt.Sprint("dependency", i), profiles.ReadHeavy)
		require.NoError(t, err)
		w.deps = append(w.deps, d)
	}
}

// truth is what happened in one request, and what was said about it.
type truth struct {
	own     bool // the service failed by itself, and nothing else failed it
	symptom bool // a dependency failed it
	below   bool // some dependency failed, whether it mattered or not
	verdict ownership.Verdict
}

// request is one request, as an adapter runs it: calls, verdict as the headers go out, and then what it teaches.
func (w *world) request() truth {
	in := new(Inbound)
	w.sdk.Arrive(in, Arrival{Entry: true, Budget: 3})
	in.Route = page{}
	w.failed, w.causes = w.failed[:0], w.causes[:0]
	var what truth
	for i, dep := range w.deps {
		in.callees.add(dep)
		fails := w.openFails
		if i >= w.open {
			fails = w.closedFails
		}
		if w.random.Float64() >= fails {
			continue
		}
		f := &ownership.DeniedError{Dependency: dep.name, Owner: dep.slug, Claim: ownership.ClaimUnclaimed, Reason: ownership.ReasonMaxAttempts}
		in.Tracker.Failed(f)
		what.below = true
		if i >= w.open {
			what.symptom = true
			w.causes = append(w.causes, f)
		}
	}
	mine := w.random.Float64() < w.myself
	what.own = mine && !what.symptom
	answer := Answer{Failed: mine || what.symptom}
	ctx := in.Context(context.Background())
	if answer.Failed {
		if w.wraps {
			if mine {
				w.causes = append(w.causes, errMine)
			}
			ownership.Blame(ctx, errors.Join(w.causes...))
		}
		what.verdict = in.Verdict(ctx, answer)
	}
	in.Learn(answer)
	return what
}

// TestT17 counts how often a service takes its own error for a dependency's, and a dependency's for its own, beside the
// naive rule (any call failed, so it was not me) on the same requests. The published figure for it is 1-(1-q)^n.
func TestT17_misattribution_NoRace(t *testing.T) {
	const requests, warmup = 1_000_000, 10_000
	for _, n := range []int{10, 30} {
		for _, wraps := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d_fail_open/wrapped_%t", n, wraps), func(t *testing.T) {
				t.Parallel()
				w := &world{open: n, closed: 3, openFails: .01, closedFails: .005, myself: .005, wraps: wraps}
				w.init(t)
				begin := time.Now()
				var own, ownUnclaimed, naive, symptoms, symptomsClaimed int
				for i := range warmup + requests {
					what := w.request()
					mine := what.verdict.Owner == "me" && what.verdict.Claim == ownership.ClaimClaimed
					switch {
					case i < warmup:
					case what.own:
						own++
						if !mine {
							ownUnclaimed++
						}
						if what.below {
							naive++
						}
					case what.symptom:
						symptoms++
						if mine {
							symptomsClaimed++
						}
					}
				}
				share := func(n, of int) float64 { return float64(n) / float64(of) }
				formula := 1 - math.Pow(1-.01, float64(n))
				t.Logf("T17, n = %d, errors wrapped %t, %d requests in %v: of %d own errors %.3f %% wrongly unclaimed (naive rule %.1f %%, formula %.1f %%), "+
					"of %d symptoms %.3f %% wrongly claimed", n, wraps, requests, time.Since(begin).Round(time.Millisecond), own, 100*share(ownUnclaimed, own),
					100*share(naive, own), 100*formula, symptoms, 100*share(symptomsClaimed, symptoms))
				assert.Greater(t, own, requests/300)
				assert.Greater(t, symptoms, requests/100)
				assert.InDelta(t, formula, share(naive, own), 3*math.Sqrt(formula*(1-formula)/float64(own)), "the naive rule has the published share")
				if wraps {
					assert.Zero(t, ownUnclaimed)
					assert.Zero(t, symptomsClaimed)
					return
				}
				assert.LessOrEqual(t, share(ownUnclaimed, own), .01)
				assert.LessOrEqual(t, share(symptomsClaimed, symptoms), .01)
			})
		}
	}
}
