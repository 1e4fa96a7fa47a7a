package engine

import (
	"errors"
)

// A hopPlan is one service of a random call tree: what it calls, one call after the other, and what it says of its failures.
type hopPlan struct {
	id         int
	calls      []callPlan
	fails      bool // by itself, after its calls
	overloaded bool // and says that it has too much work
	exact      bool // its handler returns its errors
	idempotent bool // its operation may run twice
}

// A callPlan is one call of a hop to a dependency of its own.
type callPlan struct {
	attempts               int // that the profile allows
	idempotent, replayable bool
	open, closed           bool // as declared
	tolerated              bool // the handler goes on without it
	answers                []answerPlan
}

// An answerPlan is what an attempt comes to. Attempts beyond the list come to the last.
type answerPlan struct {
	kind answerKind
	hop  *hopPlan // of answersHop
}

type answerKind uint8

const (
	succeeds    answerKind = iota
	answersHop             // a service that runs the SDK
	silentFault            // a failure without a return
	permanent              // a failure that does not go away, without a return
	neverLeaves            // a request that never left
	pushesBack             // a failure that is claimed, and asks for no retry
	claimless              // a failure whose return says that there is none
	givenUp                // canceled
	answerKinds
)

// What the reference says about a failure. It knows the rules of ownership as the design states them, in the order in which
// a reader meets them, and shares nothing with the SDK but the words.
type refFailure struct {
	claim string // "claimed", "unclaimed" or "stop"
	owner string
	depth int
}

type refAnswer struct {
	failed bool
	refFailure
	effects bool
	left    int // tokens that come back
}

// refCall is one call's outcome: its failure, if it failed and was not canceled.
type refCall struct {
	failure *refFailure
	effects bool
}

func (p *hopPlan) name() string { return name("service", p.id) }

func name(kind string, id int) string {
	return kind + string(rune('a'+id/26)) + string(rune('a'+id%26))
}

// run is what a hop answers that was lent so many tokens.
func (p *hopPlan) reference(tokens int) refAnswer {
	var all, causes []refFailure
	effects, fails := false, p.fails
	for i := range p.calls {
		c := &p.calls[i]
		got := c.reference(p.dependency(i), &tokens)
		effects = effects || got.effects
		if got.failure == nil {
			continue
		}
		if !c.open {
			all = append(all, *got.failure)
		}
		if !c.tolerated {
			fails = true
			causes = append(causes, *got.failure)
		}
	}
	a := refAnswer{failed: fails, effects: effects, left: tokens}
	if !fails {
		return a
	}
	if !p.exact {
		causes = all // nothing says which, and nothing is learned: every one that is not declared harmless
	}
	a.refFailure = refFailure{claim: "claimed", owner: p.name()}
	rank := map[string]int{"claimed": 1, "unclaimed": 2, "stop": 3}
	for i, c := range causes {
		if i == 0 || rank[c.claim] > rank[a.claim] {
			a.refFailure = c
		}
	}
	if p.overloaded {
		a.refFailure = refFailure{claim: "stop", owner: p.name()}
	}
	if a.claim == "claimed" && effects && !p.idempotent {
		a.claim = "unclaimed"
	}
	return a
}

func (p *hopPlan) dependency(call int) string { return name("dependency", 3*p.id+call) }

func (c *callPlan) reference(dependency string, tokens *int) (got refCall) {
	retried := map[string]bool{}
	for attempt := 1; ; attempt++ {
		plan := c.answers[min(attempt, len(c.answers))-1]
		lent := *tokens
		var said refAnswer
		claim, owner, depth := "missing", dependency, 1
		switch plan.kind {
		case answersHop:
			said = plan.hop.reference(lent)
			*tokens = said.left
			if said.failed {
				claim, owner, depth = said.claim, said.owner, said.depth+1
			}
		case pushesBack:
			claim, owner = "claimed", "somebody"
		case silentFault, permanent, givenUp:
			*tokens = 0 // the whole lease is gone
		}
		unsent := plan.kind == neverLeaves
		if !c.idempotent && !unsent || said.effects {
			got.effects = true
		}
		switch {
		case plan.kind == succeeds, plan.kind == givenUp, plan.kind == answersHop && !said.failed:
			return got
		}
		protected := plan.kind == permanent || plan.kind == pushesBack || claim == "unclaimed" || claim == "stop" ||
			!c.idempotent && !unsent || c.attempts > 1 && attempt == c.attempts
		if able := c.attempts > 1 && c.replayable && *tokens > 0; able && !protected {
			*tokens--
			retried[owner] = true
			continue
		}
		got.failure = &refFailure{claim: "claimed", owner: owner, depth: depth}
		switch {
		case claim == "stop":
			got.failure.claim = "stop"
		case protected, retried[owner]:
			got.failure.claim = "unclaimed"
		}
		return got
	}
}

// planOf reads a tree out of bytes. Bytes that are missing are zero.
func planOf(data []byte) *hopPlan {
	hops := 0
	next := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b) % n
	}
	var hop func(depth int) *hopPlan
	hop = func(depth int) *hopPlan {
		flags := next(256)
		p := &hopPlan{id: hops, exact: flags&1 != 0, idempotent: flags&2 != 0, fails: flags&12 == 12, overloaded: flags&28 == 28}
		hops++
		calls := 0
		if depth < 5 {
			calls = (flags >> 5) % 4
		}
		for range calls {
			flags, more := next(256), next(256)
			c := callPlan{
				attempts: 1 + flags%4, idempotent: flags&12 != 0, replayable: flags&48 != 0, tolerated: flags&192 == 192,
				open: more%4 == 1, closed: more%4 == 2,
			}
			for range 1 + more/4%3 {
				a := answerPlan{kind: answerKind(next(int(answerKinds)))}
				if a.kind == answersHop {
					if hops >= 12 {
						a.kind = silentFault
					} else {
						a.hop = hop(depth + 1)
					}
				}
				c.answers = append(c.answers, a)
			}
			p.calls = append(p.calls, c)
		}
		return p
	}
	return hop(0)
}

var (
	errSilent = errors.New("no answer")
	errOwnBug = errors.New("a bug")
)
