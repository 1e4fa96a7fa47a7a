package rpc

import (
	"math/big"
	"strings"
	"testing"
)

// FuzzCounters reads what meshes and servers write into their counters: a number of ASCII digits counts at its value, and
// nothing else counts.
func FuzzCounters(f *testing.F) {
	for _, s := range []string{"", "0", "1", "2", "02", "-1", "+2", "1.5", "1000", "1001", "18446744073709551617", "٢", "2,1", " 2"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, value string, limit int) {
		limit = int(uint(limit) % 1000)
		n, isNumber := new(big.Int).SetString(value, 10)
		isNumber = isNumber && strings.Trim(value, "0123456789") == ""
		want := isNumber && n.Cmp(big.NewInt(int64(limit))) > 0
		for _, values := range [][]string{{value}, {"", value}, {value, "x"}} {
			if got := Above(values, limit); got != want {
				t.Fatalf("Above(%q, %d) = %t", values, limit, got)
			}
		}
		hint, ok, never := Pushback([]string{value})
		if hint < 0 || ok == never || never && hint != 0 {
			t.Fatalf("Pushback(%q) = %v, %t, %t", value, hint, ok, never)
		}
		if isNumber && (n.IsInt64() != ok) || strings.HasPrefix(value, "-") && n != nil && n.Sign() < 0 && ok {
			t.Fatalf("Pushback(%q) = %v, %t, %t", value, hint, ok, never)
		}
	})
}

// FuzzPattern reads patterns of methods: what is taken matches without an error, and a plain name matches itself.
func FuzzPattern(f *testing.F) {
	for _, s := range [][2]string{{"/shop.Catalog/*", "/shop.Catalog/Get"}, {"shop.Catalog/Get*", "/shop.Catalog/GetItem"}, {"[", "/["}, {"", "/"}, {"/", ""}, {"\\", "\\"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, text, method string) {
		p, err := Pattern(text)
		if err != nil {
			if p != "" || len(err.Error()) > 800 || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: %q, %v", text, p, err)
			}
			return
		}
		if again, err := Pattern(p); err != nil || again != p {
			t.Fatalf("%q became %q, and that %q, %v", text, p, again, err)
		}
		if !strings.ContainsAny(p, "*?[\\") && !Listed(p, []string{p}) {
			t.Fatalf("%q does not match itself", p)
		}
		Listed(method, []string{p})
		if Probe(method) && !strings.HasPrefix(strings.TrimPrefix(method, "/"), "grpc.") {
			t.Fatalf("%q is taken for a probe", method)
		}
	})
}
