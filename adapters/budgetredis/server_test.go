package budgetredis

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{})
	goleak.VerifyTestMain(m)
}

// silence keeps go-redis from logging the failures that the tests cause.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// server is a redis-server of one test.
type server struct {
	t       testing.TB
	binary  string
	dir     string
	addr    string // a socket, or a port of loopback
	args    []string
	process *exec.Cmd
	admin   *redis.Client
}

// startServer starts a redis-server on a socket of its own, without persistence.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis") // t.TempDir may be too long for the name of a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := newServer(t, dir, filepath.Join(dir, "s"))
	s.args = append([]string{"--port", "0", "--unixsocket", s.addr}, args...)
	s.start()
	return s
}

// startServerTCP starts one on a free port.
func startServerTCP(t testing.TB, args ...string) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.NoError(t, listener.Close())
	s := newServer(t, t.TempDir(), "127.0.0.1:"+strconv.Itoa(port))
	s.args = append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port)}, args...)
	s.start()
	return s
}

func newServer(t testing.TB, dir, addr string) *server {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not in PATH: install it (apt-get install redis-server, brew install redis); these tests run against a real one")
	}
	s := &server{t: t, binary: binary, dir: dir, addr: addr}
	s.admin = s.client()
	t.Cleanup(func() {
		_ = s.admin.Close()
		if s.process != nil {
			s.kill()
		}
	})
	return s
}

// client returns a client with short timeouts.
func (s *server) client() *redis.Client {
	return redis.NewClient(s.options())
}

func (s *server) options() *redis.Options {
	network := "unix"
	if _, _, err := net.SplitHostPort(s.addr); err == nil {
		network = "tcp"
	}
	return &redis.Options{Network: network, Addr: s.addr, MaxRetries: -1, DialerRetries: 1, PoolSize: 1024}
}

// launch starts the process and does not wait for it to answer.
func (s *server) launch() {
	s.t.Helper()
	args := append([]string{"--dir", s.dir, "--save", "", "--appendonly", "no", "--loglevel", "warning"}, s.args...)
	s.process = exec.Command(s.binary, args...)
	require.NoError(s.t, s.process.Start())
}

func (s *server) start() {
	s.t.Helper()
	s.launch()
	await(s.t, 10*time.Second, "redis-server does not answer", func() bool {
		return s.admin.Ping(context.Background()).Err() == nil
	})
}

func (s *server) kill() {
	s.resume() // a stopped process dies, too, but not before it is waited for
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	s.process = nil
}

func (s *server) pause()  { _ = s.process.Process.Signal(syscall.SIGSTOP) }
func (s *server) resume() { _ = s.process.Process.Signal(syscall.SIGCONT) }

func (s *server) do(args ...any) {
	s.t.Helper()
	require.NoError(s.t, s.admin.Do(context.Background(), args...).Err())
}

// keys returns the names of all keys.
func (s *server) keys() []string {
	s.t.Helper()
	keys, err := s.admin.Keys(context.Background(), "*").Result()
	require.NoError(s.t, err)
	return keys
}

// await polls until something is so.
func await(t testing.TB, limit time.Duration, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v: %s", limit, what)
		}
	}
}

// hash returns the numbers of the one hash whose name ends so.
func (s *server) hash(suffix string) map[string]int {
	s.t.Helper()
	numbers := map[string]int{}
	for _, key := range s.keys() {
		if !strings.HasSuffix(key, suffix) {
			continue
		}
		all, err := s.admin.HGetAll(context.Background(), key).Result()
		require.NoError(s.t, err)
		for field, value := range all {
			n, err := strconv.Atoi(value)
			require.NoError(s.t, err)
			numbers[field] = n
		}
	}
	return numbers
}

func itoa(n int) string { return strconv.Itoa(n) }

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}
