package chainbudget

import (
	"net/http"

	"github.com/chainbudget/chainbudget-go/internal/livepage"
)

// DebugHandler returns a page that shows, for people and as JSON (?format=json, or Accept: application/json), what the SDK does
// now: dependencies with their effective profile and its origin, breakers, budgets, denials, claims, edges, callers with other
// profiles, the catalog, plots of the last minutes, and the last 100 retries and refusals with their chains. It answers GET
// and HEAD at every path, changes nothing, and loads nothing from elsewhere. Mount it where only operators come, such as a
// port of its own: it names routes, dependencies and callers. docs/live-page.md in the repository describes the JSON.
//
// The first call makes the SDK begin to sample its numbers once a second and to note retries and refusals, until [SDK.Close]: at most
// 1 MB, and nothing for a first attempt. Without a call nothing of that exists. The page of a nil or zero SDK says that there
// is none.
func (s *SDK) DebugHandler() http.Handler { return livepage.New(s.engine(), false) }

// SwitchHandler returns the switch of this process's retries. POST turns it, with a form or a JSON object: dependency is a name or
// "all", retries is "disabled", "enabled" or "catalog". GET is the page of [SDK.DebugHandler] with buttons that do so.
// Whoever reaches it can turn it: mount it behind an authorization of your own. It refuses what a browser sends for another
// origin's page, and nothing else.
//
// A turn is in force at once, also for calls that wait to retry, in this process only, and until the next turn or the
// process's end: a change of the catalog does not undo it. "enabled" holds against "retries: disabled" in the catalog,
// "catalog" gives the decision back to it. A turn for "all" ends those for one dependency, and counts for dependencies to
// come; a dependency that is called "all" is one like any other, and then there is no turn for all. [Dependency.Explain]
// and the page say what was turned, and when. slog.Default is told of each turn.
func (s *SDK) SwitchHandler() http.Handler { return livepage.NewSwitch(s.engine()) }
