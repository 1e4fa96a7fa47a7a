package chainbudgettest

import (
	"net/http"
	"strings"
	"testing"
)

// A capability that an adapter forgets to mention must not leave cases out.
func TestAdapter_says_what_it_lacks(t *testing.T) {
	serve := func(testing.TB, Server) string { return "" }
	dial := func(testing.TB, Link) Client { return nil }
	transport := func(testing.TB, Link) (http.RoundTripper, string) { return nil, "" }
	both := map[Capability]string{ReturnsInHeader: "why", ReturnsInTrailer: "why"}
	for name, tt := range map[string]struct {
		adapter Adapter
		want    []string
	}{
		"all_well":         {Adapter{Name: "a", Serve: serve, Dial: dial, Transport: transport, Lacks: map[Capability]string{ReturnsInTrailer: "why"}}, nil},
		"nothing_said":     {Adapter{}, []string{"Name is empty", "Serve and Dial", "has a Transport", "either in the header or in the trailer"}},
		"no_return_at_all": {Adapter{Name: "a", Serve: serve, Dial: dial, Transport: transport, Lacks: both}, []string{"either in the header"}},
		"unknown":          {Adapter{Name: "a", Serve: serve, Dial: dial, Transport: transport, Lacks: map[Capability]string{ReturnsInHeader: "why", "wings": "why"}}, []string{`"wings", which is no capability`}},
		"no_reason":        {Adapter{Name: "a", Serve: serve, Dial: dial, Transport: transport, Lacks: map[Capability]string{ReturnsInHeader: ""}}, []string{"says nothing about"}},
		"two_words":        {Adapter{Name: "a", Serve: serve, Dial: dial, Transport: transport, Lacks: map[Capability]string{ReturnsInHeader: "why", NetHTTP: "why"}}, []string{"has a Transport"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.adapter.problems()
			if len(got) != len(tt.want) {
				t.Errorf("problems %q, want %d", got, len(tt.want))
			}
			for _, want := range tt.want {
				if !strings.Contains(strings.Join(got, "\n"), want) {
					t.Errorf("the problems %q do not say %q", got, want)
				}
			}
		})
	}
}

func TestCases_are_told_apart(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if c.Name == "" || seen[c.Name] || c.Checks == "" || c.check == nil {
			t.Errorf("case %q (%q) has no name of its own, no sentence or no check", c.Name, c.Checks)
		}
		seen[c.Name] = true
	}
}
