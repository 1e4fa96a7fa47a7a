package testnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/testnet"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

type key struct{}

// request asks host for /path under ctx.
func request(t *testing.T, ctx context.Context, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func always(f testnet.Fault) func(*http.Request) testnet.Fault {
	return func(*http.Request) testnet.Fault { return f }
}

func TestDeliver(t *testing.T) {
	network := testnet.New(nil)
	defer network.Close()
	network.Handle("host:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Context().Value(key{}) != nil {
			t.Error("a value of the client's context reached the handler")
		}
		if r.Host != "host:80" || r.URL.Path != "/a b" || r.URL.Host != "" || r.RequestURI != "/a%20b?q=1" {
			t.Errorf("host %q, URL %v, RequestURI %q", r.Host, r.URL, r.RequestURI)
		}
		r.Header["X-Sent"][0] = "changed"
		w.Header().Set("X-Answer", string(body))
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Late", "1")
		io.WriteString(w, "answer")
	}))
	req := request(t, context.WithValue(t.Context(), key{}, 1), http.MethodPost, "http://host:80/a%20b?q=1", "question")
	req.Header["X-Sent"] = []string{"as it was"}
	resp, err := network.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "answer" || resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Answer") != "question" {
		t.Errorf("%d %v %q, %v", resp.StatusCode, resp.Header, body, err)
	}
	if resp.Header.Get("X-Late") != "" {
		t.Error("a header set after WriteHeader was sent")
	}
	if req.Header.Get("X-Sent") != "as it was" {
		t.Error("the handler changed the client's header")
	}
	if resp.Request != req {
		t.Error("the response does not name its request")
	}
}

func TestBodylessAnswers(t *testing.T) {
	network := testnet.New(nil)
	defer network.Close()
	network.Handle("host", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/204" {
			w.WriteHeader(http.StatusNoContent)
		}
		io.WriteString(w, "body")
	}))
	for _, req := range []*http.Request{
		request(t, t.Context(), http.MethodHead, "http://host/", ""),
		request(t, t.Context(), http.MethodGet, "http://host/204", ""),
	} {
		resp, err := network.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || len(body) != 0 {
			t.Errorf("%s %s: body %q, %v", req.Method, req.URL, body, err)
		}
	}
}

func TestFaults(t *testing.T) {
	const patience = 10 * time.Second
	isDial := func(err error) bool {
		var op *net.OpError
		return errors.As(err, &op) && op.Op == "dial" && errors.Is(err, syscall.ECONNREFUSED)
	}
	isReset := func(err error) bool {
		var op *net.OpError
		return errors.As(err, &op) && op.Op == "read" && errors.Is(err, syscall.ECONNRESET)
	}
	isEOF := func(err error) bool { return err == io.EOF }
	isPatience := func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
	delivered := func(err error) bool { return err == nil }
	for name, tc := range map[string]struct {
		fault testnet.Fault
		is    func(error) bool
		took  time.Duration
		runs  bool
		sees  time.Duration // when the handler's context ends, if it waits for that; 0 = it is not canceled
	}{
		"deliver":        {testnet.Fault{Before: time.Second, After: 2 * time.Second}, delivered, 3 * time.Second, true, 0},
		"refuse":         {testnet.Fault{Kind: testnet.Refuse}, isDial, 0, false, 0},
		"refuse_late":    {testnet.Fault{Kind: testnet.Refuse, Before: time.Second}, isDial, time.Second, false, 0},
		"drop":           {testnet.Fault{Kind: testnet.Drop, Before: time.Second}, isReset, time.Second, false, 0},
		"hang":           {testnet.Fault{Kind: testnet.Hang}, isPatience, patience, false, 0},
		"lose":           {testnet.Fault{Kind: testnet.Lose, After: time.Second}, isEOF, time.Second, true, 0},
		"swallow":        {testnet.Fault{Kind: testnet.Swallow}, isPatience, patience, true, 0},
		"late":           {testnet.Fault{After: 2 * patience}, isPatience, patience, true, 0},
		"late_request":   {testnet.Fault{Before: 2 * patience}, isPatience, patience, true, 0},
		"crash_at_once":  {testnet.Fault{Kind: testnet.Crash}, isReset, 0, true, 0},
		"crash_waiting":  {testnet.Fault{Kind: testnet.Crash, After: time.Second}, isReset, time.Second, true, time.Second},
		"gone":           {testnet.Fault{}, isPatience, patience, true, patience},
		"gone_noticed":   {testnet.Fault{Notice: time.Second}, isPatience, patience, true, patience + time.Second},
		"gone_unnoticed": {testnet.Fault{Notice: testnet.Never}, isPatience, patience, true, 10 * patience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran, began := false, time.Now()
				network := testnet.New(always(tc.fault))
				network.Handle("host", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ran = true
					if tc.sees > 0 {
						<-r.Context().Done()
						if got := time.Since(began); got != tc.sees {
							t.Errorf("the handler's context ended after %v, want %v", got, tc.sees)
						}
					}
				}))
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, err := network.RoundTrip(request(t, ctx, http.MethodGet, "http://host/", ""))
				if !tc.is(err) {
					t.Errorf("error %v", err)
				}
				if got := time.Since(began); got != tc.took {
					t.Errorf("took %v, want %v", got, tc.took)
				}
				time.Sleep(10*patience - time.Since(began))
				network.Close()
				if ran != tc.runs {
					t.Errorf("the handler ran: %t, want %t", ran, tc.runs)
				}
			})
		})
	}
}

func TestPanicAndGoexitBreakTheConnection(t *testing.T) {
	network := testnet.New(nil)
	defer network.Close()
	network.Handle("panic", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	network.Handle("goexit", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runtime.Goexit() }))
	for _, host := range []string{"panic", "goexit"} {
		if _, err := network.RoundTrip(request(t, t.Context(), http.MethodGet, "http://"+host, "")); err != io.EOF {
			t.Errorf("%s: error %v, want EOF", host, err)
		}
	}
}

func TestTampering(t *testing.T) {
	for name, tc := range map[string]struct {
		tampering testnet.Tampering
		want      [2][]string
	}{
		"keep":      {testnet.Keep, [2][]string{{"1"}, {"2"}}},
		"remove":    {testnet.Remove, [2][]string{nil, nil}},
		"duplicate": {testnet.Duplicate, [2][]string{{"1", "1"}, {"2", "2"}}},
		"stale":     {testnet.Stale, [2][]string{nil, {"1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			network := testnet.New(always(testnet.Fault{Return: tc.tampering}))
			defer network.Close()
			network.Handle("host", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(otelprop.HTTPReturnHeader, strings.TrimPrefix(r.URL.Path, "/"))
				w.Header().Set("X-Other", "kept")
			}))
			for i, want := range tc.want {
				resp, err := network.RoundTrip(request(t, t.Context(), http.MethodGet, "http://host/"+string(rune('1'+i)), ""))
				if err != nil {
					t.Fatal(err)
				}
				if got := resp.Header[otelprop.HTTPReturnHeader]; strings.Join(got, ",") != strings.Join(want, ",") || len(got) != len(want) {
					t.Errorf("response %d has %q, want %q", i+1, got, want)
				}
				if resp.Header.Get("X-Other") != "kept" {
					t.Error("another header is gone")
				}
			}
		})
	}
}

func TestCloseEndsEverything(t *testing.T) {
	network := testnet.New(always(testnet.Fault{Notice: testnet.Never}))
	began := make(chan struct{})
	network.Handle("host", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	}))
	failed := make(chan error)
	go func() {
		_, err := network.RoundTrip(request(t, context.Background(), http.MethodGet, "http://host/", ""))
		failed <- err
	}()
	<-began
	network.Close()
	if err := <-failed; err == nil {
		t.Error("no error from a network that was closed")
	}
	var op *net.OpError
	if _, err := network.RoundTrip(request(t, context.Background(), http.MethodGet, "http://host/", "")); !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("error %v after Close, want a refused connection", err)
	}
}

func TestRefusesWhatHasNoHandlerAndNoLife(t *testing.T) {
	network := testnet.New(nil)
	defer network.Close()
	var dns *net.DNSError
	if _, err := network.RoundTrip(request(t, t.Context(), http.MethodGet, "http://nobody/", "")); !errors.As(err, &dns) || !dns.IsNotFound {
		t.Errorf("error %v, want a name that does not exist", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("gave up")
	cancel(cause)
	if _, err := network.RoundTrip(request(t, ctx, http.MethodGet, "http://nobody/", "")); err != cause {
		t.Errorf("error %v, want the context's cause", err)
	}
	if _, err := network.RoundTrip(request(t, t.Context(), http.MethodGet, "http:///path", "")); err == nil {
		t.Error("no error without a host")
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	network := testnet.New(nil)
	defer network.Close()
	network.Handle("host", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	req, err := http.NewRequest(http.MethodGet, "http://host/a", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := network.RoundTrip(req); err != nil {
			b.Fatal(err)
		}
	}
}
