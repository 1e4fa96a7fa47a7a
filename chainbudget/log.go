package chainbudget

import (
	"context"
	"log/slog"
	"slices"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// LogValue makes log/slog write the event as a group, in the words of the span events: dependency, profile, attempt, reason,
// would_deny where a milder mode let the retry through, hedge, delay_ms, claim and owner, tokens (what was held after the
// decision), and status and error where there are any. At most 512 bytes of the error's text are written.
func (e Event) LogValue() slog.Value {
	list := append(make([]slog.Attr, 0, 12),
		slog.String("dependency", e.Dependency), slog.String("profile", e.Profile), slog.Int("attempt", e.Attempt),
		slog.String("reason", e.Reason.String()), slog.Bool("hedge", e.Hedge), slog.Float64("delay_ms", engine.Millis(e.Delay)),
		slog.String("claim", e.Claim.String()), slog.String("owner", e.Owner), slog.Int("tokens", e.After),
	)
	if e.WouldDeny != ownership.ReasonAllowed {
		list = append(list, slog.String("would_deny", e.WouldDeny.String()))
	}
	if e.Status != 0 {
		list = append(list, slog.Int("status", e.Status))
	}
	if e.Err != nil {
		failure := DeniedError{Err: e.Err} // it knows how an error is written
		for _, a := range failure.LogValue().Group() {
			if a.Key == "error" {
				list = append(list, a)
			}
		}
	}
	return slog.GroupValue(list...)
}

// LogHandler returns a handler that adds a group "chainbudget" to each record that is logged with the context of one of the
// SDK's requests or chains: entry, hop and tokens (held at that moment), and inside an attempt its number and dependency. The
// group stands at the top of the record, whatever groups the logger has open. All else is h's:
//
//	slog.SetDefault(slog.New(sdk.LogHandler(slog.NewJSONHandler(os.Stderr, nil))))
//
// h must not be nil, nor the handler that slog begins with, which writes to what is set here. A nil or zero SDK returns
// h. Records that are logged without such a context cost one look into it.
func (s *SDK) LogHandler(h slog.Handler) slog.Handler {
	if !s.engine().Usable() {
		return h
	}
	return &logHandler{sdk: s.engine(), Handler: h, top: h}
}

// logHandler is a handler in front of another one, which has all that the logger was given.
type logHandler struct {
	slog.Handler
	sdk *engine.SDK
	// top is the handler before the logger opened a group, and opened what it was given since: our group belongs above.
	top    slog.Handler
	opened []func(slog.Handler) slog.Handler
}

// Handle implements [slog.Handler].
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	group := h.standing(ctx)
	switch {
	case group == nil:
		return h.Handler.Handle(ctx, r)
	case len(h.opened) == 0:
		r = r.Clone()
		r.AddAttrs(slog.Attr{Key: "chainbudget", Value: slog.GroupValue(group...)})
		return h.Handler.Handle(ctx, r)
	}
	next := h.top.WithAttrs([]slog.Attr{{Key: "chainbudget", Value: slog.GroupValue(group...)}})
	for _, open := range h.opened {
		next = open(next)
	}
	return next.Handle(ctx, r)
}

// standing returns where in its chain the request is, nil for a context without one.
func (h *logHandler) standing(ctx context.Context) []slog.Attr {
	in := engine.FromContext(ctx)
	if in == nil || in.SDK() != h.sdk {
		return nil
	}
	entry, hop, tokens := in.Standing()
	list := append(make([]slog.Attr, 0, 5), slog.String("entry", entry), slog.Int("hop", hop), slog.Int("tokens", tokens))
	if a, ok := AttemptFromContext(ctx); ok {
		list = append(list, slog.String("dependency", a.Dependency), slog.Int("attempt", a.Number))
	}
	return list
}

// WithAttrs implements [slog.Handler].
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(len(h.opened) > 0, func(next slog.Handler) slog.Handler { return next.WithAttrs(attrs) })
}

// WithGroup implements [slog.Handler].
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(true, func(next slog.Handler) slog.Handler { return next.WithGroup(name) })
}

func (h *logHandler) with(below bool, open func(slog.Handler) slog.Handler) slog.Handler {
	next := *h
	next.Handler = open(h.Handler)
	if below {
		next.opened = append(slices.Clip(h.opened), open)
	} else {
		next.top = next.Handler
	}
	return &next
}
