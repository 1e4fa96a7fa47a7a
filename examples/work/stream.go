package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// events answers with server-sent events. The response's headers are out before the first is made, and the request's tokens with
// them: each event has a chain of its own.
func events(sdk *chainbudget.SDK, ticks <-chan string, fetch func(context.Context, string) (float64, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		if out.Flush() != nil {
			return // the caller has gone
		}
		for {
			select {
			case <-r.Context().Done():
				return
			case currency, open := <-ticks:
				if !open {
					return
				}
				event(r.Context(), sdk, w, currency, fetch)
				if out.Flush() != nil {
					return
				}
			}
		}
	})
}

func event(ctx context.Context, sdk *chainbudget.SDK, w io.Writer, currency string, fetch func(context.Context, string) (float64, error)) {
	ctx, end := chainbudget.Start(ctx, sdk)
	defer end()
	rate, err := fetch(ctx, currency)
	if err != nil {
		fmt.Fprintf(w, "event: failed\ndata: %s\n\n", currency)
		return
	}
	fmt.Fprintf(w, "data: %s %g\n\n", currency, rate)
}

// report sends a long response with one last call in it, and sets a token aside for that call before the headers go out.
func report(w http.ResponseWriter, r *http.Request, body io.Reader, sum func(context.Context) (string, error)) error {
	chainbudget.Keep(r.Context(), 1)
	if _, err := io.Copy(w, body); err != nil {
		return err
	}
	text, err := sum(r.Context())
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// converse handles a gRPC stream that stays open for hours: each message is a unit of work.
func converse(sdk *chainbudget.SDK, stream grpc.ServerStream, answer func(context.Context, string) (string, error)) error {
	for {
		question := new(wrapperspb.StringValue)
		switch err := stream.RecvMsg(question); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		text, err := reply(stream.Context(), sdk, question.Value, answer)
		if err != nil {
			text = "not now" // one message's failure is not the stream's
		}
		if err := stream.SendMsg(wrapperspb.String(text)); err != nil {
			return err
		}
	}
}

func reply(ctx context.Context, sdk *chainbudget.SDK, question string, answer func(context.Context, string) (string, error)) (string, error) {
	ctx, end := chainbudget.Start(ctx, sdk)
	defer end()
	return answer(ctx, question)
}
