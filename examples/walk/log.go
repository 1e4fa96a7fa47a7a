package walk

import (
	"io"
	"log/slog"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// Logging makes an SDK whose refusals are logged to w. Whatever is logged in a request says where in its chain that is.
func Logging(w io.Writer) (*chainbudget.SDK, error) {
	sdk, err := chainbudget.New("checkout", chainbudget.WithObserver(func(e chainbudget.Event) {
		if e.Reason != ownership.ReasonAllowed {
			slog.InfoContext(e.Context, "no retry", "decision", e)
		}
	}))
	if err != nil {
		return nil, err
	}
	slog.SetDefault(slog.New(sdk.LogHandler(slog.NewJSONHandler(w, nil))))
	return sdk, nil
}
