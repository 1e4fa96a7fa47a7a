package profiles

import (
	"net/netip"
	"strings"
	"testing"
)

// FuzzHosts reads patterns of the catalog, and hosts of requests: a pattern that is taken is found by its own host, in
// any case and with a dot at the end, and what is no host, or a public address, is never internal by default.
func FuzzHosts(f *testing.F) {
	for _, s := range [][2]string{{"payments.internal", "payments.internal:443"}, {"*.corp.example.com", "a.b.corp.example.com"},
		{"10.0.0.7:8080", "10.0.0.7:8080"}, {"[fd00::1]:80", "[FD00::1]:80"}, {"fd00::1", "fd00::1%eth0"}, {"::ffff:10.0.0.1", "10.0.0.1"},
		{"xn--bcher-kva.example", "bücher.example"}, {"*", "*."}, {"a..b", "."}, {"134744072", "0x8.8.8.8"}, {"[", "]:"}, {"a:0", "a:65536"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, host string) {
		builtin := Builtin()
		internal := builtin.Internal(host)
		if addr, err := netip.ParseAddr(host); err == nil && internal && !addr.Unmap().IsPrivate() && !addr.Unmap().IsLoopback() {
			t.Fatalf("%q is internal", host)
		}
		// The zone of an address is whatever the machine calls its interfaces.
		if name, _, _ := strings.Cut(host, "%"); internal && strings.ContainsAny(name, " /@,;?#\\") {
			t.Fatalf("%q is internal", host)
		}
		p, what := parseHostPattern(pattern)
		if (what == "") != (p != hostPattern{}) && what == "" {
			t.Fatalf("%q: neither a pattern nor a reason", pattern)
		}
		if len(what) > 200 {
			t.Fatalf("%q: the reason has %d bytes", pattern, len(what))
		}
		if what != "" {
			return
		}
		c := new(Catalog)
		if holder, taken := c.hosts.add(p, "payments"); taken {
			t.Fatalf("taken by %q in an empty catalog", holder)
		}
		if _, taken := c.hosts.add(p, "ledger"); !taken {
			t.Fatalf("%q is taken twice", pattern)
		}
		own := strings.Replace(pattern, "*", "a", 1)
		for _, spelling := range []string{own, strings.ToUpper(own), strings.ToLower(own)} {
			if name, ok := c.DependencyForHost(spelling); !ok || name != "payments" {
				t.Fatalf("%q: %q is not found", pattern, spelling)
			}
		}
		again, what := parseHostPattern(map[bool]string{true: "*", false: ""}[p.suffix] + p.key())
		if what != "" || again != p {
			t.Fatalf("%q is spelled %q, and read as %+v, %s", pattern, p.key(), again, what)
		}
		c.DependencyForHost(host)
	})
}
