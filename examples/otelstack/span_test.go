package otelstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetconnect"
	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// spanRecord keeps the spans of one provider.
type spanRecord struct {
	*tracetest.SpanRecorder
	provider *sdktrace.TracerProvider
}

func newSpans() spanRecord {
	recorder := tracetest.NewSpanRecorder()
	return spanRecord{recorder, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))}
}

func (s spanRecord) option() otelhttp.Option { return otelhttp.WithTracerProvider(s.provider) }

// remoteSpan returns a context with the span of a caller elsewhere.
func remoteSpan(t *testing.T) context.Context {
	return trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
}

// resends returns "kind:count" for each span in the order in which they began; "-" where a span has no resend count.
func (s spanRecord) resends() []string {
	var list []string
	for _, span := range s.Started() {
		count := "-"
		for _, a := range span.Attributes() {
			if a.Key == "http.request.resend_count" {
				count = a.Value.String()
			}
		}
		list = append(list, fmt.Sprintf("%s:%s", span.SpanKind(), count))
	}
	return list
}

// TestResendCount calls a service that fails twice from within a handler with a span of its own.
func TestResendCount(t *testing.T) {
	for _, stacking := range []struct {
		name  string
		build func(ours, otel layer, base http.RoundTripper) http.RoundTripper
		want  []string // after the handler's own span
	}{
		{"ours_otel_annotate", func(ours, otel layer, base http.RoundTripper) http.RoundTripper {
			return ours(otel(budgethttp.AnnotateSpan(base)))
		}, []string{"client:-", "client:1", "client:2"}},
		{"ours_otel", func(ours, otel layer, base http.RoundTripper) http.RoundTripper { return ours(otel(base)) },
			[]string{"client:-", "client:-", "client:-"}}, // nobody is there to note it
		{"otel_ours", func(ours, otel layer, base http.RoundTripper) http.RoundTripper { return otel(ours(base)) },
			[]string{"client:2"}},
		{"otel_ours_otel_annotate", func(ours, otel layer, base http.RoundTripper) http.RoundTripper {
			return otel(ours(otel(budgethttp.AnnotateSpan(base))))
		}, []string{"client:2", "client:-", "client:1", "client:2"}},
		{"ours", func(ours, otel layer, base http.RoundTripper) http.RoundTripper { return ours(base) }, nil},
	} {
		t.Run(stacking.name, func(t *testing.T) {
			spans := newSpans()
			rec := newSDK(t, "shop")
			dep := rec.Dependency("ledger", steady)
			url, callee, _ := newCallee(t, "ledger", 2)
			client := stacking.build(
				func(next http.RoundTripper) http.RoundTripper { return budgethttp.NewTransport(next, dep) },
				func(next http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(next, spans.option()) },
				newBase(t))
			h := budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				send(t, client, newRequest(t, r.Context(), url, "", ""))
			}), rec.SDK, budgethttp.Entry())
			send(t, newBase(t), newRequest(t, t.Context(), serve(t, otelhttp.NewHandler(h, "shop", spans.option())), "", ""))

			if n := len(callee.all()); n != 3 {
				t.Fatalf("%d attempts arrived, want 3", n)
			}
			if got, want := spans.resends(), append([]string{"server:-"}, stacking.want...); !slices.Equal(got, want) {
				t.Errorf("spans %v, want %v", got, want)
			}
		})
	}
}

// Over connect an attempt is an HTTP request, whose span has the count, too.
func TestResendCountOverConnect(t *testing.T) {
	type text = wrapperspb.StringValue
	const procedure = "/otelstack.Ledger/Get"
	spans := newSpans()
	rec := newSDK(t, "shop")
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(context.Context, *connect.Request[text]) (*connect.Response[text], error) {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("down"))
	}))
	transport := otelhttp.NewTransport(budgethttp.AnnotateSpan(newBase(t)), spans.option())
	client := connect.NewClient[text, text](&http.Client{Transport: transport}, serve(t, mux)+procedure,
		connect.WithInterceptors(budgetconnect.NewClientInterceptor(rec.Dependency("ledger", steady), budgetconnect.Option{Idempotent: []string{procedure}})))
	ctx, end := chainbudget.Start(remoteSpan(t), rec.SDK)
	defer end()
	if _, err := client.CallUnary(ctx, connect.NewRequest(new(text))); err == nil {
		t.Fatal("it worked")
	}
	if got, want := spans.resends(), []string{"client:-", "client:1"}; !slices.Equal(got, want) {
		t.Errorf("spans %v, want %v", got, want)
	}
}

// Every decision is an event on the span around the call.
func TestDecisionsAreSpanEvents(t *testing.T) {
	spans := newSpans()
	rec := newSDK(t, "shop")
	url, _, _ := newCallee(t, "ledger", 100)
	ctx, span := spans.provider.Tracer("test").Start(t.Context(), "work")
	chain, end := chainbudget.Start(ctx, rec.SDK)
	client := budgethttp.NewTransport(newBase(t), rec.Dependency("ledger", steady))
	// Start gives a chain a trace of its own from the global provider, of which there is none here.
	send(t, client, newRequest(t, trace.ContextWithSpan(chain, span), url, "", ""))
	end()
	span.End()

	var events []string
	decided := rec.Events()
	for i, e := range spans.Ended()[0].Events() {
		// A050: which profile waited how long is to be seen where the call is.
		if !slices.Contains(e.Attributes, attribute.String("chainbudget.profile", string(steady))) ||
			!slices.Contains(e.Attributes, attribute.Float64("chainbudget.delay_ms", float64(decided[i].Delay)/float64(time.Millisecond))) {
			t.Errorf("event %d: %v; want the profile %q and the delay %v", i, e.Attributes, steady, decided[i].Delay)
		}
		line := e.Name
		for _, a := range e.Attributes {
			if a.Key == "chainbudget.attempt" || a.Key == "chainbudget.reason" || a.Key == "chainbudget.owner" {
				line += " " + a.Value.String()
			}
		}
		events = append(events, line)
	}
	want := []string{
		"chainbudget.retry 1 allowed ledger", "chainbudget.retry 2 allowed ledger", "chainbudget.retry 3 allowed ledger",
		"chainbudget.denied 4 max_attempts ledger",
	}
	if !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
}
