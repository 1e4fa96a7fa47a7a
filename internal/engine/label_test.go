package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// labeled makes an SDK with a catalog that lists services and dependencies of those names.
func labeled(t *testing.T, services ...string) (*SDK, func(services ...string)) {
	t.Helper()
	load := func(services []string) *profiles.Catalog {
		var b strings.Builder
		b.WriteString("version: 1\nservices:\n  nobody: {}\n")
		for _, s := range services {
			fmt.Fprintf(&b, "  %q: {}\n", s)
		}
		b.WriteString("dependencies:\n  payments: {profile: write-path}\n")
		c, err := profiles.Load([]byte(b.String()), "catalog.yaml")
		require.NoError(t, err)
		return c
	}
	s := new(SDK)
	s.Init(Config{Service: "Check Out", Catalog: load(services)})
	return s, func(services ...string) { require.NoError(t, s.Swap(load(services))) }
}

func TestLabel_only_declared_names(t *testing.T) {
	long := "a-service-whose-name-is-longer-than-an-entry-may-be"
	s, swap := labeled(t, "Shop Front", "Other", long)
	_, _, err := s.Dependency("Search Index", profiles.ReadHeavy)
	require.NoError(t, err)
	for slug, want := range map[string]string{
		"":           "",
		"shop-front": "shop-front",
		"payments":   "payments",
		"check-out":  "check-out", // its own
		// Of code, not of the catalog.
		"search-index": "search-index",
		// As an entry or an owner, and as a caller.
		otelprop.Slug(long, otelprop.MaxEntry):  otelprop.Slug(long, otelprop.MaxEntry),
		otelprop.Slug(long, otelprop.MaxCaller): otelprop.Slug(long, otelprop.MaxCaller),
		"Shop Front":                            "other", // the wire has slugs only
		"evil":                                  "other",
		"unknown":                               "other",
		"other":                                 "other",
	} {
		assert.Equal(t, want, s.label(slug).name, "%q", slug)
		assert.Same(t, s.label(slug), s.label(slug))
	}
	assert.Same(t, others, s.label("other"), "one series for a service of that name and for all that are not known")
	shop := s.label("shop-front")
	swap("evil")
	assert.Equal(t, "evil", s.label("evil").name)
	assert.Equal(t, "other", s.label("shop-front").name, "the catalog in force no longer lists it")
	assert.Equal(t, "search-index", s.label("search-index").name)
	swap("shop-front")
	assert.Same(t, shop, s.label("shop-front"), "its count goes on")
}

// However often the catalog changes, a process uses no more names, and a dependency no more profiles.
func TestLabel_reloads_are_bounded(t *testing.T) {
	s, swap := labeled(t)
	for i := range 40 {
		var names []string
		for j := range 10 {
			names = append(names, fmt.Sprintf("service-%d-%d", i, j))
		}
		swap(names...)
		for _, name := range names {
			s.label(name)
		}
	}
	assert.Len(t, s.labels.all(), labelSlots)
	assert.Equal(t, "other", s.label("service-39-9").name)
	assert.Equal(t, "check-out", s.label("check-out").name)
	for _, l := range s.labels.all() {
		new(byLabel[claimCounters]).at(l) // has room for each
	}

	var c dependencyCounters
	for i := range 100 {
		c.of(fmt.Sprintf("profile-%d", i)).calls.Add(1)
	}
	c.of("profile-3").calls.Add(1)
	require.Len(t, c.all(), maxProfiles+1)
	assert.EqualValues(t, 2, c.of("profile-3").calls.Load())
	assert.EqualValues(t, 100-maxProfiles, c.of(otherLabel).calls.Load())
}

// A declared name that is used again takes no lock and allocates nothing.
func TestLabel_Allocs_NoRace(t *testing.T) {
	s, _ := labeled(t, "shop")
	var c byLabel[claimCounters]
	for _, slug := range []string{"shop", "check-out", "evil", ""} {
		c.at(s.label(slug))[0].Add(1)
		s.labels.mu.Lock()
		assert.Zero(t, testing.AllocsPerRun(100, func() { c.at(s.label(slug))[0].Add(1) }), "%q", slug)
		s.labels.mu.Unlock()
	}
}
