package chainbudgettest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// upgradeCases are about what net/http's writers can do besides writing.
var upgradeCases = []Case{
	{Name: "writer_keeps_its_abilities", check: writerKeepsItsAbilities, Needs: []Capability{NetHTTP},
		Checks: "a handler's writer offers what the server's own offers: Flusher, FlushError, Hijacker, ReaderFrom, WriteString, Pusher, Unwrap"},
	{Name: "reader_from_sends_the_return", check: readerFromSendsTheReturn, Needs: []Capability{NetHTTP, ReturnsInHeader},
		Checks: "ReadFrom, WriteString and a flush send the return with the headers"},
	{Name: "upgrade", check: upgrade, Needs: []Capability{NetHTTP, Upgrades},
		Checks: "a connection that a handler takes over carries both directions, through the client side, too"},
}

// abilities names what a writer offers.
func abilities(w http.ResponseWriter) string {
	var list []string
	for _, ability := range []struct {
		name   string
		offers bool
	}{
		{"Flusher", is[http.Flusher](w)},
		{"FlushError", is[interface{ FlushError() error }](w)},
		{"Hijacker", is[http.Hijacker](w)},
		{"ReaderFrom", is[io.ReaderFrom](w)},
		{"StringWriter", is[io.StringWriter](w)},
		{"Pusher", is[http.Pusher](w)},
	} {
		if ability.offers {
			list = append(list, ability.name)
		}
	}
	return strings.Join(list, " ")
}

func is[T interface{}](w http.ResponseWriter) bool {
	_, ok := w.(T)
	return ok
}

func writerKeepsItsAbilities(s *stage) {
	var mu sync.Mutex
	var seen []string
	note := func(_ context.Context, _ Received, w Reply) error {
		_, unwraps := w.Writer.(interface{ Unwrap() http.ResponseWriter })
		mu.Lock()
		seen = append(seen, abilities(w.Writer), fmt.Sprint("unwraps: ", unwraps))
		mu.Unlock()
		return w.Send("done")
	}
	bare := s.a.Serve(s.TB, Server{Handle: note})
	s.succeeded(s.outsider(bare)(s.context(), Request{}), "done")
	s.succeeded(s.lend(s.outsider(s.hop(s.sdk("store", rules{}), note)), 2).Answer, "done")
	expect(s, "handlers", len(seen), 4)
	if len(seen) == 4 {
		expect(s, "the writer's abilities", seen[2], seen[0])
		expect(s, "the writer", seen[3], "unwraps: true")
	}
}

func readerFromSendsTheReturn(s *stage) {
	for name, write := range map[string]func(w http.ResponseWriter) error{
		"ReadFrom": func(w http.ResponseWriter) error {
			_, err := io.Copy(w, strings.NewReader("done"))
			return err
		},
		"WriteString": func(w http.ResponseWriter) error {
			_, err := io.WriteString(w, "done")
			return err
		},
		"flush": func(w http.ResponseWriter) error {
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
			_, err := w.Write([]byte("done"))
			return err
		},
	} {
		address := s.hop(s.sdk("store", rules{}), func(_ context.Context, _ Received, w Reply) error { return write(w.Writer) })
		got := s.lend(s.outsider(address), 2)
		if got.Body != "done" || len(got.lines) != 1 || got.ret.Returned != 2 {
			s.Errorf("%s: the call came to %v, with returns %q", name, &got.Answer, got.lines)
		}
	}
}

func upgrade(s *stage) {
	echo := func(_ context.Context, _ Received, w Reply) error {
		conn, rw, err := http.NewResponseController(w.Writer).Hijack()
		if err != nil {
			return err
		}
		defer conn.Close()
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		line, err := rw.ReadString('\n')
		if err != nil {
			return nil
		}
		rw.WriteString("echo " + line)
		return rw.Flush()
	}
	rec := s.sdk("caller", hasty)
	address := s.hop(s.sdk("store", rules{}), echo)
	transport, url := s.a.Transport(s.TB, Link{Address: address, Dependency: rec.Dependency("callee", suiteProfile)})
	ctx := s.chain(rec)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		s.Fatalf("status %d, a body that can be written: %t", resp.StatusCode, ok)
	}
	if c, ok := resp.Body.(net.Conn); ok {
		defer c.Close()
	}
	io.WriteString(conn, "hello\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || line != "echo hello\n" {
		s.Errorf("over the connection came %q, %v", line, err)
	}
	if got := lines(resp.Header, otelprop.ReturnHeader); len(got) > 0 {
		s.Errorf("the response has a return: %q", got)
	}
}
