package walk

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/examples/page"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// A refusal is one line, with what was decided and where in its chain the request is.
func TestLogging(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var b bytes.Buffer
	sdk, err := Logging(&b)
	if err != nil {
		t.Fatal(err)
	}
	defer sdk.Close()
	dep, err := sdk.Dependency("ledger", profiles.NoRetry)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := chainbudget.Start(t.Context(), sdk)
	defer end()
	err = chainbudget.Do(ctx, dep, func(context.Context) error { return io.ErrUnexpectedEOF }, chainbudget.Idempotent())
	if err == nil {
		t.Fatal("it worked")
	}
	slog.ErrorContext(ctx, "failed", "err", err)

	type where struct {
		Entry  string
		Tokens int
	}
	var refused, failed struct {
		Msg           string
		Decision, Err struct{ Reason, Dependency, Error, See string }
		Chainbudget   where
	}
	d := json.NewDecoder(&b)
	if err := d.Decode(&refused); err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(&failed); err != nil {
		t.Fatal(err)
	}
	at := where{"checkout", 3}
	if refused.Msg != "no retry" || refused.Decision.Reason != "no_policy" || refused.Decision.Dependency != "ledger" || refused.Chainbudget != at {
		t.Errorf("logged %+v", refused)
	}
	if failed.Err.Reason != "no_policy" || failed.Err.Error != "unexpected EOF" || failed.Err.See == "" || failed.Chainbudget != at {
		t.Errorf("logged %+v", failed)
	}
	if d.More() {
		t.Error("there is more in the log")
	}
}

func TestPageQuotesCode(t *testing.T) {
	page.Read(t, "../../docs/traces.md").Quotes(t, 1, "log.go")
}
