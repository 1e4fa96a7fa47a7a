package chainbudgettest

import (
	"context"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// closeCases are about when a purse closes.
var closeCases = []Case{
	{Name: "headers_close_the_purse", check: headersCloseThePurse, Needs: []Capability{Streams, ReturnsInHeader},
		Checks: "with the headers of the answer the purse closes: a later retry of the request is refused as settled"},
	{Name: "trailers_close_the_purse", check: trailersCloseThePurse, Needs: []Capability{Streams, ReturnsInTrailer},
		Checks: "until the answer ends its request may retry, and the return says what is left then"},
	{Name: "work_after_the_answer_is_settled", check: workAfterTheAnswerIsSettled,
		Checks: "work that outlives its request finds no tokens: its retries are refused as settled"},
	{Name: "kept_tokens_stay", check: keptTokensStay, Needs: []Capability{Streams, ReturnsInHeader},
		Checks: "tokens that Keep sets aside are not returned, and pay retries after the headers"},
	{Name: "panics_settle", check: panicsSettle,
		Checks: "a handler that panics sends its return: all tokens, and the failure as its own"},
	{Name: "lost_requests_close_their_purse", check: lostRequestsCloseTheirPurse,
		Checks: "a request whose caller has gone ends with an account that adds up, and holds nothing"},
}

// sendsThenCalls answers with a first message, and makes a call that fails.
func sendsThenCalls(client Client, before func(context.Context), got *Answer) Handler {
	return func(ctx context.Context, _ Received, w Reply) error {
		before(ctx)
		if err := w.Send("first "); err != nil {
			return err
		}
		*got = client(ctx, Request{})
		return w.Send("last")
	}
}

func nothingBefore(context.Context) {}

func headersCloseThePurse(s *stage) {
	c := s.callee(says(ownership.ClaimClaimed, fails(503)))
	store := s.sdk("store", rules{})
	var call Answer
	got := s.lend(s.outsider(s.hop(store, sendsThenCalls(s.dial(store, c.address), nothingBefore, &call))), 2)
	s.succeeded(got.Answer, "first last")
	s.denied(call, ownership.ReasonSettled)
	expect(s, "attempts", len(c.all()), 1)
	expect(s, "returned", got.ret.Returned, 2)
}

func trailersCloseThePurse(s *stage) {
	c := s.callee(says(ownership.ClaimClaimed, fails(503)), says(ownership.ClaimNone, answers("done")))
	store := s.sdk("store", rules{})
	var call Answer
	got := s.lend(s.outsider(s.hop(store, sendsThenCalls(s.dial(store, c.address), nothingBefore, &call))), 2)
	s.succeeded(got.Answer, "first last")
	s.succeeded(call, "done")
	s.returned(got, otelprop.Return{Returned: 1, Retries: 1, Claim: ownership.ClaimNone})
}

func workAfterTheAnswerIsSettled(s *stage) {
	c := s.callee(says(ownership.ClaimClaimed, fails(503)))
	store := s.sdk("store", rules{})
	kept := make(chan context.Context, 1)
	address := s.hop(store, func(ctx context.Context, _ Received, w Reply) error {
		kept <- context.WithoutCancel(ctx)
		return w.Send("done")
	})
	got := s.lend(s.outsider(address), 2)
	s.succeeded(got.Answer, "done")
	expect(s, "returned", got.ret.Returned, 2)
	ctx, cancel := context.WithTimeout(<-kept, patience)
	defer cancel()
	s.denied(s.dial(store, c.address)(ctx, Request{}), ownership.ReasonSettled)
	expect(s, "attempts", len(c.all()), 1)
}

func keptTokensStay(s *stage) {
	c := s.callee(says(ownership.ClaimClaimed, fails(503)))
	store := s.sdk("store", rules{})
	var call Answer
	keep := func(ctx context.Context) { chainbudget.Keep(ctx, 1) }
	got := s.lend(s.outsider(s.hop(store, sendsThenCalls(s.dial(store, c.address), keep, &call))), 3)
	s.succeeded(got.Answer, "first last")
	expect(s, "returned", got.ret.Returned, 2)
	expect(s, "attempts", len(c.all()), 2)
	s.denied(call, ownership.ReasonSettled)
}

func panicsSettle(s *stage) {
	got := s.lend(s.outsider(s.hop(s.sdk("store", rules{}), func(context.Context, Received, Reply) error {
		panic("of the suite")
	})), 2)
	expect(s, "status", got.Status, 500)
	s.returned(got, otelprop.Return{Returned: 2, Claim: ownership.ClaimClaimed, Owner: "store", Leaf: true})
}

func lostRequestsCloseTheirPurse(s *stage) {
	store := s.sdk("store", rules{})
	requests := make(chan context.Context, 1)
	address := s.hop(store, func(ctx context.Context, r Received, w Reply) error {
		requests <- ctx
		return hangs(ctx, r, w)
	})
	rec := s.sdk("caller", rules{profile: "retry: {max_attempts: 1}"})
	ctx, cancel := context.WithCancel(s.chain(rec))
	defer cancel()
	client := s.dial(rec, address)
	done := make(chan struct{})
	go func() {
		defer close(done)
		client(ctx, Request{})
	}()
	var request context.Context
	select {
	case request = <-requests:
	case <-time.After(patience / 2):
		s.Fatal("the request did not arrive")
	}
	cancel()
	<-done
	s.eventually("the request's purse is empty", func() bool {
		b := s.balance(request)
		return b.Closed && b.Held == 0 && b.Lent == 0
	})
	expect(s, "the caller's tokens lost", s.balance(ctx).Lost, 2)
}
