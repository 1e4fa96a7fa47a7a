package chainbudgettest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Outcome is what came of a [Chain]'s requests. String draws it as a tree.
type Outcome struct {
	// Statuses has what each request came to at the entry: 200, or 503 if its call failed.
	Statuses []int
	// Attempts has how many requests were sent to each hop, from hop 1.
	Attempts []int
	// Retries is how many of them were second and later attempts of their call.
	Retries int
	// Minted is how many tokens there were: those of the entry, and those of hops that had lost their context.
	Minted int
	// Held is how many of the entry's tokens were left at the end, Lost how many went out in a lease and never came back.
	Held, Lost int
	// Claims has what the entry was told about each request's failure; missing where nobody said, none of a success.
	Claims []ownership.Claim
	// Owners has the owner of each, "" of a success and where nobody said.
	Owners []string

	requests []*visit
	strays   []*attempt
}

// Want is what a test expects of an [Outcome]. What is zero is not looked at.
type Want struct {
	// Status, Claim and Owner are those of every request.
	Status int
	Claim  ownership.Claim
	Owner  string
	// Attempts has the attempts sent to each hop, from hop 1.
	Attempts []int
	// Settled says that no token was lost.
	Settled bool
}

// Expect returns an error that lists how the outcome differs from what was expected, with the tree; nil if it does not.
func (o *Outcome) Expect(want Want) error {
	var problems []string
	differs := func(what string, got, want any) {
		problems = append(problems, fmt.Sprintf("%s: %v, want %v", what, got, want))
	}
	for i := range o.Statuses {
		request := fmt.Sprintf("request %d: ", i+1)
		if want.Status != 0 && o.Statuses[i] != want.Status {
			differs(request+"status", o.Statuses[i], want.Status)
		}
		if want.Claim != ownership.ClaimMissing && o.Claims[i] != want.Claim {
			differs(request+"claim", o.Claims[i], want.Claim)
		}
		if want.Owner != "" && o.Owners[i] != want.Owner {
			differs(request+"owner", o.Owners[i], want.Owner)
		}
	}
	if want.Attempts != nil && !slices.Equal(o.Attempts, want.Attempts) {
		differs("attempts by hop", o.Attempts, want.Attempts)
	}
	if want.Settled && o.Lost != 0 {
		differs("tokens lost", o.Lost, 0)
	}
	return o.complain(problems)
}

// complain makes an error of problems, with the tree.
func (o *Outcome) complain(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return errors.New("chainbudgettest: " + strings.Join(problems, "\n\t") + "\n" + o.String())
}

// outcome adds up what was written down, and checks it.
func (r *run) outcome() (*Outcome, error) {
	o := &Outcome{Attempts: make([]int, r.depth), requests: r.requests, strays: r.strays}
	audit := audit{mode: r.catalog.Chain.Mode}
	for _, a := range r.attempts {
		if a.hop <= r.depth {
			o.Attempts[a.hop-1]++
		}
	}
	for _, v := range r.requests {
		o.Statuses = append(o.Statuses, v.status)
		claim, owner := ownership.ClaimNone, ""
		if last := v.last(); last != nil && last.failed() {
			claim, owner = last.claim(), last.ret.Owner
		}
		o.Claims, o.Owners = append(o.Claims, claim), append(o.Owners, owner)
		minted, retries := audit.request(v)
		o.Minted += minted
		o.Retries += retries
		o.Held += v.held
	}
	o.Lost = audit.lost
	for _, a := range r.strays {
		audit.find("a request to %s was sent with a context that belongs to no request of the chain", hopName(a.hop))
	}
	return o, o.complain(audit.problems)
}

// last is the last attempt of a visit, or nil.
func (v *visit) last() *attempt {
	if len(v.calls) == 0 {
		return nil
	}
	c := v.calls[len(v.calls)-1]
	return c.attempts[len(c.attempts)-1]
}

// audit looks for what must not be.
type audit struct {
	mode     profiles.Mode
	lost     int
	problems []string
}

const maxProblems = 16

func (a *audit) find(format string, args ...any) {
	if len(a.problems) < maxProblems {
		a.problems = append(a.problems, fmt.Sprintf(format, args...))
	}
}

// request checks one request's tree.
func (a *audit) request(root *visit) (minted, retries int) {
	minted = root.granted
	root.each(func(from *visit, c *call, n int, at *attempt) {
		if n > 0 {
			retries++
		} else if c.fresh(from) {
			minted += int(at.wire.Limit)
		}
	})
	a.settle(root, root.held, true)
	if a.mode == profiles.ModeObserve || a.mode == profiles.ModeBypass {
		return minted, retries
	}
	if retries > minted {
		a.find("I1: request %d: %d retries, %d tokens minted", root.number, retries, minted)
	}
	for path, n := range root.paths() {
		if n > 1+minted {
			a.find("I2: request %d: %d attempts reached %s, %d tokens minted", root.number, n, path, minted)
		}
	}
	if a.mode != profiles.ModeBudget {
		a.claims(root)
	}
	return minted, retries
}

// paths counts the attempts by the calls that led to them.
func (v *visit) paths() map[string]int {
	counts := map[string]int{}
	var walk func(v *visit, path string)
	walk = func(v *visit, path string) {
		for i, c := range v.calls {
			for _, at := range c.attempts {
				name := fmt.Sprintf("%s%s", path, hopName(at.hop))
				if i > 0 {
					name += fmt.Sprintf(" (call %d)", i+1)
				}
				counts[name]++
				if at.at != nil {
					walk(at.at, name+", ")
				}
			}
		}
	}
	walk(v, "")
	return counts
}

// settle holds every hop to I3 as the wire shows it, and every purse that can be seen as well. back is what a visit gave
// back of what it was granted, or -1 where nobody heard of it. What is lost within a lease that is lost itself is not
// counted again.
func (a *audit) settle(v *visit, back int, counted bool) {
	if v.purse != nil {
		if b := v.purse.Balance(); b.Held+b.Lent+b.Spent+b.Lost+b.Returned != b.Granted {
			a.find("I3: the purse of %s does not add up: %+v", v.name(), b)
		}
	}
	own := v.granted
	for _, c := range v.calls {
		for i, at := range c.attempts {
			home, given := 0, -1
			if at.home {
				home = int(at.ret.Returned)
				given = home
			}
			if !c.fresh(v) {
				own -= int(at.wire.Grant) - home
				if i > 0 {
					own--
				}
			}
			if gone := int(at.wire.Grant) - at.paid(); !at.home && gone > 0 {
				if counted || c.fresh(v) {
					a.lost += gone
				}
				if !at.explained() {
					a.find("%d tokens are lost: %s answered attempt %d of %s without a return, and no fault explains it",
						gone, hopName(at.hop), i+1, v.name())
				}
			}
			if at.at != nil {
				a.settle(at.at, given, at.home && (counted || c.fresh(v)))
			}
		}
	}
	switch {
	case back < 0:
	case own < back:
		a.find("I3: %s was granted %d, and gave out %d more than that", v.name(), v.granted, back-own)
	case counted:
		a.lost += own - back // set aside, or gone with a connection that the hop took over
	}
}

// fresh reports whether a call of a hop has tokens of its own, because its context had no purse.
func (c *call) fresh(from *visit) bool {
	return from.hop > 0 && c.attempts[0].wire.State == otelprop.Valid && c.attempts[0].wire.Hop == 1
}

// paid counts the retries that an attempt's lease has paid.
func (a *attempt) paid() (n int) {
	if a.at == nil {
		return 0
	}
	for _, c := range a.at.calls {
		if c.fresh(a.at) {
			continue
		}
		n += len(c.attempts) - 1
		for _, below := range c.attempts {
			n += below.paid()
		}
	}
	return n
}

// explained reports whether something on the plan, or the caller's patience, accounts for an attempt without a return.
func (a *attempt) explained() bool {
	if a.err != nil || a.at == nil || a.at.fault != Nothing {
		return true
	}
	explained := false
	a.at.each(func(_ *visit, _ *call, _ int, below *attempt) {
		explained = explained || below.at != nil && below.at.fault == Hangs
	})
	return explained
}

// claims checks that nobody retried, or claimed, what was not theirs to.
func (a *audit) claims(root *visit) {
	root.each(func(from *visit, c *call, n int, at *attempt) {
		final := at.claim() == ownership.ClaimUnclaimed || at.claim() == ownership.ClaimStop
		if at.failed() && final && !at.late && n+1 < len(c.attempts) {
			a.find("%s retried a failure of %s that came back as %v", from.name(), hopName(at.hop), at.claim())
		}
		if at.at == nil || !at.failed() || at.claim() != ownership.ClaimClaimed {
			return
		}
		for _, below := range at.at.calls {
			last := below.attempts[len(below.attempts)-1]
			received := last.claim() == ownership.ClaimUnclaimed || last.claim() == ownership.ClaimStop
			if last.failed() && received && !last.late && last.ret.Owner == at.ret.Owner {
				a.find("%s was told that the failure of %s is %v, and claimed it", at.at.name(), last.ret.Owner, last.claim())
			}
		}
	})
}

func (v *visit) name() string {
	if v.hop == 0 {
		return "the entry"
	}
	return hopName(v.hop)
}

// String draws every request as a tree: a line for each attempt, below the request that made it.
func (o *Outcome) String() string {
	var b strings.Builder
	for _, v := range o.requests {
		fmt.Fprintf(&b, "request %d: %d, %d tokens minted, %d held at the end\n", v.number, v.status, v.granted, v.held)
		v.draw(&b, "")
	}
	for _, a := range o.strays {
		fmt.Fprintf(&b, "of no request: %s\n", a)
	}
	return b.String()
}

func (v *visit) draw(b *strings.Builder, indent string) {
	left := 0
	for _, c := range v.calls {
		left += len(c.attempts)
	}
	for i, c := range v.calls {
		for n, at := range c.attempts {
			left--
			branch, below := "├─ ", "│  "
			if left == 0 {
				branch, below = "└─ ", "   "
			}
			fmt.Fprintf(b, "%s%s%s", indent, branch, hopName(at.hop))
			if len(v.calls) > 1 {
				fmt.Fprintf(b, " call %d", i+1)
			}
			fmt.Fprintf(b, " attempt %d: %s\n", n+1, at)
			if at.at != nil {
				at.at.draw(b, indent+below)
			}
		}
	}
}

// String says what became of an attempt.
func (a *attempt) String() string {
	var b strings.Builder
	switch {
	case a.wire.State == otelprop.Absent:
		b.WriteString("no budget")
	default:
		fmt.Fprintf(&b, "lent %d", a.wire.Grant)
	}
	switch {
	case a.err != nil:
		b.WriteString(", no answer")
	default:
		fmt.Fprintf(&b, ", %d", a.status)
	}
	switch {
	case a.home:
		fmt.Fprintf(&b, ", returned %d", a.ret.Returned)
		if a.failed() {
			fmt.Fprintf(&b, ", %v", a.ret.Claim)
		}
		if a.ret.Owner != "" {
			fmt.Fprintf(&b, ", owner %s", a.ret.Owner)
		}
	default:
		b.WriteString(", no return")
	}
	switch {
	case a.at == nil:
		b.WriteString(" (did not arrive)")
	case a.at.fault != Nothing:
		fmt.Fprintf(&b, " (%s)", a.at.fault)
	}
	return b.String()
}
