package profiles_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// docs/review.md quotes what a comparison says, and names reasons: both must be there.
func TestReview_quotes_what_is_said(t *testing.T) {
	data, err := os.ReadFile("../docs/review.md")
	require.NoError(t, err)
	document := string(data)

	load := func(text string) *profiles.Catalog {
		c, err := profiles.Load([]byte("version: 1\ndependencies: {X: {profile: p}}\nprofiles: {p: "+text+"}\n"), "catalog")
		require.NoError(t, err)
		return c
	}
	var said strings.Builder
	for _, c := range profiles.Diff(load("{extends: no-retry}"), load("{extends: background, budget: {fund: requests}, breaker: {min_requests: 5}}")) {
		said.WriteString(strings.Join(c.Means, "\n") + "\n")
	}
	_, table, found := strings.Cut(document, "| sentence | what to ask |\n|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table + "\n") {
		sentence := strings.TrimSpace(strings.Split(line, "|")[1])
		assert.Contains(t, said.String(), sentence)
	}
	assert.Contains(t, said.String(), "so they go on")

	reasons := map[string]bool{}
	for _, r := range ownership.Reasons() {
		reasons[r.String()] = true
	}
	named := regexp.MustCompile(`Denied\["([a-z_]+)"\]`).FindAllStringSubmatch(document, -1)
	require.NotEmpty(t, named)
	for _, m := range named {
		assert.True(t, reasons[m[1]], m[0])
	}
}
