package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

const treeCatalog = `
version: 1
profiles:
  p1:
    extends: read-heavy
    retry: {max_attempts: 1, attempt_timeout: 0s}
    budget: disabled
    breaker: disabled
    availability_floor: 0%
  p2: {extends: p1, retry: {max_attempts: 2}}
  p3: {extends: p1, retry: {max_attempts: 3}}
  p4: {extends: p1, retry: {max_attempts: 4}}
`

// treeRun runs a plan with the engine, as an adapter does, and with the codec between the hops.
type treeRun struct {
	t       testing.TB
	catalog *profiles.Catalog
	sdks    map[*hopPlan]*SDK
}

// serve runs one hop for a request that brought wire, and returns the line of its return and whether it failed.
func (r *treeRun) serve(p *hopPlan, wire otelprop.Request) (line string, failed bool) {
	sdk := r.sdks[p]
	if sdk == nil {
		sdk = new(SDK)
		sdk.Init(Config{Service: p.name(), Catalog: r.catalog, NoSleep: true})
		r.sdks[p] = sdk
	}
	in := new(Inbound)
	sdk.Arrive(in, Arrival{Wire: wire})
	in.Idempotent = p.idempotent
	in.Route = page{}
	ctx := in.Context(context.Background())
	var causes []error
	failed = p.fails
	for i := range p.calls {
		if err := r.call(ctx, sdk, p, i); err != nil && !p.calls[i].tolerated {
			failed = failed || !errors.Is(err, context.Canceled)
			causes = append(causes, err)
		}
	}
	if p.fails {
		causes = append(causes, errOwnBug)
	}
	if p.exact && failed {
		ownership.Blame(ctx, errors.Join(causes...))
	}
	if p.overloaded {
		ownership.Overloaded(ctx)
	}
	v := in.Verdict(ctx, Answer{Failed: failed})
	if v.Why == "" {
		r.t.Error("a verdict without a reason")
	}
	ret := in.Return(v)
	in.Learn(Answer{Failed: failed})
	in.End()
	return string(ret.Append(nil)), failed
}

// call makes one call of a hop.
func (r *treeRun) call(ctx context.Context, sdk *SDK, p *hopPlan, i int) error {
	plan := &p.calls[i]
	dep, _, err := sdk.Dependency(p.dependency(i), profiles.Name(fmt.Sprint("p", plan.attempts)))
	if err != nil {
		r.t.Fatal(err)
	}
	dep.Policy().failOpen, dep.Policy().failClosed = plan.open, plan.closed
	c := new(Call)
	begin(c, ctx, dep, CallOptions{Idempotent: plan.idempotent, Replayable: plan.replayable})
	for {
		if reason, err := c.Admit(time.Now()); reason != ownership.ReasonAllowed {
			c.Refuse(reason, err)
			return c.Finish()
		}
		text, n := c.Lend(0)
		r.answer(c, plan.answers[min(c.Attempts(), len(plan.answers))-1], text, n)
		c.Done(time.Now())
		if !c.Result.Failed && !c.Result.Canceled {
			return nil
		}
		if !c.Decide(time.Now()) || !c.Await() || !c.Backoff() {
			return c.Finish()
		}
	}
}

// answer sets what an attempt came to.
func (r *treeRun) answer(c *Call, plan answerPlan, text string, memberLen int) {
	lent, nonce := c.Lent()
	ret := otelprop.Return{Returned: uint8(lent), Nonce: nonce, Claim: ownership.ClaimNone}
	result := &c.Result
	result.Failed, result.Retryable, result.Status = true, true, 503
	switch plan.kind {
	case succeeds:
		result.Failed, result.Status = false, 200
		result.Returned(ret)
	case answersHop:
		wire, _ := otelprop.ReadRequest([]string{text[:memberLen]}, []string{text[len(otelprop.MemberKey)+1:]}, 10)
		if wire.State != otelprop.Valid || !wire.Direct {
			r.t.Fatalf("the wire %q is not read", text)
		}
		line, failed := r.serve(plan.hop, wire)
		ret, ok, rejects := otelprop.ReadReturn([]string{line}, nonce, lent)
		if !ok {
			r.t.Fatalf("the return %q is not read: %v", line, rejects)
		}
		result.Failed = failed
		result.Returned(ret)
	case silentFault:
		result.Err, result.Status = errSilent, 0
	case permanent:
		result.Retryable = false
	case neverLeaves:
		result.Err, result.Status, result.Unsent = errSilent, 0, true
	case pushesBack:
		ret.Claim, ret.Owner = ownership.ClaimClaimed, "somebody"
		result.Returned(ret)
		result.Pushback = true
	case claimless:
		result.Returned(ret)
	case givenUp:
		result.Failed, result.Retryable, result.Canceled, result.Err, result.Status = false, false, true, context.Canceled, 0
	}
	if result.Failed {
		result.Judge(c.Dependency())
	}
}

// FuzzVerdict runs random call trees with random outcomes, and compares what each root says about its answer, and the
// tokens that it gives back, with the reference.
func FuzzVerdict(f *testing.F) {
	catalog, err := profiles.Load([]byte(treeCatalog), "tree")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{3})
	f.Add([]byte{3, 32, 4 + 16 + 3, 0, 1, 12})                                     // a call to a hop that fails
	f.Add([]byte{2, 33, 4 + 16 + 2, 4, 1, 32, 4 + 16, 0, 1, 12, 1, 12})            // no policy next to the cause
	f.Add([]byte{1, 97, 19, 0, 1, 12, 7, 1, 2, 84, 2, 5, 12})                      // three calls
	f.Add([]byte{3, 64 + 1, 16 + 1, 0, 0, 4 + 16 + 1, 0, 2})                       // a write, then a failure
	f.Add([]byte{0, 32, 4 + 16 + 1, 0, 1, 32, 4 + 16 + 1, 2, 1, 28, 255, 254, 77}) // without tokens, overloaded
	f.Add([]byte{3, 33, 4 + 16 + 1, 0, 7})                                         // canceled
	f.Fuzz(func(t *testing.T, data []byte) { runTree(t, catalog, data) })
}

// TestVerdict_random_trees is what FuzzVerdict does, on trees drawn at random.
func TestVerdict_random_trees(t *testing.T) {
	catalog, err := profiles.Load([]byte(treeCatalog), "tree")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 11))
	claims := map[string]int{}
	for range 3000 {
		data := make([]byte, 1+random.IntN(120))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		a := runTree(t, catalog, data)
		claims[fmt.Sprintf("%s, depth %d", a.claim, a.depth)]++
		if t.Failed() {
			t.Fatalf("data %v", data)
		}
	}
	t.Log(claims)
	for _, kind := range []string{"none, depth 0", "claimed, depth 0", "claimed, depth 2", "unclaimed, depth 2", "stop, depth 1", "unclaimed, depth 3"} {
		if claims[kind] == 0 {
			t.Errorf("no tree ends %s", kind)
		}
	}
}

// runTree runs the tree that the bytes describe and compares it with the reference.
func runTree(t *testing.T, catalog *profiles.Catalog, data []byte) (want refAnswer) {
	t.Helper()
	if len(data) == 0 || len(data) > 256 {
		return refAnswer{}
	}
	tokens := int(data[0]) % 5
	plan := planOf(data[1:])
	want = plan.reference(tokens)
	run := &treeRun{t: t, catalog: catalog, sdks: map[*hopPlan]*SDK{}}
	line, failed := run.serve(plan, otelprop.Request{
		State: otelprop.Valid, Direct: true, Grant: uint8(tokens), Limit: uint8(tokens), Hop: 1, Nonce: 7, Entry: "edge", Attempt: 1,
	})
	ret, ok, _ := otelprop.ReadReturn([]string{line}, 7, tokens)
	if !ok {
		t.Fatalf("the return %q is not read", line)
	}
	got := refAnswer{
		failed: failed, effects: ret.Effects, left: int(ret.Returned),
		refFailure: refFailure{claim: ret.Claim.String(), owner: ret.Owner, depth: int(ret.Depth)},
	}
	if !want.failed {
		want.claim = "none"
	}
	if got != want {
		t.Errorf("got %+v, want %+v, by %s", got, want, describe(plan, ""))
	}
	return want
}

// describe prints a plan.
func describe(p *hopPlan, indent string) string {
	s := fmt.Sprintf("\n%s%s fails %t overloaded %t exact %t idempotent %t", indent, p.name(), p.fails, p.overloaded, p.exact, p.idempotent)
	for i, c := range p.calls {
		s += fmt.Sprintf("\n%s  %s attempts %d idempotent %t replayable %t open %t closed %t tolerated %t:", indent, p.dependency(i),
			c.attempts, c.idempotent, c.replayable, c.open, c.closed, c.tolerated)
		for _, a := range c.answers {
			s += fmt.Sprintf(" %d", a.kind)
			if a.hop != nil {
				s += describe(a.hop, indent+"    ")
			}
		}
	}
	return s
}

// page is the route of all requests.
type page struct{}

func (page) Operation() string { return "GET /page" }
