package work

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chainbudget/chainbudget-go/adapters/budgetgrpc"
	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// Events arrive one by one, while the response is open, and each has its own retries.
func TestEachEventOfALongResponseIsAChainOfItsOwn(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(readHeavyWithoutBreaker))
	ledger := rec.Dependency("ledger", "ledger")
	var runs []int
	fetch := func(ctx context.Context, currency string) (float64, error) {
		runs = append(runs, 0)
		return chainbudget.Call(ctx, ledger, func(context.Context) (float64, error) {
			runs[len(runs)-1]++
			if currency == "XXX" || runs[len(runs)-1] < 3 {
				return 0, chainbudget.Retryable(errors.New("busy"))
			}
			return 1.5, nil
		}, chainbudget.Idempotent())
	}
	ticks := make(chan string)
	server := httptest.NewServer(budgethttp.NewHandler(events(rec.SDK, ticks, fetch), rec.SDK, budgethttp.Entry()))
	defer server.Close()
	resp, err := http.Get(server.URL) // the headers are here before any event is
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for _, test := range []struct{ currency, want string }{{"CHF", "data: CHF 1.5"}, {"XXX", "event: failed"}, {"SEK", "data: SEK 1.5"}} {
		ticks <- test.currency
		line, err := lines.ReadString('\n')
		if err != nil || strings.TrimSpace(line) != test.want {
			t.Errorf("%s: %q, %v; want %q while the response is open", test.currency, line, err, test.want)
		}
		for line != "\n" && err == nil { // the rest of the event
			line, err = lines.ReadString('\n')
		}
	}
	close(ticks)
	if _, err := io.ReadAll(lines); err != nil {
		t.Error(err)
	}
	if !slices.Equal(runs, []int{3, 4, 3}) {
		t.Errorf("the events asked %v times, want 3, all 4 and 3", runs)
	}
}

func TestALongResponseCanKeepATokenForItsEnd(t *testing.T) {
	for _, test := range []struct {
		name    string
		keep    bool
		want    int
		reasons []ownership.Reason
	}{
		{"kept", true, 2, []ownership.Reason{ownership.ReasonAllowed, ownership.ReasonSettled}},
		{"not_kept", false, 1, []ownership.Reason{ownership.ReasonSettled}},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec := chainbudgettest.New(t, chainbudgettest.Catalog(readHeavyWithoutBreaker))
			call, runs := busy(rec)
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body := strings.NewReader(strings.Repeat("a long report\n", 1<<14))
				sum := func(ctx context.Context) (string, error) { return "", call(ctx) }
				if test.keep {
					_ = report(w, r, body, sum)
					return
				}
				_, _ = io.Copy(w, body)
				_, _ = sum(r.Context())
			})
			server := httptest.NewServer(budgethttp.NewHandler(handler, rec.SDK))
			defer server.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Chainbudget", "v1.2.3.1.9f86d081.checkout") // a caller to whom a return is owed
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			server.Close()
			if *runs != test.want {
				t.Errorf("%d runs at the end of the report, want %d", *runs, test.want)
			}
			if reasons := rec.Reasons(); !slices.Equal(reasons, test.reasons) {
				t.Errorf("decided %v, want %v", reasons, test.reasons)
			}
		})
	}
}

func TestEachMessageOfALongStreamIsAChainOfItsOwn(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Catalog(readHeavyWithoutBreaker))
	call, runs := busy(rec)
	var each []int
	answer := func(ctx context.Context, _ string) (string, error) {
		*runs = 0
		err := call(ctx)
		each = append(each, *runs)
		return "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(budgetgrpc.ServerOptions(rec.SDK, budgetgrpc.Option{Entry: true})...)
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "shop.Help", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Chat", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error { return converse(rec.SDK, stream, answer) },
	}}}, struct{}{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/shop.Help/Chat")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got := new(wrapperspb.StringValue)
		if err := errors.Join(stream.SendMsg(wrapperspb.String("?")), stream.RecvMsg(got)); err != nil || got.Value != "not now" {
			t.Fatalf("%q, %v", got.Value, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	if err := stream.RecvMsg(new(wrapperspb.StringValue)); err != io.EOF {
		t.Errorf("the stream ended with %v", err)
	}
	if !slices.Equal(each, []int{4, 4, 4}) {
		t.Errorf("the messages asked %v times, want one and three retries each", each)
	}
}
