package otelprop

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func readDocument(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("WIRE.md")
	require.NoError(t, err)
	return string(b)
}

// TestDocument_Limits holds the table of limits in WIRE.md against the constants.
func TestDocument_Limits(t *testing.T) {
	want := map[string]string{}
	for name, value := range map[string]int{
		"MaxMember": MaxMember, "MaxHeader": MaxHeader, "MaxReturn": MaxReturn, "MaxHeaderLines": MaxHeaderLines,
		"MaxBaggageMembers": MaxBaggageMembers, "MaxBaggageBytes": MaxBaggageBytes, "MaxTokens": MaxTokens, "MaxHop": MaxHop,
		"MaxAttempt": MaxAttempt, "MaxTimeoutMillis": MaxTimeoutMillis, "MaxEntry": MaxEntry, "MaxOwner": MaxOwner,
		"MaxCaller": MaxCaller, "MaxProfile": MaxProfile, "DigestLen": DigestLen,
	} {
		want[name] = fmt.Sprint(value)
	}
	doc := readDocument(t)
	got := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\d+) \\|").FindAllStringSubmatch(doc, -1) {
		got[row[1]] = row[2]
	}
	assert.Equal(t, want, got)
	assert.Contains(t, doc, fmt.Sprintf("%d bytes as a member, %d as a header, %d as a return",
		len(MemberKey)+len("=")+maxCore, maxCore+maxParams, maxReturn))
	assert.Contains(t, doc, fmt.Sprintf("keeps %d bytes free", MaxMember-len(MemberKey)-len("=")-maxCore))
}

// TestDocument_Examples reads the example lines of WIRE.md.
func TestDocument_Examples(t *testing.T) {
	lines := map[string][]string{}
	for _, l := range regexp.MustCompile(`(?m)^    ([a-z-]+): (v1\S*|chainbudget=\S*)$`).FindAllStringSubmatch(readDocument(t), -1) {
		lines[l[1]] = append(lines[l[1]], l[2])
	}
	got, rejects := ReadRequest(lines[BaggageHeader], lines[RequestHeader], 3)
	assert.Equal(t, ordinaryRequest, got)
	assert.Zero(t, rejects)
	ret, ok, _ := ReadReturn(lines[ReturnHeader], ordinaryRequest.Nonce, 2)
	assert.True(t, ok)
	assert.Equal(t, "ledger", ret.Owner)
	assert.Equal(t, strings.Join(lines[ReturnHeader], ""), string(ret.Append(nil)))
}
