package livepage

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

func fuzzedSDK(f *testing.F) (*engine.SDK, *engine.Dependency) {
	catalog, err := profiles.Load([]byte("version: 1\ndependencies: {payments: {profile: read-heavy}}\n"), "fuzz.yaml")
	if err != nil {
		f.Fatal(err)
	}
	sdk := new(engine.SDK)
	sdk.Init(engine.Config{Service: "checkout", Catalog: catalog})
	payments, _, err := sdk.Dependency("payments", profiles.ReadHeavy)
	if err != nil {
		f.Fatal(err)
	}
	return sdk, payments
}

// requested is a request as the network can bring it.
func requested(method, query, contentType, accept, body string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body))
	r.Method, r.URL.RawQuery = method, query
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Accept", accept)
	return r
}

// FuzzSwitch sends anything to the switch: it turns what it was asked to turn, and nothing where it says that it did not; the
// answer is bounded, and never a server's error.
func FuzzSwitch(f *testing.F) {
	sdk, payments := fuzzedSDK(f)
	f.Add("POST", "", typeForm, "dependency=payments&retries=disabled")
	f.Add("POST", "", typeForm, "dependency=all&retries=enabled")
	f.Add("POST", "retries=disabled", typeForm+"; charset=utf-8", "retries=enabled;dependency=%zz")
	f.Add("POST", "", typeJSON, `{"dependency": "payments", "retries": "disabled"}`)
	f.Add("POST", "", typeJSON, `{"dependency": "payments", "retries": "disabled", "extra": 1} {}`)
	f.Add("POST", "", "multipart/form-data; boundary=x", "--x--")
	f.Add("PUT", "", "", "")
	f.Add("GET", "dependency=payments&window=1h&format=json", "", "")
	f.Fuzz(func(t *testing.T, method, query, contentType, body string) {
		if err := sdk.Turn(engine.AllDependencies, engine.SwitchCatalog); err != nil {
			t.Fatal(err)
		}
		before := payments.Switch()
		w := httptest.NewRecorder()
		NewSwitch(sdk).ServeHTTP(w, requested(method, query, contentType, "", body))
		if w.Code >= 500 || w.Body.Len() > 1<<20 {
			t.Fatalf("%d with %d bytes: %.300s", w.Code, w.Body.Len(), w.Body)
		}
		refused := w.Code >= 400
		if refused && (w.Body.Len() > 9000 || !strings.HasPrefix(w.Body.String(), "chainbudget: ") && w.Code != http.StatusForbidden) {
			t.Fatalf("%d: %d bytes: %.300s", w.Code, w.Body.Len(), w.Body)
		}
		if after := payments.Switch(); refused && after != before {
			t.Fatalf("refused with %d, and turned: %+v, before %+v", w.Code, after, before)
		}
	})
}

// FuzzPage asks for the page with anything: whatever is asked for, it is a page, JSON where that is asked for, and nothing of
// the query stands in it as markup.
func FuzzPage(f *testing.F) {
	sdk, _ := fuzzedSDK(f)
	f.Add("dependency=payments&window=5m", "text/html", "")
	f.Add("format=json&window=%ff", "application/json;q=0.9, */*", "")
	f.Add("dependency=%3Cscript%3E&window=-1", "application/json", "")
	f.Add("&&;=%", ",,;", "")
	f.Fuzz(func(t *testing.T, query, accept, method string) {
		r := requested(http.MethodGet, query, "", accept, "")
		w := httptest.NewRecorder()
		New(sdk, true).ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Body.Len() > 1<<20 || !utf8.Valid(w.Body.Bytes()) {
			t.Fatalf("%d with %d bytes", w.Code, w.Body.Len())
		}
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("no JSON: %s", w.Body)
		}
		if dependency := r.URL.Query().Get("dependency"); strings.Contains(dependency, "<") && len(dependency) > 3 && w.Header().Get("Content-Type") != "application/json" &&
			strings.Contains(w.Body.String(), dependency) && !strings.Contains(pageText, dependency) {
			t.Fatalf("%q stands in the page as it came", dependency)
		}
		w = httptest.NewRecorder()
		New(sdk, false).ServeHTTP(w, requested(method, query, "", accept, ""))
		if w.Code >= 500 {
			t.Fatalf("%s: %d", method, w.Code)
		}
	})
}
