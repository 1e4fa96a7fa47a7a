package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// warnings is a slog.Handler that keeps what the SDK warns of, so that it comes with the results and not through the
// progress bar. Every service of a chain has an SDK of its own, and what they all say is kept once.
type warnings struct {
	mu   sync.Mutex
	list []string
}

// Enabled implements [slog.Handler].
func (w *warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements [slog.Handler].
func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%s", a.Key, a.Value)
		return true
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.list, b.String()) {
		w.list = append(w.list, b.String())
	}
	return nil
}

// WithAttrs implements [slog.Handler]; the SDK uses none.
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements [slog.Handler]; the SDK uses none.
func (w *warnings) WithGroup(string) slog.Handler { return w }

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.list...)
}
