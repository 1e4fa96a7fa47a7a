package budgethttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// moded is a catalog whose dependencies differ in their mode only. The callee's chains have two tokens.
const moded = `
version: 1
chain: {budget: 2}
profiles:
  base: {extends: read-heavy, retry: {max_attempts: 4}, budget: {ratio: 100%, burst: 1000}, breaker: disabled, availability_floor: 0%}
dependencies:
  bypass: {profile: base, mode: bypass}
  observe: {profile: base, mode: observe}
  budget: {profile: base, mode: budget}
  enforce: {profile: base, mode: enforce}
  default: {profile: base}
`

// said answers as a service that runs the SDK and says claim about its failure; it returns all tokens.
func said(claim string, arrived *tap) roundTripperFunc {
	return inProcess(arrived.watch(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wire, _ := otelprop.ReadRequest(nil, r.Header["Chainbudget"], 99)
		if wire.Direct {
			w.Header().Set("Chainbudget-Return", fmt.Sprintf("v1.%d.0.%s.%s.-.store", wire.Grant, claim, wire.Nonce))
		}
		w.WriteHeader(503)
	})))
}

func TestModesEnforceWhatTheySay(t *testing.T) {
	type outcome struct {
		hits, retries, wouldDeny int64
		spent                    int
		reason                   string
		wire                     bool
	}
	for _, tt := range []struct {
		mode  string
		claim string
		want  outcome
	}{
		{"bypass", "c", outcome{hits: 1, reason: "disabled"}},
		{"observe", "c", outcome{hits: 4, retries: 2, wouldDeny: 1, spent: 2, reason: "max_attempts", wire: true}},
		{"budget", "c", outcome{hits: 3, retries: 2, spent: 2, reason: "chain_exhausted", wire: true}},
		{"enforce", "c", outcome{hits: 3, retries: 2, spent: 2, reason: "chain_exhausted", wire: true}},
		{"default", "c", outcome{hits: 3, retries: 2, spent: 2, reason: "chain_exhausted", wire: true}},
		// Ownership's refusals proceed up to budget; what observe would have refused spends nothing.
		{"observe", "u", outcome{hits: 4, wouldDeny: 3, reason: "max_attempts", wire: true}},
		{"budget", "u", outcome{hits: 3, retries: 2, wouldDeny: 2, spent: 2, reason: "chain_exhausted", wire: true}},
		{"enforce", "u", outcome{hits: 1, reason: "unclaimed", wire: true}},
		{"observe", "s", outcome{hits: 4, wouldDeny: 3, reason: "max_attempts", wire: true}},
		{"enforce", "s", outcome{hits: 1, reason: "stop", wire: true}},
	} {
		t.Run(tt.mode+"_"+tt.claim, func(t *testing.T) {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(moded))
			arrived := new(tap)
			transport := budgethttp.NewTransport(said(tt.claim, arrived), rec.Dependency(tt.mode, "base"))
			ctx, end := chainbudget.Start(context.Background(), rec.SDK)
			defer end()
			resp, err := get(ctx, transport, "http://store/")
			if err != nil || resp.StatusCode != 503 {
				t.Fatal(resp, err)
			}
			d := rec.SDK.Totals().Dependencies[tt.mode]
			got := outcome{hits: int64(len(arrived.all())), retries: d.Retries, spent: balance(t, ctx).Spent}
			for _, n := range d.WouldDeny {
				got.wouldDeny += n
			}
			if denied := budgethttp.Denied(resp); denied != nil {
				got.reason = denied.Reason.String()
			}
			got.wire = arrived.all()[0].header.Get("Chainbudget") != ""
			if got != tt.want {
				t.Errorf("got %+v, want %+v (would deny %v)", got, tt.want, d.WouldDeny)
			}
		})
	}
}

func TestBypassAsksNoBreaker(t *testing.T) {
	c := newCaller(t, "base", chainbudgettest.Mode(profiles.ModeBypass), catalog(3, "breaker: {min_requests: 1}"))
	hits := 0
	transport := c.transport(t, roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		hits++
		return response(req, 503, http.NoBody), nil
	}))
	for range 100 {
		if _, err := get(t.Context(), transport, "http://callee/"); err != nil {
			t.Fatal(err)
		}
	}
	if hits != 100 {
		t.Errorf("%d of 100 requests went out", hits)
	}
}

func TestTheEnvironmentOverridesEveryMode(t *testing.T) {
	for _, tt := range []struct {
		word string
		hits int
		bad  bool
	}{
		{word: "", hits: 1}, {word: "bypass", hits: 1}, {word: "observe", hits: 4}, {word: "budget", hits: 3}, {word: "enforce", hits: 1},
		{word: "off", hits: 1, bad: true}, {word: "ENFORCE ", hits: 1, bad: true}, {word: strings.Repeat("x", 1000), hits: 1, bad: true},
	} {
		t.Run(tt.word[:min(len(tt.word), 10)], func(t *testing.T) {
			t.Setenv("CHAINBUDGET_MODE", tt.word)
			if strict, err := chainbudget.New("caller", chainbudget.WithStrict()); tt.bad != (err != nil) || tt.bad != (strict == nil) {
				t.Errorf("strict: %v, %v", strict, err)
			}
			sdk, err := chainbudget.New("caller")
			if tt.bad != (err != nil) || sdk == nil {
				t.Fatalf("New: %v, %v; want an SDK either way, and an error for a word that is no mode", sdk, err)
			}
			if err != nil && (!strings.Contains(err.Error(), "CHAINBUDGET_MODE") || !strings.Contains(err.Error(), "observe") || len(err.Error()) > 300) {
				t.Errorf("error %.400q: it must name the variable and the modes that exist", err)
			}
			defer sdk.Close()
			dep, err := sdk.Dependency("store", profiles.LatencyCritical)
			if err != nil {
				t.Fatal(err)
			}
			// The chain has 3 tokens and the callee says unclaimed, so that each mode ends elsewhere.
			arrived := new(tap)
			ctx, end := chainbudget.Start(context.Background(), sdk)
			defer end()
			if _, err := get(ctx, budgethttp.NewTransport(said("u", arrived), dep), "http://store/"); err != nil {
				t.Fatal(err)
			}
			want := tt.hits
			if want > 1 {
				want = 2 // the profile's attempts
			}
			if n := len(arrived.all()); n != want {
				t.Errorf("%d requests, want %d", n, want)
			}
			if carries := arrived.all()[0].header.Get("Chainbudget") != ""; carries == (tt.word == "bypass") {
				t.Errorf("carries a wire: %v", carries)
			}
		})
	}
}

func TestNilPassesEverythingThrough(t *testing.T) {
	var sent *http.Request
	base := roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		sent = req
		return nil, errors.New("the base's own error")
	})
	req := request(t, t.Context(), http.MethodPost, "http://callee/", strings.NewReader("x"))
	for name, transport := range map[string]http.RoundTripper{
		"transport": budgethttp.NewTransport(base, nil), "router": budgethttp.NewRouter(base, nil),
	} {
		sent = nil
		if _, err := transport.RoundTrip(req); sent != req || err == nil || err.Error() != "the base's own error" {
			t.Errorf("%s: request passed as it is: %v, error %v", name, sent == req, err)
		}
	}
	if budgethttp.NewTransport(nil, nil) != http.DefaultTransport || budgethttp.NewRouter(nil, nil) != http.DefaultTransport {
		t.Error("a nil base is not http.DefaultTransport")
	}
	next := http.NewServeMux()
	if budgethttp.NewHandler(next, nil, budgethttp.Entry()) != http.Handler(next) {
		t.Error("a handler with a nil SDK is not the handler itself")
	}
	if budgethttp.Denied(nil) != nil || budgethttp.Denied(&http.Response{}) != nil || budgethttp.Denied(&http.Response{Request: req}) != nil {
		t.Error("Denied of what is no failure is not nil")
	}
	if d := budgethttp.Denied(&http.Response{Request: req, StatusCode: 503}); d == nil || d.Reason != ownership.ReasonDisabled || d.Status != 503 {
		t.Errorf("Denied of a failure that nobody dealt with is %v", d)
	}
}
