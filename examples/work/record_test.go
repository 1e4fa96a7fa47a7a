package work

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/propagation"
	"go.uber.org/goleak"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/examples/page"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestThePageQuotesThisPackage(t *testing.T) {
	page.Read(t, "../../docs/units-of-work.md").Quotes(t, 8, "background.go", "consumer.go", "producer.go", "record.go", "stream.go")
}

// ours returns the values of a record's headers of one name, and how many members of ours its baggage has.
func ours(record *kgo.Record, name string) (values []string, members int) {
	for _, line := range (headers{record}).Values(otelprop.BaggageHeader) {
		for member := range strings.SplitSeq(line, ",") {
			if strings.HasPrefix(strings.TrimSpace(member), otelprop.MemberKey+"=") {
				members++
			}
		}
	}
	return headers{record}.Values(name), members
}

func TestRegression_A091_a_record_carries_what_HTTP_would(t *testing.T) {
	for _, sent := range []otelprop.Request{
		{Hop: 1, Nonce: 0x9f86d081, Entry: "checkout", Caller: "checkout", Attempt: 1},
		{Hop: 99, Nonce: 1, Entry: "a-name-of-24-characters-", Caller: strings.Repeat("c", 40), Attempt: 99},
		{Grant: 2, Limit: 3, Hop: 4, Nonce: 0xffffffff, Entry: "cart"}, // what no producer here sends, and a stranger may
	} {
		record, overHTTP := new(kgo.Record), http.Header{}
		record.Headers = []kgo.RecordHeader{{Key: "Baggage", Value: []byte("tenant=7")}, {Key: "other", Value: []byte{0xff}}}
		overHTTP.Set(otelprop.HTTPBaggageHeader, "tenant=7")
		ctx := otelprop.ContextWithRequest(t.Context(), &sent)
		propagator.Inject(ctx, headers{record})
		propagator.Inject(ctx, propagation.HeaderCarrier(overHTTP))
		for _, name := range []string{otelprop.BaggageHeader, otelprop.RequestHeader} {
			if got, want := (headers{record}).Values(name), overHTTP.Values(name); len(got) != 1 || len(want) != 1 || got[0] != want[0] {
				t.Errorf("%s: the record has %q, HTTP %q", name, got, want)
			}
		}
		fromRecord, _ := otelprop.RequestFromContext(propagator.Extract(t.Context(), headers{record}))
		fromHTTP, _ := otelprop.RequestFromContext(propagator.Extract(t.Context(), propagation.HeaderCarrier(overHTTP)))
		if fromRecord != fromHTTP || fromRecord.State != otelprop.Valid || fromRecord.Nonce != sent.Nonce {
			t.Errorf("the record reads as %+v, HTTP as %+v", fromRecord, fromHTTP)
		}
		if got := (headers{record}).Get("other"); got != "\xff" {
			t.Errorf("another header became %q", got)
		}
	}
}

// A header of several values, as a foreign producer may leave them, is read as over HTTP: all values count.
func TestRecordsWithSeveralHeadersAreReadWhole(t *testing.T) {
	record := &kgo.Record{Headers: []kgo.RecordHeader{
		{Key: "baggage", Value: []byte("chainbudget=v1.2.3.1.9f86d081.cart")},
		{Key: "baggage", Value: []byte("chainbudget=v1.1.3.1.9f86d082.cart")},
	}}
	r, _ := otelprop.RequestFromContext(propagator.Extract(t.Context(), headers{record}))
	if r.State != otelprop.Valid || r.Grant != 1 {
		t.Errorf("read %+v, want the smaller grant of 1", r)
	}
}

// What a handler was granted does not leave with a record that it publishes.
func TestRecordsCarryNoToken(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Service("cart"))
	record := &kgo.Record{}
	handler := budgethttp.NewHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx := propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header)) // as instrumentation inside does
		propagator.Inject(otelprop.ContextWithRequest(ctx, message("cart", "cart", 1)), headers{record})
	}), rec.SDK)
	req := httptest.NewRequest(http.MethodPost, "/orders", nil)
	req.Header.Set("Baggage", "chainbudget=v1.2.3.1.9f86d081.checkout,tenant=7")
	req.Header.Set("Chainbudget", "v1.2.3.1.9f86d081.checkout")
	handler.ServeHTTP(httptest.NewRecorder(), req)

	values, members := ours(record, otelprop.RequestHeader)
	r, _ := otelprop.RequestFromContext(propagator.Extract(t.Context(), headers{record}))
	if len(values) != 1 || members != 1 || r.Grant != 0 || r.Limit != 0 || r.Entry != "cart" {
		t.Errorf("headers %q, %d members, read %+v", values, members, r)
	}
	if line := (headers{record}).Get("baggage"); !strings.Contains(line, "tenant=7") || strings.Contains(line, "checkout") {
		t.Errorf("baggage %q", line)
	}
}
