package ownership

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ledgerPage = "; see https://github.com/chainbudget/chainbudget-go/blob/main/docs/denied/"

func TestDeniedError(t *testing.T) {
	cause := context.DeadlineExceeded
	e := failure("payments", "ledger", ClaimUnclaimed)
	e.Err, e.Status = cause, 503
	assert.ErrorIs(t, e, cause)
	assert.True(t, e.Timeout())
	assert.Equal(t, "chainbudget: payments: no retry after attempt 1: max_attempts (owner ledger, unclaimed): status 503: context deadline exceeded"+
		ledgerPage+"max_attempts.md", e.Error())
	e.OwnerDepth = 3
	assert.Contains(t, e.Error(), "(owner ledger, 3 hops below, unclaimed)")
	e = &DeniedError{Dependency: "payments", Owner: "payments", Claim: ClaimUnclaimed, Reason: ReasonBreakerOpen}
	assert.Equal(t, "chainbudget: payments: refused here, no attempt made: breaker_open (owner payments, unclaimed)"+ledgerPage+"breaker_open.md", e.Error())
	assert.False(t, e.Timeout())
	var none *DeniedError
	assert.Equal(t, "chainbudget: no failure", none.Error())
	assert.False(t, none.Timeout())
	assert.NoError(t, none.Unwrap())
	for _, r := range []Reason{ReasonAllowed, Reason(200)} {
		assert.NotContains(t, (&DeniedError{Reason: r}).Error(), "see ", "there is no page")
	}
}

// However long the wrapped error is, the text is bounded, is text, and ends with the page.
func TestDeniedError_text_is_bounded(t *testing.T) {
	for _, long := range []string{strings.Repeat("x", 1<<20), strings.Repeat("é", 1000), "y" + strings.Repeat("é", 1000), strings.Repeat("\x80", 1000)} {
		e := failure("payments", "ledger", ClaimUnclaimed)
		e.Err = errors.New(long)
		text := e.Error()
		assert.Less(t, len(text), 1024)
		assert.Greater(t, len(text), 600, "cut, and no more than that")
		assert.True(t, strings.HasSuffix(text, ledgerPage+"max_attempts.md"), text[len(text)-100:])
		assert.Equal(t, utf8.ValidString(long), utf8.ValidString(text), "no character is cut apart")
	}
}

// The page is that of the refusal that the error is about, also where others are inside it.
func TestDeniedError_names_one_page(t *testing.T) {
	inner := failure("ledger", "store", ClaimUnclaimed)
	inner.Reason = ReasonPushback
	for _, err := range []error{
		inner,
		fmt.Errorf("booking: %w, and nothing was booked", inner),
		errors.Join(inner, errors.New("other"), inner),
		errors.New("status: " + inner.Error()[:len(inner.Error())-len("hback.md")]), // cut by somebody between
		errors.New(inner.Error()[:len(inner.Error())-len(".md")] + " (remote)"),
	} {
		e := failure("payments", "store", ClaimUnclaimed)
		e.Err = &DeniedError{Dependency: "middle", Owner: "store", Reason: ReasonStop, Err: err, Attempts: 1}
		assert.Equal(t, 1, strings.Count(e.Error(), "https://"), e)
		assert.True(t, strings.HasSuffix(e.Error(), "/max_attempts.md"), e)
	}
	e := failure("payments", "store", ClaimUnclaimed)
	e.Err = fmt.Errorf("booking: %w, and nothing was booked", inner)
	assert.Equal(t, "chainbudget: payments: no retry after attempt 1: max_attempts (owner store, unclaimed): booking: "+
		"chainbudget: ledger: no retry after attempt 1: pushback (owner store, unclaimed), and nothing was booked"+ledgerPage+"max_attempts.md", e.Error())
}

func TestDeniedError_in_a_log(t *testing.T) {
	logged := func(e *DeniedError) any {
		var b bytes.Buffer
		slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "err", e)
		var record map[string]any
		require.NoError(t, json.Unmarshal(b.Bytes(), &record))
		return record["err"]
	}
	e := &DeniedError{
		Reason: ReasonPushback, Dependency: "payments", Owner: "ledger", OwnerDepth: 2, Claim: ClaimUnclaimed, Attempts: 1, Status: 503,
		RetryAfter: 1500 * time.Millisecond, Err: failure("ledger", "ledger", ClaimStop),
	}
	assert.Equal(t, map[string]any{
		"dependency": "payments", "reason": "pushback", "attempt": 1., "claim": "unclaimed", "owner": "ledger", "owner_depth": 2.,
		"status": 503., "retry_after_ms": 1500., "error": "chainbudget: ledger: no retry after attempt 1: max_attempts (owner ledger, stop)",
		"see": strings.TrimPrefix(ledgerPage, "; see ") + "pushback.md",
	}, logged(e))
	assert.Equal(t, map[string]any{
		"dependency": "", "reason": "allowed", "attempt": 0., "claim": "missing", "owner": "", "owner_depth": 0.,
	}, logged(new(DeniedError)), "what there is not, is not written")
	e.Err = errors.New(strings.Repeat("x", 1<<20))
	assert.Len(t, logged(e).(map[string]any)["error"], 512)
	assert.Nil(t, logged(nil))
}

// example is the form of an error's text as a page shows it.
var example = regexp.MustCompile(`(?m)^chainbudget: ([a-z]+): (?:no retry after attempt (\d+)|(refused here, no attempt made)): ([a-z_]+) ` +
	`\(owner ([a-z]+), (?:(\d+) hops below, )?([a-z]+)\)(?:: status (\d+))?(?:: (.*?))?; see \S+$`)

// Each refusal has its page, each page its refusal, and what a page shows of an error is what such an error says.
func TestReasons_have_pages(t *testing.T) {
	files, err := filepath.Glob("../docs/denied/*.md")
	require.NoError(t, err)
	assert.Len(t, files, len(Reasons())-1, "a page that explains no reason")
	for _, r := range Reasons()[1:] {
		t.Run(r.String(), func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("..", "docs", "denied", r.String()+".md"))
			require.NoError(t, err)
			page := string(data)
			assert.True(t, strings.HasPrefix(page, "# `"+r.String()+"`\n"))
			at := 0
			for _, heading := range []string{"\n## What it means\n", "\n## When it is right\n", "\n## How to see it\n", "\n## When it is wrong\n"} {
				next := strings.Index(page[at:], heading)
				require.GreaterOrEqual(t, next, 0, heading)
				at += next + len(heading)
			}
			assert.Contains(t, page, "chainbudget_denials_total{chainbudget_reason=\""+r.String()+"\"}")
			for _, m := range example.FindAllStringSubmatch(page, -1) {
				number := func(s string) int { n, _ := strconv.Atoi(s); return n }
				e := &DeniedError{Dependency: m[1], Attempts: number(m[2]), Reason: r, Owner: m[5], OwnerDepth: number(m[6]), Status: number(m[8])}
				for e.Claim.String() != m[7] && e.Claim.String() != "invalid" {
					e.Claim++
				}
				if m[9] != "" {
					e.Err = errors.New(m[9])
				}
				assert.Equal(t, e.Error(), m[0])
			}
			assert.Equal(t, strings.Count(page, "; see https://"), len(example.FindAllString(page, -1)), "an example that no error says")
			assert.NotZero(t, strings.Count(page, "; see https://"))
			assert.Less(t, strings.Count(page, "\n"), 50, "short")
			protects := "it protects"
			if r.Protects() != strings.Contains(page, protects) {
				t.Errorf("the page says that %q: %v; the gate protects: %v", protects, !r.Protects(), r.Protects())
			}
		})
	}
}
