package stormlab_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget/stormlab"
	"github.com/chainbudget/chainbudget-go/profiles"
)

const edges = `caller,callee,calls
# of our gateway
Web Shop,cart
Web Shop,search,0.25
cart, ledger, 2
cart,stock,1.5
search,stock
search,stock,2
`

// A list of calls becomes a scenario that loads and runs.
func TestDraft(t *testing.T) {
	text, err := stormlab.Draft(strings.NewReader(edges), "edges.csv")
	require.NoError(t, err)
	s, err := stormlab.Load(text, "draft.yaml")
	require.NoError(t, err)
	calls := map[string][]stormlab.Call{}
	for _, service := range s.Services {
		calls[service.Name] = service.Calls
	}
	assert.Equal(t, map[string][]stormlab.Call{
		"web-shop": {{To: "cart"}, {To: "search", Share: .25}},
		"cart":     {{To: "ledger", Times: 2}, {To: "stock"}, {To: "stock", Share: .5}},
		"search":   {{To: "stock", Times: 3}},
		"ledger":   nil, "stock": nil,
	}, calls)
	assert.Equal(t, []stormlab.Traffic{{To: "web-shop", Rate: 100}}, s.Traffic)
	assert.Equal(t, "stock", s.Faults[0].Service, "two ways lead there")
	r := run(t, s)
	assert.True(t, r.Pass(), "a draft keeps its own thresholds")
	assert.Greater(t, r.Variants[1].Success, r.Variants[0].Success+.2, "its storm outlives the fault, and not with the SDK")
}

func TestDraft_names_what_is_wrong(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"no_call":    {"a\n", "e.csv:1:1: is no call; write caller,callee or caller,callee,calls"},
		"no_name":    {"a,b\n,c\n", "e.csv:2:1: is no call; "},
		"no_number":  {"a,b,many\n", `e.csv:1:5: "many" is no number of calls; write a number above 0, up to 1000`},
		"not_finite": {"a,b,NaN\n", `"NaN" is no number of calls`},
		"circle":     {"a,b\nb,c\nc,b\n", "e.csv:3:1: the calls go in a circle: b -> c -> b; remove one of them"},
		"itself":     {"a,a\n", "e.csv:1:1: \"a\" calls itself; remove the line, or give one of the two another name"},
		"empty":      {"", "e.csv:1:1: there is no call; write one line for each: caller,callee"},
		"quotes":     {"a,\"b\n", "e.csv:"},
		"long_name":  {"a," + strings.Repeat("b", 30) + "\n", "e.csv:1:1: \"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\" is too long for the name of a service; use 1 to 24 of a-z"},
		"many_calls": {"a,b,600\na,c\na,b,600\n", `e.csv:3:1: 1200 calls of "b" for each request at "a", with the lines above; use up to 1000 together`},
		"large":      {strings.Repeat("a,b\n", 300_000), "e.csv:1:1: the file is larger than 1048576 bytes; shorten it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := stormlab.Draft(strings.NewReader(tt.text), "e.csv")
			require.Error(t, err)
			assert.Contains(t, err.Error(), tt.want)
		})
	}
}

// All lines that are wrong are named at once, and nothing that nobody wrote.
func TestDraft_names_all_lines(t *testing.T) {
	_, err := stormlab.Draft(strings.NewReader("a,b\nb,a\nc,d\nd,d\nd,e,no\ne,c\nd,e\nD,d\n"), "e.csv")
	bad := new(profiles.CatalogError)
	require.True(t, errors.As(err, &bad), "%v", err)
	var lines []int
	for _, p := range bad.Problems {
		lines = append(lines, p.Line)
	}
	assert.Equal(t, []int{2, 4, 5, 6, 8}, lines, "%v", err)
	assert.NotContains(t, err.Error(), "write it as")
}

// Drafting is bounded and never panics, and what it makes always loads.
func FuzzDraft(f *testing.F) {
	f.Add(edges)
	f.Add("a,b\nb,a\n")
	f.Add("\"a\nb\",c,1e3\n")
	f.Fuzz(func(t *testing.T, text string) {
		made, err := stormlab.Draft(strings.NewReader(text), "e.csv")
		if err != nil {
			return
		}
		_, err = stormlab.Load(made, "draft.yaml")
		require.NoError(t, err)
	})
}

// Reading a scenario is bounded and never panics, and what loads is valid.
func FuzzLoad(f *testing.F) {
	f.Add(everyKey)
	f.Add(small)
	f.Add("version: 1\nservices: [[]]\ntraffic: {to: a}\nvariants: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := stormlab.Load([]byte(text), "s.yaml")
		if err == nil {
			require.NoError(t, s.Validate())
		}
	})
}
