package chainbudgettest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Case is one rule that adapters keep. [Cases] lists them all.
type Case struct {
	// Name is the case's name, as in a subtest's.
	Name string
	// Checks says in a sentence what must be true.
	Checks string
	// Needs lists what an adapter must be able to do for the case to make sense.
	Needs []Capability

	check func(*stage)
}

// Cases returns all rules, in the order in which [Conform] checks them. The slice is the caller's own.
func Cases() []Case {
	return slices.Concat(headerCases, discardCases, replayCases, orderCases, attemptCases, commitCases, streamCases, upgradeCases,
		baseCases, hiddenCases, layerCases, goroutineCases, budgetCases, externalCases, arrivalCases, entryCases, stripCases,
		closeCases, claimCases, modeCases, deadlineCases, repeatCases)
}

// Run checks the rule on an adapter that has what the case needs. It fails t if the rule does not hold.
func (c Case) Run(t testing.TB, a Adapter) {
	t.Helper()
	c.check(&stage{TB: t, a: a})
}

// missing is the first capability that the case needs and the adapter lacks.
func (c Case) missing(a Adapter) (Capability, bool) {
	for _, need := range c.Needs {
		if _, lacks := a.Lacks[need]; lacks {
			return need, true
		}
	}
	return "", false
}

// Conform runs the conformance suite: every case that the adapter does not say it lacks the capability for, as a subtest
// each, over real connections on the loopback interface. It logs which ran and which did not. One of the cases looks
// for goroutines that are left over, so the test must not run beside others (t.Parallel).
func Conform(t *testing.T, a Adapter) {
	t.Helper()
	if problems := a.problems(); len(problems) > 0 {
		t.Fatalf("the adapter is not described:\n\t%s", strings.Join(problems, "\n\t"))
	}
	ran, left := 0, []string(nil)
	for _, c := range Cases() {
		if need, missing := c.missing(a); missing {
			left = append(left, fmt.Sprintf("%s: lacks %s: %s", c.Name, need, a.Lacks[need]))
			continue
		}
		ran++
		t.Run(c.Name, func(t *testing.T) {
			t.Logf("%s: %s", a.Name, c.Checks)
			c.Run(t, a)
		})
	}
	t.Logf("%s: %d cases ran, %d did not\n\t%s", a.Name, ran, len(left), strings.Join(left, "\n\t"))
}

// problems lists what is wrong with the description, so that nothing is left out by mistake.
func (a *Adapter) problems() (list []string) {
	if a.Name == "" {
		list = append(list, "Name is empty: name the protocol and its shape")
	}
	if a.Serve == nil || a.Dial == nil {
		list = append(list, "Serve and Dial are needed")
	}
	for c, why := range a.Lacks {
		if !slices.Contains(capabilities, c) {
			list = append(list, fmt.Sprintf("Lacks names %q, which is no capability", c))
		}
		if why == "" {
			list = append(list, fmt.Sprintf("Lacks says nothing about %q: say why the adapter does not have it", c))
		}
	}
	if _, lacks := a.Lacks[NetHTTP]; lacks != (a.Transport == nil) {
		list = append(list, "an adapter of net/http has a Transport, any other lacks "+string(NetHTTP))
	}
	_, header := a.Lacks[ReturnsInHeader]
	_, trailer := a.Lacks[ReturnsInTrailer]
	if header == trailer {
		list = append(list, "returns go out either in the header or in the trailer: the adapter lacks one of the two")
	}
	slices.Sort(list)
	return list
}
