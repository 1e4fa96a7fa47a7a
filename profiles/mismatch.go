package profiles

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mismatch is what a service has found out about one of its callers: it calls with another profile than the catalog pins
// for what the service serves.
type Mismatch struct {
	Caller  string // the calling service, as it names itself; "other" stands for those beyond the bound
	Profile Name   // what it uses
	Digest  string // of that: 8 hex digits, see [Profile.Digest]

	Dependencies []string // what the service serves
	Want         []string // what is pinned for those, in the same order, each as "name@digest"

	// Older says that the caller uses what the catalog said before, so lately that it counts as late and not as divergent;
	// see Chain.Grace. AgreedSince says that it uses what the service's catalog demands by now: the caller was first.
	Older, AgreedSince bool

	Requests    int64     // that came so; attempts, each counted
	First, Last time.Time // when

	// Differences lists the settings that differ, such as "retry.max_attempts: 6, pinned 2", where the caller's profile is
	// one that this service's catalog has, now or until the last change. Of another one only its digest is known.
	Differences []string
}

// String says on one line who diverges, and how.
func (m Mismatch) String() string {
	var b strings.Builder
	b.WriteString("caller " + quote(m.Caller) + " uses " + clip(string(m.Profile), maxText) + "@" + clip(m.Digest, maxText) + " for ")
	for i, d := range m.Dependencies {
		if i > 0 {
			b.WriteString(" or ")
		}
		b.WriteString(quote(d))
		if i < len(m.Want) {
			b.WriteString(" (pinned: " + clip(m.Want[i], maxText) + ")")
		}
	}
	switch {
	case m.AgreedSince:
		b.WriteString(": by now both agree")
	case m.Older:
		b.WriteString(": an older catalog")
	case len(m.Differences) > 0:
		b.WriteString(": " + clip(strings.Join(m.Differences, "; "), maxText))
	default:
		b.WriteString(": a profile that this catalog does not have, perhaps an edited copy")
	}
	b.WriteString(", in " + strconv.FormatInt(m.Requests, 10) + " request")
	if m.Requests != 1 {
		b.WriteByte('s')
	}
	return b.String()
}

// Differences lists the settings in which p differs from pinned, by key, such as "retry.max_attempts: 6, pinned 2". It is
// empty if, and only if, both have the same digest.
func (p *Profile) Differences(pinned *Profile) []string {
	var list []string
	own, other := p.settings(), pinned.settings()
	for i, s := range own {
		if s == other[i] {
			continue
		}
		key, value, _ := strings.Cut(s, "=")
		_, want, _ := strings.Cut(other[i], "=")
		list = append(list, key+": "+readable(key, value)+", pinned "+readable(key, want))
	}
	return slices.Clip(list)
}

// readable turns nanoseconds, the canonical form of durations, into what a catalog would say.
func readable(key, value string) string {
	if value == "" {
		return "none"
	}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && isDuration[key[strings.LastIndexByte(key, '.')+1:]] {
		return time.Duration(n).String()
	}
	return value
}

var isDuration = map[string]bool{
	"base": true, "throttled_base": true, "cap": true, "window": true, "open_for": true, "probe_timeout": true, "slow_call": true,
	"ttl": true, "after": true, "attempt_timeout": true, "timeout": true,
}
