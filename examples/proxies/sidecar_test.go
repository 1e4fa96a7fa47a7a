package proxies

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

const (
	attemptCount = "X-Envoy-Attempt-Count"
	maxRetries   = "X-Envoy-Max-Retries"
	meshEnvoy    = "dependencies: {ledger: {profile: steady, mesh: envoy}}"
)

// sidecar does with retries what Envoy does and its documentation says: it repeats what was answered with 503 on the next
// instance, up to retries times or as many as the request's own header says, and counts in another header, from 1.
func sidecar(t *testing.T, retries int, instances ...string) string {
	t.Helper()
	base := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(base.CloseIdleConnections)
	repeat := roundTripper(func(r *http.Request) (*http.Response, error) {
		left := retries
		if own := r.Header.Get(maxRetries); own != "" {
			n, err := strconv.Atoi(own)
			if err != nil {
				return nil, err
			}
			left = n
			r.Header.Del(maxRetries)
		}
		for attempt := 1; ; attempt++ {
			r.URL.Host = instances[(attempt-1)%len(instances)]
			r.Header.Set(attemptCount, strconv.Itoa(attempt))
			resp, err := base.RoundTrip(r)
			if err != nil || resp.StatusCode != http.StatusServiceUnavailable || attempt > left {
				return resp, err
			}
			resp.Body.Close()
		}
	})
	target, err := url.Parse("http://" + instances[0])
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{Transport: repeat, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What a sidecar marks as repeated is worth nothing on any instance. What it cannot mark, because another one stands behind
// it and counts from 1 again, is only known where it arrived before.
func TestCounterOfSidecars(t *testing.T) {
	for _, c := range []struct {
		name              string
		instances         int
		behind            bool // another sidecar, which repeats nothing
		mesh              bool // the entry sends its header
		sent              []int
		foreign, repeated int64
		tree              int
	}{
		{name: "one_instance", instances: 1, sent: []int{3, 3}, foreign: 4, repeated: 0, tree: 3},
		{name: "two_instances", instances: 2, sent: []int{3, 3}, foreign: 4, repeated: 0, tree: 3},
		{name: "one_instance_behind_another_sidecar", instances: 1, behind: true, sent: []int{3, 3}, repeated: 2, tree: 3},
		{name: "told_by_the_request", instances: 2, mesh: true, sent: []int{1}, tree: 2},
		{name: "told_by_the_request_behind_another_sidecar", instances: 1, behind: true, mesh: true, sent: []int{1}, tree: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			callee := newInstances(t, c.instances, func(a arrival) error {
				a.call()
				a.w.WriteHeader(http.StatusServiceUnavailable)
				return nil
			})
			addresses := callee.addresses
			if c.behind {
				addresses = []string{sidecar(t, 0, addresses...)}
			}
			var more []string
			if c.mesh {
				more = []string{meshEnvoy}
			}
			e := newEntry(t, sidecar(t, 2, addresses...), more...) // Istio's default
			if resp, err := e.send(t, http.MethodGet); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("the call ends with %v, %v", resp, err)
			}
			if got := callee.sent(); !slices.Equal(got, c.sent) {
				t.Errorf("the attempts arrived %v times, want %v", got, c.sent)
			}
			foreign := callee.total(func(t chainbudget.Totals) int64 { return t.Foreign })
			repeated := callee.total(func(t chainbudget.Totals) int64 { return t.RepeatedGrants })
			if foreign != c.foreign || repeated != c.repeated {
				t.Errorf("%d foreign and %d repeated grants are counted, want %d and %d", foreign, repeated, c.foreign, c.repeated)
			}
			leafRetries := callee.total(func(t chainbudget.Totals) int64 { return t.Dependencies["leaf"].Retries })
			if tree := int(leafRetries + e.ledger().Retries); tree != c.tree {
				t.Errorf("%d retries in the tree, want %d", tree, c.tree)
			}
		})
	}
}

// The header that turns Envoy's retries off stands on the wire, once, for a dependency with `mesh: envoy` and for no other.
func TestMeshEnvoyOnTheWire(t *testing.T) {
	for name, more := range map[string][]string{"mesh": {meshEnvoy}, "no_mesh": nil} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			heads := make(chan string, 1)
			go func() {
				defer close(heads)
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				head, lines := "", bufio.NewReader(conn)
				for !strings.HasSuffix(head, "\r\n\r\n") {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					head += line
				}
				heads <- head
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			}()
			e := newEntry(t, l.Addr().String(), more...)
			if _, err := e.send(t, http.MethodGet, maxRetries, "7"); err != nil {
				t.Fatal(err)
			}
			head := <-heads
			want := fmt.Sprintf("\r\n%s: 0\r\n", maxRetries)
			if more == nil {
				want = fmt.Sprintf("\r\n%s: 7\r\n", maxRetries) // the user's own
			}
			if strings.Count(head, want) != 1 || strings.Count(strings.ToLower(head), strings.ToLower(maxRetries)) != 1 {
				t.Errorf("on the wire is\n%s\nwant %q once", head, want)
			}
		})
		t.Run(name+"/grpc", func(t *testing.T) {
			service := &orders{end: func() error { return nil }}
			ctx, _, conn := dialOrders(t, serveOrders(t, service), more...)
			if err := get(ctx, conn); err != nil {
				t.Fatal(err)
			}
			var want []string
			if more != nil {
				want = []string{"0"}
			}
			if got := (*service.lines.Load()).Get(maxRetries); !slices.Equal(got, want) {
				t.Errorf("metadata %v, want %v", got, want)
			}
		})
	}
}
