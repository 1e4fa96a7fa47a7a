package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/chainbudget/chainbudget-go/internal/edges"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// callees are the dependencies that a request has called, each once. The zero value is ready to use; the first few take
// no lock.
type callees struct {
	few  [4]atomic.Pointer[Dependency]
	mu   sync.Mutex
	more []*Dependency
}

func (s *callees) add(dep *Dependency) {
	for i := range s.few {
		slot := &s.few[i]
		have := slot.Load()
		if have == nil && slot.CompareAndSwap(nil, dep) {
			return
		}
		if have == nil {
			have = slot.Load()
		}
		if have == dep {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, have := range s.more {
		if have == dep {
			return
		}
	}
	s.more = append(s.more, dep)
}

func (s *callees) none() bool { return s.few[0].Load() == nil }

// appendTo appends the dependencies' names.
func (s *callees) appendTo(list []edges.Call) []edges.Call {
	for i := range s.few {
		dep := s.few[i].Load()
		if dep == nil {
			return list
		}
		list = append(list, edges.Call{Dependency: dep.name})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, dep := range s.more {
		list = append(list, edges.Call{Dependency: dep.name})
	}
	return list
}

// failedBefore reports whether the same has already been asked of a dependency in this request, and failed.
func (in *Inbound) failedBefore(dependency string, operation uint64) bool {
	failed, _, _ := in.Tracker.Failures()
	for _, f := range failed {
		if f.Operation == operation && f.Dependency == dependency {
			return true
		}
	}
	return false
}

// Learn teaches the edges what this request has shown.
func (in *Inbound) Learn(a Answer) {
	now := in.now()
	in.sdk.load.answered(now, a.Rejected)
	var few [8]edges.Call
	calls := in.callees.appendTo(few[:0])
	lost, causes, exact := in.Tracker.Failures()
	for i := range calls {
		c := &calls[i]
		c.Failed, c.Cause = named(lost, c.Dependency), named(causes, c.Dependency)
		c.Exact = exact && a.Failed
	}
	if len(lost) >= ownership.MaxFailures { // who failed after that is not known: it must not pass for having worked
		calls = slices.DeleteFunc(calls, func(c edges.Call) bool { return !c.Failed })
	}
	in.sdk.edges.Operation(in.operation()).Record(now, a.Failed, calls)
}

func named(list []*ownership.DeniedError, dependency string) bool {
	for _, f := range list {
		if f.Dependency == dependency {
			return true
		}
	}
	return false
}

// Answer is what an adapter knows of a request's answer as its headers go out.
type Answer struct {
	// Failed says that the answer is a failure, Rejected that it is one by which a server says that it has too much to do.
	Failed, Rejected bool
}

// Verdict is what this hop says about its answer. For a failure it is told to the current span and to the debug log, at
// an entry too, where nobody above hears of it.
func (in *Inbound) Verdict(ctx context.Context, a Answer) ownership.Verdict {
	if !a.Failed {
		return in.Tracker.Verdict(false, in.sdk.ownerSlug, in.Idempotent, nil)
	}
	v := in.blame(a)
	in.traceClaim(ctx, &v)
	if in.sdk.debug != nil {
		in.sdk.debug(ctx, "chainbudget: the answer is a failure", "operation", in.operation(), "claim", v.Claim.String(),
			"owner", v.Owner, "owner_depth", v.Depth, "why", v.Why)
	}
	return v
}

// operation is what edges are kept for.
func (in *Inbound) operation() string {
	if in.Route == nil {
		return "start" // a chain of its own
	}
	return in.Route.Operation()
}

// Explain says in one line whose failure it would be if the request failed now.
func (in *Inbound) Explain() string {
	v := in.blame(Answer{})
	return v.Claim.String() + ", owner " + v.Owner + ": " + v.Why
}

// blame finds the cause of a failure.
func (in *Inbound) blame(a Answer) ownership.Verdict {
	s := in.sdk
	chain := &in.generation.catalog.Chain
	unknown := func(f *ownership.DeniedError) (bool, string) {
		if chain.Unknown == profiles.UnknownClaim {
			return false, "unknown: the catalog claims"
		}
		return true, "unknown: " + f.Dependency + " failed, and ties blame downstream"
	}
	operation := s.edges.Operation(in.operation())
	learned := func(f *ownership.DeniedError) (bool, string) {
		if cause, why, ok := judge(operation, f); ok {
			return cause, why
		}
		return unknown(f)
	}
	v := in.Tracker.Verdict(true, s.ownerSlug, in.Idempotent, learned)
	if chain.Learn == profiles.LearnObserve {
		would := v
		v = in.Tracker.Verdict(true, s.ownerSlug, in.Idempotent, unknown)
		if would.Claim != v.Claim || would.Owner != v.Owner {
			s.counters.learnedOtherwise.Add(1)
		}
	}
	if v.Owner == s.ownerSlug && a.Rejected && s.load.tooManyRetries(in.generation.retryShare) {
		v.Claim = ownership.ClaimStop
		v.Why = "own: rejecting, and too many of the requests are retries"
	}
	return v
}

// judge says what an edge has learned about a failure: whether it causes ours. It is not ok when it knows nothing.
func judge(operation *edges.Operation, f *ownership.DeniedError) (cause bool, why string, ok bool) {
	edge := operation.Look(f.Dependency)
	switch edge.Class {
	case edges.FailClose, edges.FailOpen:
		return edge.Class == edges.FailClose, fmt.Sprintf("learned: %s is %v, %.0f %% of its last failures failed %s",
			f.Dependency, edge.Class, 100*edge.Share, operation.Name()), true
	}
	own, requests := operation.Own()
	if edge.Failed < minEvidence || requests < minEvidence || own == edge.Share {
		return false, "", false
	}
	return own < edge.Share, fmt.Sprintf("unknown: %s by itself fails %.2g %% of the time, and with %s %.2g %%",
		operation.Name(), 100*own, f.Dependency, 100*edge.Share), true
}

// minEvidence is below how many failures, or requests, two rates are not compared.
const minEvidence = 4
