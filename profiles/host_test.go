package profiles

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDependencyForHost(t *testing.T) {
	c := mustLoad(t, `
version: 1
dependencies:
  exact: {hosts: [payments.internal, Orders.Internal.]}
  port: {hosts: ["payments.internal:8443", "[fd00::1]:80", "*.shop.example.com:81"]}
  wide: {hosts: ["*.example.com"]}
  narrow: {hosts: ["*.shop.example.com"]}
  one: {hosts: [cart.shop.example.com, 10.0.0.7, "::1", xn--bcher-kva.example]}
`)
	for host, want := range map[string]string{
		"payments.internal":        "exact",
		"payments.internal:80":     "exact",
		"payments.internal:8443":   "port",
		"payments.internal:https":  "exact",
		"payments.internal:@evil":  "",
		"PAYMENTS.internal:8443":   "port",
		"Payments.Internal.":       "exact",
		"orders.internal":          "exact",
		"a.payments.internal":      "",
		"payments.internal.evil":   "",
		"example.com":              "",
		"a.example.com":            "wide",
		"a.b.example.com:80":       "wide",
		"shop.example.com":         "wide",
		"A.Shop.example.com":       "narrow",
		"b.a.shop.example.com":     "narrow",
		"b.a.shop.example.com:81":  "port",
		"cart.shop.example.com:81": "port", // more is said about it
		"cart.shop.example.com":    "one",
		"10.0.0.7":                 "one",
		"10.0.0.7:9":               "one",
		"[::ffff:10.0.0.7]:9":      "one",
		"[::1]:443":                "one",
		"::1":                      "one",
		"[0:0:0:0:0:0:0:1]":        "one",
		"[fd00::1]:80":             "port",
		"[fd00::1]:81":             "",
		"fd00::1":                  "",
		"xn--bcher-kva.example":    "one",
		"":                         "",
		".":                        "",
		":80":                      "",
		"[":                        "",
		"[]":                       "",
		"[::1":                     "",
		"[::1]x":                   "",
	} {
		got, ok := c.DependencyForHost(host)
		require.Equal(t, want, got, host)
		require.Equal(t, want != "", ok, host)
	}
	_, ok := Builtin().DependencyForHost("payments.internal")
	require.False(t, ok)
	for _, host := range []string{"payments.internal:8443", "A.Shop.example.com", "nothing.of.ours.org", "b.a.shop.example.com:81"} {
		require.Zero(t, testing.AllocsPerRun(100, func() { c.DependencyForHost(host) }), host)
	}
}

func TestInternal_by_default(t *testing.T) {
	c := Builtin()
	for host, want := range map[string]bool{
		"payments": true, "payments:80": true, "PAYMENTS": true, "localhost": true, "my_service": true, "payments:": true,
		"payments.default.svc": true, "payments.default.svc.cluster.local": true, "db.internal": true, "db.INTERNAL.:80": true,
		"127.0.0.1": true, "127.9.9.9:80": true, "::1": true, "[::1]:80": true,
		"10.1.2.3": true, "172.16.0.1": true, "172.31.255.255": true, "192.168.1.1": true, "fd12::1": true, "[fd12::1]:80": true,
		"[::ffff:10.0.0.1]:80": true,

		"example.com": false, "payments.svc.example.com": false, "internal.example.com": false, "evilinternal.com": false,
		"8.8.8.8": false, "172.32.0.1": false, "11.0.0.1": false, "169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false,
		"[fe80::1%25eth0]:80": false, "2001:db8::1": false, "0.0.0.0": false, "::": false,
		"": false, ".": false, ".internal": false, "134744072": false, "0x08080808": false, "8.8.8.08": false, "1.1": false,
		"a b": false, "user@host": false, "a/b": false, "[": false, "::1%": false, "::ffff:8.8.8.8": false,
		"payments:https": true, "payments: 80": false, "payments:80@evil.example": false, "10.1.2.3:/": false, "[::1]:80 ": false, "payments:٨": false,
	} {
		require.Equal(t, want, c.Internal(host), host)
	}
	for _, host := range []string{"payments", "payments.default.svc.cluster.local:80", "example.com", "10.1.2.3:80", "[fd12::1]:80"} {
		require.Zero(t, testing.AllocsPerRun(100, func() { c.Internal(host) }), host)
	}
}

func TestInternal_list_replaces_the_default(t *testing.T) {
	c := mustLoad(t, `
version: 1
internal_hosts: ["*.corp.example.com", gateway, "vip.example.com:8443", 10.0.0.0/8, "fd00::/8", 192.168.0.9]
`)
	for host, want := range map[string]bool{
		"a.corp.example.com": true, "A.B.corp.example.com:1": true, "gateway": true, "Gateway:80": true, "vip.example.com:8443": true,
		"10.200.0.1:80": true, "[fd01::1]:80": true, "[fd01::1%25eth0]": true, "192.168.0.9": true, "[::ffff:10.0.0.1]": true,
		"corp.example.com": false, "payments": false, "db.internal": false, "vip.example.com": false, "127.0.0.1": false,
		"192.168.0.8": false, "::1": false, "": false,
	} {
		require.Equal(t, want, c.Internal(host), host)
	}
	none := mustLoad(t, "version: 1\ninternal_hosts: []\n")
	require.False(t, none.Internal("payments"), "an empty list is a list")
}

func request(method, target string) *http.Request { return httptest.NewRequest(method, target, nil) }

func TestService_budget_by_route(t *testing.T) {
	c := mustLoad(t, `
version: 1
chain: {max_budget: 10}
services:
  checkout:
    routes:
      "POST /checkout": {budget: 2}
      "/": {budget: 1}
      "GET /orders/{id}": {budget: 5}
      "/tree/": {budget: 7}
      "/payments.Ledger/Book": {budget: 0}
  quiet: {}
`)
	s := c.Service("checkout")
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{"POST", "/checkout", 2}, {"GET", "/checkout", 1}, {"GET", "/orders/7", 5}, {"HEAD", "/orders/7", 5}, {"DELETE", "/orders/7", 1},
		{"GET", "/tree/a/b", 7}, {"GET", "/nothing", 1}, {"POST", "/payments.Ledger/Book", 0}, {"GET", "/orders//7", 5},
	} {
		got, ok := s.Budget(request(tt.method, tt.path))
		require.True(t, ok, tt.path)
		require.Equal(t, tt.want, got, tt.method+" "+tt.path)
	}
	for _, s := range []*Service{nil, c.Service("quiet"), c.Service("stranger"), {}} {
		_, ok := s.Budget(request("GET", "/"))
		require.False(t, ok)
		require.False(t, s.IdempotentRequest(request("GET", "/")))
	}
	_, ok := s.Budget(nil)
	require.False(t, ok)
	_, ok = s.Budget(&http.Request{})
	require.False(t, ok)

	quiet, r := c.Service("quiet"), request("GET", "/")
	require.Zero(t, testing.AllocsPerRun(100, func() { quiet.Budget(r) }))
}

func TestService_idempotent_operations(t *testing.T) {
	c := mustLoad(t, "version: 1\nservices: {a: {idempotent: [\"PUT /orders/{id}\", \"/payments.Ledger/Read\"]}}\n")
	s := c.Service("a")
	require.True(t, s.IdempotentRequest(request("PUT", "/orders/1")))
	require.True(t, s.IdempotentRequest(request("POST", "/payments.Ledger/Read")))
	require.False(t, s.IdempotentRequest(request("POST", "/orders/1")))
	require.False(t, s.IdempotentRequest(request("PUT", "/orders/1/items")))

	// For this one ServeMux names a path to redirect to, and no pattern.
	tree := mustLoad(t, "version: 1\nservices: {a: {idempotent: [\"/tree/{id}/\"]}}\n").Service("a")
	require.False(t, tree.IdempotentRequest(&http.Request{Method: "CONNECT", URL: &url.URL{Path: "/tree/a"}}))
	require.True(t, tree.IdempotentRequest(request("GET", "/tree/a/b")))
}

func TestService_failure_statuses(t *testing.T) {
	c := mustLoad(t, "version: 1\nservices: {a: {failure_statuses: [503, 404]}}\n")
	for _, s := range []*Service{nil, c.Service("stranger"), {}} {
		for status, want := range map[int]bool{200: false, 404: false, 429: true, 499: false, 500: true, 599: true, 600: false} {
			require.Equal(t, want, s.Failure(status), status)
		}
	}
	a := c.Service("a")
	require.Equal(t, []int{404, 503}, a.FailureStatuses)
	require.True(t, a.Failure(404))
	require.False(t, a.Failure(500))
	require.False(t, a.Failure(429))
}
