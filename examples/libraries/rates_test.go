package libraries

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/examples/page"
	"github.com/chainbudget/chainbudget-go/profiles"
)

func TestThePageQuotesThisPackage(t *testing.T) {
	page.Read(t, "../../docs/libraries.md").Quotes(t, 6, "rates.go", "handler.go", "silenced.go")
}

// answers is a transport that counts attempts and answers each with the same status.
type answers struct {
	attempts int
	status   int
	keys     []string
	bodies   []string
}

// RoundTrip implements [http.RoundTripper].
func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	a.attempts++
	a.keys = append(a.keys, req.Header.Get("Idempotency-Key"))
	if req.Body != nil {
		data, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		a.bodies = append(a.bodies, string(data))
	}
	return &http.Response{
		StatusCode: a.status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("closed for today")), Request: req,
	}, nil
}

// within runs work in a request of a user, whose handler has the SDK.
func within(t *testing.T, rec *chainbudgettest.Recorder, handler http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	budgethttp.NewHandler(handler, rec.SDK, budgethttp.Entry()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/price", nil))
	return w
}

func TestALibraryLeavesRetriesToItsTransport(t *testing.T) {
	rec := chainbudgettest.New(t)
	down := &answers{status: http.StatusServiceUnavailable}
	transport := budgethttp.NewTransport(down, rec.Dependency("rates", profiles.ThirdParty))

	t.Run("reads_are_repeated", func(t *testing.T) {
		down.attempts = 0
		w := within(t, rec, price(NewClient("http://rates.example.com", transport)))
		if down.attempts != 3 || w.Code != http.StatusBadGateway {
			t.Errorf("%d attempts, status %d; want 3 of the profile, 502", down.attempts, w.Code)
		}
	})
	t.Run("a_booking_is_repeated_with_its_key_and_body", func(t *testing.T) {
		*down = answers{status: http.StatusServiceUnavailable}
		var err error
		within(t, rec, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			err = NewClient("http://rates.example.com", transport).Reserve(r.Context(), "order-7", "CHF", 100)
		}))
		if down.attempts != 3 || down.keys[0] != `"order-7"` || down.keys[2] != down.keys[0] || len(down.bodies[2]) == 0 || down.bodies[2] != down.bodies[0] {
			t.Errorf("%d attempts with keys %q and bodies %q", down.attempts, down.keys, down.bodies)
		}
		failed, ok := errors.AsType[*StatusError](err)
		if !ok || failed.Message != "closed for today" {
			t.Fatalf("the server's answer is lost: %v", err)
		}
		if denied := budgethttp.Denied(failed.Response); denied == nil || denied.Dependency != "rates" {
			t.Errorf("the kept response does not say why there was no further attempt: %v", denied)
		}
	})
	t.Run("alone_it_sends_once", func(t *testing.T) {
		*down = answers{status: http.StatusServiceUnavailable}
		if _, err := NewClient("http://rates.example.com", down).Rate(t.Context(), "CHF"); err == nil || down.attempts != 1 {
			t.Errorf("%d attempts, %v; want 1 without anything around", down.attempts, err)
		}
	})
}

// The handler's error has the library's failed call in it, which so is the exact cause of the handler's failure.
func TestALibrarysErrorIsTheExactCause(t *testing.T) {
	rec := chainbudgettest.New(t)
	down := &answers{status: http.StatusServiceUnavailable}
	rates := NewClient("http://rates.example.com", budgethttp.NewTransport(down, rec.Dependency("rates", profiles.ThirdParty)))
	var cause *chainbudget.DeniedError
	within(t, rec, budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		err := price(rates).(budgethttp.HandlerFunc)(w, r)
		cause, _ = errors.AsType[*chainbudget.DeniedError](err)
		return err
	}))
	if cause == nil || cause.Dependency != "rates" || cause.Status != http.StatusServiceUnavailable {
		t.Errorf("the handler's error has no failed call in it: %v", cause)
	}
}
