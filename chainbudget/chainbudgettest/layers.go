package chainbudgettest

import (
	"context"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// layerCases are about adapters that are installed more than once.
var layerCases = []Case{
	{Name: "nested_clients_decide_once", check: nestedClientsDecideOnce,
		Checks: "of three client sides for one dependency the outermost decides (I7): as many attempts, decisions and tokens as of one"},
	{Name: "nested_servers_act_once", check: nestedServersActOnce,
		Checks: "of three server sides the outermost acts (I7): the grant is there inside, and one return goes out"},
}

func nestedClientsDecideOnce(s *stage) {
	rec := s.sdk("caller", rules{})
	c := s.callee(says(ownership.ClaimClaimed, fails(503)))
	client := s.a.Dial(s.TB, Link{Address: c.address, Dependency: rec.Dependency("callee", suiteProfile), Layers: 2})
	ctx := s.chain(rec)
	a := client(ctx, Request{})
	if a.cause() == nil {
		s.Errorf("the call came to %v", &a)
	}
	// Two tokens are lent and come home each time; with the last one nothing else is lent.
	expect(s, "attempts", len(c.all()), 4)
	for _, arrived := range c.all() {
		s.oneWire(arrived)
	}
	b := s.balance(ctx)
	expect(s, "tokens spent", b.Spent, 3)
	expect(s, "tokens lost", b.Lost, 0)
	expect(s, "decisions", len(rec.Events()), 4)
}

func nestedServersActOnce(s *stage) {
	var held int
	store := s.sdk("store", rules{})
	address := s.a.Serve(s.TB, Server{SDK: store.SDK, Layers: 2, Handle: func(ctx context.Context, _ Received, w Reply) error {
		held = s.balance(ctx).Held
		return w.Send("done")
	}})
	got := s.lend(s.outsider(address), 2)
	s.succeeded(got.Answer, "done")
	expect(s, "tokens held", held, 2)
	s.returned(got, otelprop.Return{Returned: 2, Claim: ownership.ClaimNone, Leaf: true})
	totals := store.SDK.Totals()
	expect(s, "requests of callers", totals.Callees, 1)
	expect(s, "orphans", totals.Orphans, 0)
}
