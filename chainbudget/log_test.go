package chainbudget_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// records reads what a JSON handler has written.
func records(t *testing.T, b *bytes.Buffer) (list []map[string]any) {
	t.Helper()
	for d := json.NewDecoder(b); ; {
		var r map[string]any
		err := d.Decode(&r)
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		list = append(list, r)
	}
}

func TestEvent_in_a_log(t *testing.T) {
	logged := func(e chainbudget.Event) any {
		var b bytes.Buffer
		slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "decision", e)
		return records(t, &b)[0]["decision"]
	}
	e := chainbudget.Event{
		Context: t.Context(), Dependency: "payments", Profile: "write-path", Attempt: 1, Reason: ownership.ReasonAllowed,
		WouldDeny: ownership.ReasonUnclaimed, Hedge: true, Delay: 1500 * time.Microsecond, Claim: ownership.ClaimUnclaimed, Owner: "ledger",
		Status: 503, Err: errors.New("broken"), Before: 3, After: 2,
	}
	assert.Equal(t, map[string]any{
		"dependency": "payments", "profile": "write-path", "attempt": 1., "reason": "allowed", "would_deny": "unclaimed", "hedge": true,
		"delay_ms": 1.5, "claim": "unclaimed", "owner": "ledger", "status": 503., "error": "broken", "tokens": 2.,
	}, logged(e))
	assert.Equal(t, map[string]any{
		"dependency": "", "profile": "", "attempt": 0., "reason": "allowed", "hedge": false, "delay_ms": 0., "claim": "missing", "owner": "", "tokens": 0.,
	}, logged(chainbudget.Event{}), "what there is not, is not written")
	e.Err = errors.New(strings.Repeat("x", 1<<20))
	assert.Len(t, logged(e).(map[string]any)["error"], 512)
}

// within is a handler for records that are all logged in one context.
type within struct {
	slog.Handler
	ctx context.Context
}

func (h within) Handle(_ context.Context, r slog.Record) error { return h.Handler.Handle(h.ctx, r) }
func (h within) WithAttrs(a []slog.Attr) slog.Handler          { return within{h.Handler.WithAttrs(a), h.ctx} }
func (h within) WithGroup(name string) slog.Handler            { return within{h.Handler.WithGroup(name), h.ctx} }

// In a request and outside, the handler keeps the rules of package slog, and what it adds stands at the top.
func TestLogHandler_is_a_good_handler(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Service("checkout"))
	for name, ctx := range map[string]context.Context{"in_a_request": started(t, rec), "outside": t.Context()} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			slogtest.Run(t, func(*testing.T) slog.Handler {
				b.Reset()
				return within{rec.SDK.LogHandler(slog.NewJSONHandler(&b, nil)), ctx}
			}, func(t *testing.T) map[string]any {
				r := records(t, &b)[0]
				if name == "outside" {
					assert.NotContains(t, r, "chainbudget")
				} else {
					assert.Equal(t, map[string]any{"entry": "checkout", "hop": 0., "tokens": 3.}, r["chainbudget"])
					delete(r, "chainbudget")
				}
				return r
			})
		})
	}
}

func TestLogHandler_says_what_is_held_and_which_attempt_runs(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(doCatalog), chainbudgettest.Service("checkout"))
	other := chainbudgettest.New(t)
	var b bytes.Buffer
	log := slog.New(other.SDK.LogHandler(rec.SDK.LogHandler(slog.NewJSONHandler(&b, nil)))).With("a", 1).WithGroup("g").With("b", 2)
	ctx := started(t, rec)
	chainbudget.Do(ctx, rec.Dependency("db", "plain"), func(ctx context.Context) error {
		log.InfoContext(ctx, "x", "c", 3)
		return io.ErrUnexpectedEOF
	}, chainbudget.Idempotent())
	log.InfoContext(ctx, "after")
	log.Info("outside")

	assert.Equal(t, 5, strings.Count(b.String(), `"chainbudget":`), "by the SDK of the request, and no other")
	list := records(t, &b)
	require.Len(t, list, 6)
	for i, r := range list[:4] {
		assert.Equal(t, map[string]any{"entry": "checkout", "hop": 0., "tokens": float64(3 - i), "dependency": "db", "attempt": float64(i + 1)}, r["chainbudget"])
		assert.Equal(t, map[string]any{"b": 2., "c": 3.}, r["g"])
		assert.Equal(t, 1., r["a"])
	}
	assert.Equal(t, map[string]any{"entry": "checkout", "hop": 0., "tokens": 0.}, list[4]["chainbudget"])
	assert.NotContains(t, list[5], "chainbudget")
}

// Loggers made from one another share nothing that they write.
func TestLogHandler_branches(t *testing.T) {
	rec := chainbudgettest.New(t)
	var b bytes.Buffer
	root := slog.New(rec.SDK.LogHandler(slog.NewJSONHandler(&b, nil))).WithGroup("g").With("x", 0).With("y", 0)
	ctx := started(t, rec)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			log := root.With("i", i)
			for range 50 {
				log.InfoContext(ctx, "", "j", i)
			}
		})
	}
	wg.Wait()
	list := records(t, &b)
	assert.Len(t, list, 400)
	for _, r := range list {
		g := r["g"].(map[string]any)
		assert.Equal(t, g["i"], g["j"])
	}
}

func TestLogHandler_without_an_sdk(t *testing.T) {
	h := slog.NewJSONHandler(io.Discard, nil)
	assert.Same(t, h, (*chainbudget.SDK)(nil).LogHandler(h))
	assert.Same(t, h, new(chainbudget.SDK).LogHandler(h))
	ours := chainbudgettest.New(t).SDK.LogHandler(h)
	assert.Same(t, ours, ours.WithGroup(""))
}
