package budgethttp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// fuzzedSDK is one whose catalog has a small maximum and whose calls do not sleep.
func fuzzedSDK(f *testing.F) *engine.SDK {
	catalog, err := profiles.Load([]byte(`version: 1
chain: {budget: 3, max_budget: 4, orphan_budget: 1}
profiles: {roomy: {extends: read-heavy, budget: {ratio: 100%, burst: 100000}, breaker: {min_requests: 1000000}, availability_floor: 0%}}
dependencies: {callee: {profile: roomy, external: false}}
`), "fuzz.yaml")
	if err != nil {
		f.Fatal(err)
	}
	sdk := new(engine.SDK)
	sdk.Init(engine.Config{Service: "checkout", Catalog: catalog, NoSleep: true})
	return sdk
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// FuzzHandler sends headers of any kind to a handler: no input fails a request, nothing of ours gets through to the user's
// code, and a grant is at most the local maximum, 1 for a relay and 0 for what something has repeated (I4 to I6).
func FuzzHandler(f *testing.F) {
	sdk := fuzzedSDK(f)
	f.Add("chainbudget=v1.2.3.1.9f86d081.checkout", "v1.2.3.1.9f86d081.checkout;caller=cart;attempt=1;timeout=250", "", "", "", true)
	f.Add("a=1,chainbudget=v1.9.9.1.9f86d081.checkout", "", "2", "", "v1.9.0.c.9f86d081.-", false)
	f.Add("chainbudget=v1.9.9.1.9f86d081.checkout", "v1.9.9.1.9f86d082.checkout;timeout=1\nv1.1.9.1.9f86d082.checkout", "", "1", "", true)
	f.Add("chainbudget", ";,", "1", "0", "", false)
	f.Fuzz(func(t *testing.T, baggage, header, envoy, grpc, copied string, fails bool) {
		for _, entry := range []bool{false, true} {
			r := httptest.NewRequest(http.MethodGet, "/orders", nil)
			for key, text := range map[string]string{otelprop.HTTPBaggageHeader: baggage, otelprop.HTTPRequestHeader: header,
				"X-Envoy-Attempt-Count": envoy, "Grpc-Previous-Rpc-Attempts": grpc} {
				if all := lines(text); all != nil {
					r.Header[key] = all
				}
			}
			foreign := repeated(r.Header)
			wire, _ := otelprop.ReadRequest(lines(baggage), lines(header), 4)
			called := false
			next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				called = true
				if left := r.Header[otelprop.HTTPBaggageHeader]; len(r.Header[otelprop.HTTPRequestHeader]) > 0 || otelprop.HasMember(left) {
					t.Errorf("I6: the user's code sees %q", r.Header)
				}
				b := engine.FromContext(r.Context()).Balance()
				most := 4
				switch {
				case entry:
					most = 3
				case foreign && wire.State != otelprop.Absent, wire.State == otelprop.Unreadable:
					most = 0
				case wire.State == otelprop.Absent, !wire.Direct:
					most = 1
				}
				if b.Granted > most || b.Granted != b.Held {
					t.Errorf("%+v, want at most %d of %+v, repeated %t", b, most, wire, foreign)
				}
				if deadline, limited := r.Context().Deadline(); limited && (entry || wire.Timeout == 0 || time.Until(deadline) > wire.Timeout) {
					t.Errorf("a deadline in %v of %+v", time.Until(deadline), wire)
				}
				if copied != "" {
					w.Header()[otelprop.HTTPReturnHeader] = lines(copied)
				}
				if fails {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
			var options []HandlerOption
			if entry {
				options = append(options, Entry())
			}
			w := httptest.NewRecorder()
			NewHandler(next, (*chainbudget.SDK)(sdk), options...).ServeHTTP(w, r)
			if !called || (w.Code == http.StatusServiceUnavailable) != fails {
				t.Fatalf("called %t, status %d", called, w.Code)
			}
			ret := w.Header()[otelprop.HTTPReturnHeader]
			if owes := wire.Direct && !entry; len(ret) > 1 || (len(ret) == 1) != owes {
				t.Fatalf("return %q, owed %t", ret, owes)
			}
			if _, ok, rejects := otelprop.ReadReturn(ret, wire.Nonce, 99); len(ret) == 1 && (!ok || rejects != (otelprop.Rejects{})) {
				t.Fatalf("return %q: %v", ret, rejects)
			}
		}
	})
}

// answering is a callee's answer, the same to each attempt.
type answering struct {
	status int
	header http.Header
	sent   int
}

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	a.sent++
	return &http.Response{StatusCode: a.status, Header: a.header.Clone(), Body: io.NopCloser(strings.NewReader("x")), Request: r, ProtoMajor: 1}, nil
}

// FuzzResponse answers with headers of any kind: the caller gets the answer as it came but for our return, within the profile's
// attempts, and the purse adds up (I3).
func FuzzResponse(f *testing.F) {
	sdk := fuzzedSDK(f)
	dep, _, err := sdk.Dependency("callee", "roomy")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(503, "v1.1.1.c.9f86d081.-", "1", "", "", "")
	f.Add(200, "v1.9.0.n.00000000.le\nv1.9.0.n.00000000.le", "", "", "", "")
	f.Add(429, "", "Wed, 21 Oct 2026 07:28:00 GMT", "100", "true", "")
	f.Add(503, "", "-1", "x", "", "true")
	f.Add(425, "v1.1.1.s.00000000.-.a", "99999999999999999999", "", "", "")
	f.Fuzz(func(t *testing.T, status int, ret, retryAfter, amazon, overloaded, nack string) {
		base := &answering{status: 200 + int(uint(status)%400), header: http.Header{"X-Own": {"1"}}}
		for key, text := range map[string]string{otelprop.HTTPReturnHeader: ret, "Retry-After": retryAfter, "X-Amz-Retry-After": amazon,
			"X-Envoy-Overloaded": overloaded, "Finagle-Http-Nack": nack} {
			if all := lines(text); all != nil {
				base.header[key] = all
			}
		}
		ctx, end := chainbudget.Start(context.Background(), (*chainbudget.SDK)(sdk))
		defer end()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://callee/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := NewTransport(base, (*chainbudget.Dependency)(dep)).RoundTrip(r)
		if err != nil {
			t.Fatalf("status %d: %v", base.status, err)
		}
		resp.Body.Close()
		if resp.StatusCode != base.status || base.sent < 1 || base.sent > 4 || base.status < 400 && base.sent != 1 {
			t.Fatalf("status %d of %d after %d attempts", resp.StatusCode, base.status, base.sent)
		}
		delete(base.header, otelprop.HTTPReturnHeader)
		for key, want := range base.header {
			if !slices.Equal(resp.Header[key], want) {
				t.Fatalf("%s is %q, want %q", key, resp.Header[key], want)
			}
		}
		if len(resp.Header) != len(base.header) {
			t.Fatalf("headers %q, want %q", resp.Header, base.header)
		}
		b := engine.FromContext(ctx).Balance()
		if b.Held+b.Lent+b.Spent+b.Lost+b.Returned != b.Granted || b.Lent != 0 || b.Spent < base.sent-1 {
			t.Fatalf("I3: %+v after %d attempts", b, base.sent)
		}
	})
}
