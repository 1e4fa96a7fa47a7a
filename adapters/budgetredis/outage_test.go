package budgetredis

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever is wrong with Redis: it is counted by kind, warned of once, no call notices, and all goes on by itself when it
// is over.
func TestOutage(t *testing.T) {
	for _, c := range []struct {
		name, kind  string
		begin, over func(*server)
	}{
		{"killed", failedConnection, (*server).kill, (*server).start},
		{"paused", failedTimeout, (*server).pause, (*server).resume},
		{"wrong_password", failedAuth, func(s *server) {
			s.do("CONFIG", "SET", "requirepass", "secret")
			s.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}, func(s *server) { s.do("CONFIG", "SET", "requirepass", "") }},
		{"not_allowed", failedAuth, func(s *server) { s.do("ACL", "SETUSER", "default", "-evalsha", "-eval") },
			func(s *server) { s.do("ACL", "SETUSER", "default", "+@all") }},
		{"replica", failedReadOnly, func(s *server) { s.do("REPLICAOF", "127.0.0.1", "1") },
			func(s *server) { s.do("REPLICAOF", "NO", "ONE") }},
		{"full", failedMemory, func(s *server) { s.do("CONFIG", "SET", "maxmemory", "1") },
			func(s *server) { s.do("CONFIG", "SET", "maxmemory", "0") }},
		{"foreign_counts", failedWrongType, func(s *server) { s.replace(":finished:", "list") }, (*server).flush},
		{"foreign_level", failedWrongType, func(s *server) { s.replace(":level:", "text") }, (*server).flush},
		{"foreign_instances", failedWrongType, func(s *server) { s.replace(":instances", "list") }, (*server).flush},
		{"busy", failedBusy, func(s *server) {
			s.do("CONFIG", "SET", "busy-reply-threshold", "1")
			go func() { _ = s.other().Eval(context.Background(), "while true do end", nil).Err() }()
		}, func(s *server) { s.do("SCRIPT", "KILL") }},
		{"loading", failedLoading, (*server).restartSlowly, func(*server) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			catalog := strings.Replace(countedIn("10s"), "budget: disabled", "budget: {burst: 10}", 1)
			a, b := join(t, s, catalog), join(t, s, catalog)
			syncs(t, 1, a, b)
			c.begin(s)
			a.calls(1, nil) // something to tell: a full Redis still takes what it has room for
			await(t, 8*time.Second, "nothing is counted as "+c.kind, func() bool { return a.view.Stats().ByKind[c.kind] >= 2 })
			a.calls(12, errDown) // its own view alone
			assert.False(t, a.refuses())
			c.over(s)

			b.calls(8, errDown)
			await(t, 10*time.Second, "b does not hear of a again", b.refuses)
			await(t, 10*time.Second, "a does not hear of b again", a.refuses)
			stats := a.view.Stats()
			assert.Error(t, stats.LastErr)
			warned := a.warned()
			assert.Contains(t, warned, c.kind)
			slices.Sort(warned)
			assert.Equal(t, slices.Compact(slices.Clone(warned)), warned, "once for each cause")
		})
	}
}

// flush empties it.
func (s *server) flush() { s.do("FLUSHALL") }

// replace puts somebody else's data under the key whose name has a part.
func (s *server) replace(part, kind string) {
	s.t.Helper()
	names := s.keys()
	if part == ":finished:" { // nobody has counted anything yet
		names = []string{"chainbudget:{checkout/payments}:finished:10000"}
	}
	for _, key := range names {
		if !strings.Contains(key, part) {
			continue
		}
		s.do("DEL", key)
		if kind == "list" {
			s.do("RPUSH", key, "ours")
		} else {
			s.do("SET", key, "ours")
		}
		return
	}
	s.t.Fatalf("no key with %s in %q", part, s.keys())
}

// other returns one more client, which ends with the test.
func (s *server) other() *redis.Client {
	c := s.client()
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// restartSlowly starts it anew with a data set that takes two seconds to read.
func (s *server) restartSlowly() {
	s.do("CONFIG", "SET", "rdbcompression", "no") // it answers between two pieces of the file
	for i := range 400 {
		s.do("SET", "foreign:"+strconv.Itoa(i), strings.Repeat("x", 2000))
	}
	s.do("SAVE")
	s.kill()
	s.args = append(s.args, "--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024")
	s.launch()
}

// A flush, and a Redis that has forgotten our script, are no failures.
func TestOutage_flushed(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, countedIn("10s")), join(t, s, countedIn("10s"))
	syncs(t, 1, a, b)
	for range 5 {
		s.do("FLUSHALL")
		s.do("SCRIPT", "FLUSH")
		syncs(t, 1, a, b)
	}
	a.calls(12, errDown)
	syncs(t, 2, a, b)
	s.do("FLUSHALL")
	syncs(t, 2, a, b)
	assert.False(t, a.refuses(), "what a told before the flush is not others'")
	b.calls(8, errDown)
	await(t, 5*time.Second, "what a told before the flush is taken off what b tells now", a.refuses)
	assert.False(t, b.refuses(), "what was flushed is gone, and b has 8 of its own")
	assert.Zero(t, a.view.Stats().Failures+b.view.Stats().Failures)
}

// While Redis is away what others counted leaves the breaker with its window.
func TestOutage_others_age_out(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, countedIn("500ms")), join(t, s, countedIn("500ms"))
	a.calls(19, errDown)
	syncs(t, 2, a, b)
	s.kill()
	<-time.After(600 * time.Millisecond)
	b.calls(19, errDown)
	assert.False(t, b.refuses())
}

// What was finished more than a window before Redis came back is nobody's news: an old outage must not open the breakers of
// today.
func TestOutage_old_counts_are_not_told(t *testing.T) {
	s := startServer(t)
	a, b := join(t, s, countedIn("500ms")), join(t, s, countedIn("500ms"))
	syncs(t, 1, a, b)
	s.kill()
	a.calls(19, errDown)
	before := a.view.Stats().Failures
	await(t, 10*time.Second, "a does not try", func() bool { return a.view.Stats().Failures >= before+1 })
	<-time.After(600 * time.Millisecond)
	a.calls(3, nil)
	s.start()
	syncs(t, 2, a, b)
	sums := map[byte]int{}
	for field, n := range s.hash("finished:500") {
		sums[field[len(field)-1]] += n
	}
	assert.Zero(t, sums['f'], "%v", sums)
	b.calls(10, errDown)
	assert.False(t, b.refuses())
}

// Redis that was never there: Share does not wait, nor do calls, and the view joins when it comes.
func TestOutage_at_the_start(t *testing.T) {
	s := startServer(t)
	s.kill()
	begun := time.Now()
	a, b := join(t, s, countedIn("10s")), join(t, s, countedIn("10s"))
	assert.Less(t, time.Since(begun), 250*time.Millisecond)
	a.calls(12, errDown)
	await(t, 5*time.Second, "no failure", func() bool { return a.view.Stats().Failures >= 1 })
	assert.Zero(t, a.view.Stats().Age, "there never was a view")
	begun = time.Now()
	other := newInstance(t, countedIn("10s")).share(s.other())
	require.NoError(t, other.view.Close())
	assert.Less(t, time.Since(begun), time.Second)
	s.start()
	b.calls(8, errDown)
	await(t, 10*time.Second, "b does not hear of a", b.refuses)
}

// Something that answers and is not Redis.
func TestOutage_a_stranger_answers(t *testing.T) {
	for answer, kind := range map[string]string{"+OK": failedReply, ":7": failedReply, "-LOADING a": failedLoading, "-NEWS b": failedOther, "*1\r\n:5": failedReply} {
		t.Run(kind, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Network: "unix", Addr: stranger(t, answer), Protocol: 2, DisableIdentity: true})
			defer client.Close()
			a := newInstance(t, countedIn("10s")).share(client)
			await(t, 5*time.Second, "not counted as "+kind, func() bool { return a.view.Stats().ByKind[kind] > 0 })
			a.calls(19, errDown)
			assert.True(t, a.call(nil))
		})
	}
}

// stranger answers every command with one line.
func stranger(t *testing.T, line string) (addr string) {
	addr = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", addr)
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for in := bufio.NewReader(conn); ; {
					var parts, size int
					if _, err := fmt.Fscanf(in, "*%d\r\n", &parts); err != nil {
						return
					}
					for range parts {
						if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
							return
						}
						if _, err := in.Discard(size + 2); err != nil {
							return
						}
					}
					if _, err := conn.Write([]byte(line + "\r\n")); err != nil {
						return
					}
				}
			}()
		}
	}()
	return addr
}

// A client that is not one of go-redis's own is used as it is, and one that panics costs syncs only.
func TestOutage_a_client_that_panics(t *testing.T) {
	a := newInstance(t, countedIn("10s")).share(panicking{})
	await(t, 5*time.Second, "no failure", func() bool { return a.view.Stats().ByKind[failedOther] > 0 })
	assert.ErrorContains(t, a.view.Stats().LastErr, "panic: never mind")
	a.calls(3, nil)
}

type panicking struct{ redis.UniversalClient }

func (panicking) Pipeline() redis.Pipeliner { panic("never mind") }

func TestKindOf(t *testing.T) {
	for text, kind := range map[string]string{
		"LOADING Redis is loading the dataset in memory":                              failedLoading,
		"READONLY You can't write against a read only replica. script: 1, on user...": failedReadOnly,
		"NOAUTH Authentication required.":                                             failedAuth,
		"WRONGPASS invalid username-password pair or user is disabled.":               failedAuth,
		"NOPERM this user has no permissions to run the 'evalsha' command":            failedAuth,
		"WRONGTYPE Operation against a key holding the wrong kind of value":           failedWrongType,
		"ERR Error running script (call to f_1): @user_script:8: WRONGTYPE Operation": failedWrongType,
		"ERR Error running script: @user_script: 8: -READONLY You can't write":        failedReadOnly,
		"OOM command not allowed when used memory > 'maxmemory'.":                     failedMemory,
		"CLUSTERDOWN Hash slot not served":                                            failedCluster,
		"BUSY Redis is busy running a script.":                                        failedBusy,
		"ERR something else":                                                          failedOther,
	} {
		assert.Equal(t, kind, kindOf(fmt.Errorf("%s", text)), text)
	}
	for kind, remedy := range remedies {
		assert.NotEmpty(t, remedy, kind)
	}
	for _, p := range prefixes {
		assert.Contains(t, remedies, p.kind)
	}
}
