package livepage

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// luminance is the relative luminance of WCAG 2.
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 32)
	require.NoError(t, err, color)
	channel := func(shift int) float64 {
		c := float64(n>>shift&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(16) + 0.7152*channel(8) + 0.0722*channel(0)
}

func contrast(t *testing.T, one, other string) float64 {
	a, b := luminance(t, one), luminance(t, other)
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}

// TestStyle_has_enough_contrast in both schemes: 4.5 for text, 3 for lines of plots, as WCAG 2 AA asks.
func TestStyle_has_enough_contrast(t *testing.T) {
	assert.InDelta(t, 21, contrast(t, "#ffffff", "#000000"), 0.01)
	assert.InDelta(t, 4.54, contrast(t, "#ffffff", "#767676"), 0.01)
	light, rest, ok := strings.Cut(style, "@media (prefers-color-scheme: dark)")
	require.True(t, ok)
	dark, _, _ := strings.Cut(rest, "* {")
	variable := regexp.MustCompile(`--([a-z]+): (#[0-9a-f]{6});`)
	for scheme, text := range map[string]string{"light": light, "dark": dark} {
		colors := map[string]string{}
		for _, m := range variable.FindAllStringSubmatch(text, -1) {
			colors[m[1]] = m[2]
		}
		require.Len(t, colors, 13, scheme)
		for _, ground := range []string{"paper", "raised"} {
			for _, ink := range []string{"ink", "soft", "link", "good", "bad", "warn"} {
				assert.GreaterOrEqual(t, contrast(t, colors[ink], colors[ground]), 4.5, "%s: %s on %s", scheme, ink, ground)
			}
		}
		for _, line := range []string{"attempts", "failures", "retries", "denials"} {
			assert.GreaterOrEqual(t, contrast(t, colors[line], colors["paper"]), 3.0, "%s: %s", scheme, line)
		}
	}
	for _, name := range regexp.MustCompile(`var\(--([a-z]+)\)`).FindAllStringSubmatch(style, -1) {
		assert.Contains(t, light, "--"+name[1]+":")
	}
	assert.NotRegexp(t, `url\(|@import`, style, "nothing is loaded")
}
