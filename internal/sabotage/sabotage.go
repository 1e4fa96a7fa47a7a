package sabotage

import (
	"context"
	"slices"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/internal/member"
)

// Sabotage is one way to break an adapter. What is on the wire the adapter's own tests break, in its protocol's way.
type Sabotage struct {
	// Client stands around the client side, Handle inside the server side, and Server changes what is asked of that.
	Client func(chainbudgettest.Client) chainbudgettest.Client
	Handle func(chainbudgettest.Handler) chainbudgettest.Handler
	Server func(*chainbudgettest.Server)
	// Outsiders says that clients without the SDK are broken, too.
	Outsiders bool

	// Sent changes the headers of each attempt, Got those of its answer before the client side sees it. Attempt stands
	// around each.
	Sent, Got func(member.Headers)
	Attempt   func(ctx context.Context, send func(context.Context) error) error
	// Came changes the headers of a request before the server side sees it, Told those of the answer as it goes out.
	Came, Told func(member.Headers)
}

// apply breaks what is not on the wire.
func (s Sabotage) apply(a chainbudgettest.Adapter) chainbudgettest.Adapter {
	serve, dial := a.Serve, a.Dial
	a.Serve = func(t testing.TB, srv chainbudgettest.Server) string {
		if srv.SDK != nil && s.Server != nil {
			s.Server(&srv)
		}
		if srv.SDK != nil && s.Handle != nil {
			srv.Handle = s.Handle(srv.Handle)
		}
		return serve(t, srv)
	}
	a.Dial = func(t testing.TB, l chainbudgettest.Link) chainbudgettest.Client {
		client := dial(t, l)
		if s.Client != nil && (l.Dependency != nil || s.Outsiders) {
			client = s.Client(client)
		}
		return client
	}
	return a
}

// Find holds the suite to its word: each case goes red when what it is about is broken. adapter describes a broken adapter:
// with streams for the cases that need them, else with unary calls. Cases that neither can run are left out.
func Find(t *testing.T, adapter func(s Sabotage, streams bool) chainbudgettest.Adapter) {
	release := make(chan struct{})
	defer close(release)
	table := sabotages(release)
	for _, c := range chainbudgettest.Cases() {
		broken, ok := table[c.Name]
		delete(table, c.Name)
		a := broken.apply(adapter(broken, slices.Contains(c.Needs, chainbudgettest.Streams)))
		if slices.ContainsFunc(c.Needs, func(need chainbudgettest.Capability) bool { _, lacks := a.Lacks[need]; return lacks }) {
			continue
		}
		if !ok {
			t.Errorf("nobody sabotages %s", c.Name)
			continue
		}
		failure := Attempted(t, c, a)
		if failure == "" {
			t.Errorf("%s does not notice its sabotage", c.Name)
		}
		t.Logf("%s: %.160s", c.Name, failure)
	}
	for name := range table {
		t.Errorf("%s is sabotaged, and is no case", name)
	}
}
