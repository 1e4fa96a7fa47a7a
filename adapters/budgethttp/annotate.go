package budgethttp

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// AnnotateSpan returns a RoundTripper that notes http.request.resend_count on the current span of every repeated
// attempt. It belongs below an instrumented transport that stands below this package's:
//
//	budgethttp.NewTransport(otelhttp.NewTransport(budgethttp.AnnotateSpan(nil)), payments)
//
// With the instrumented transport outside, NewTransport notes it by itself. A nil base is http.DefaultTransport.
func AnnotateSpan(base http.RoundTripper) http.RoundTripper {
	return &annotator{base: orDefault(base)}
}

type annotator struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (a *annotator) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if attempt, ok := chainbudget.AttemptFromContext(ctx); ok && attempt.Number > 1 {
		setResend(trace.SpanFromContext(ctx), attempt.Number-1)
	}
	return a.base.RoundTrip(req)
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the base.
func (a *annotator) CloseIdleConnections() { closeIdle(a.base) }

func setResend(span trace.Span, resend int) {
	span.SetAttributes(attribute.Int("http.request.resend_count", resend))
}
