package chainbudgettest

import "github.com/chainbudget/chainbudget-go/ownership"

// baseCases are about what an adapter hands on.
var baseCases = []Case{
	{Name: "either_an_answer_or_an_error", check: eitherAnAnswerOrAnError, Needs: []Capability{Bases},
		Checks: "a base that returns neither or both is not passed on: the caller gets an answer or an error, never both, never neither"},
	{Name: "nothing_given_passes_everything", check: nothingGivenPassesEverything,
		Checks: "with a nil Dependency and a nil SDK requests and answers pass as they are"},
}

func eitherAnAnswerOrAnError(s *stage) {
	for _, base := range []Base{NeitherBase, BothBase} {
		rec := s.sdk("caller", rules{profile: "retry: {max_attempts: 1}"})
		c := s.callee(says(ownership.ClaimNone, answers("done")))
		client := s.a.Dial(s.TB, Link{Address: c.address, Dependency: rec.Dependency("callee", suiteProfile), Base: base})
		a := client(s.chain(rec), Request{})
		if a.Responded || a.Err == nil {
			s.Errorf("base %d: response %t and error %v; want an error alone", base, a.Responded, a.Err)
		}
	}
}

func nothingGivenPassesEverything(s *stage) {
	c := s.callee(fails(503), answers("done"))
	client := s.outsider(c.address)
	first := client(s.context(), Request{Header: s.header("x-own", "1")})
	expect(s, "status", first.Status, 503)
	expect(s, "attempts", len(c.all()), 1)
	s.succeeded(client(s.context(), Request{}), "done")
	for _, a := range c.all() {
		if a.wire.Direct {
			s.Errorf("a client without a dependency sends %+v", a.wire)
		}
	}
}
