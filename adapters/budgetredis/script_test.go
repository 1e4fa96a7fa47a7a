package budgetredis

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// told is one sync as the script gets it. A slice is long, so that none leaves the window.
type told struct {
	ordinal          int
	failures, known  int // so far, and of these what it knows to be added
	net, netKnown    int
	level            int
	period, instance string
}

func (s *server) tell(n told) answer {
	s.t.Helper()
	if n.period == "" {
		n.period = "100000000"
	}
	reply, err := script.Run(s.t.Context(), s.admin, []string{"{a}finished", "{a}level", "{a}instances"},
		"i"+n.instance, n.ordinal, 0, n.failures, 0, 0, n.known, 0, n.period, parts, n.net, n.netKnown, n.level, 10_000, -10_000).Slice()
	require.NoError(s.t, err)
	if len(reply) == 1 {
		return answer{slice: -1}
	}
	a, err := read(reply)
	require.NoError(s.t, err)
	return a
}

func (s *server) failures() (sum int) {
	for _, n := range s.hash("finished") {
		sum += n
	}
	return sum
}

// Whatever becomes of a sync and its reply, what was told is added once.
func TestScript_adds_once(t *testing.T) {
	s := startServer(t)
	first := s.tell(told{ordinal: 1, failures: 5, net: -1000, level: 9000})
	assert.False(t, first.known)
	assert.Equal(t, int64(9000), first.level, "nobody was there: its own level")

	t.Run("the_reply_was_lost", func(t *testing.T) {
		again := s.tell(told{ordinal: 2, failures: 7, net: -3000, level: 7000})
		assert.True(t, again.known)
		assert.Equal(t, [3]int64{0, 5, 0}, again.had, "so much of it was there")
		assert.Equal(t, int64(7000), again.level)
		assert.Equal(t, 7, s.failures())
	})
	t.Run("the_same_twice", func(t *testing.T) {
		same := s.tell(told{ordinal: 2, failures: 7, net: -3000, level: 7000})
		assert.Equal(t, [3]int64{0, 7, 0}, same.had)
		assert.Equal(t, int64(7000), same.level)
		assert.Equal(t, 7, s.failures())
	})
	t.Run("after_a_later_one", func(t *testing.T) {
		assert.Equal(t, int64(-1), s.tell(told{ordinal: 1, failures: 5, net: -1000, level: 9000}).slice, "nothing is answered")
		next := s.tell(told{ordinal: 3, failures: 8, known: 7, net: -4000, netKnown: -3000, level: 6000})
		assert.Equal(t, int64(6000), next.level)
		assert.Equal(t, 8, s.failures())
	})
	t.Run("redis_forgot_it", func(t *testing.T) {
		s.do("DEL", "{a}instances")
		next := s.tell(told{ordinal: 4, failures: 9, known: 8, net: -4500, netKnown: -4000, level: 5500})
		assert.False(t, next.known)
		assert.Equal(t, int64(5500), next.level)
		assert.Equal(t, 9, s.failures())
	})
	t.Run("another_process", func(t *testing.T) {
		other := s.tell(told{instance: "2", ordinal: 1, failures: 1, net: -2000, level: 8000})
		assert.Equal(t, int64(3500), other.level, "the fleet's level and what it took, not its own")
		assert.Equal(t, 10, s.failures())
		other = s.tell(told{instance: "2", ordinal: 2, failures: 1, known: 1, net: -90_000, netKnown: -2000, level: 0})
		assert.Equal(t, int64(-10_000), other.level, "a burst is the most that is owed")
		other = s.tell(told{instance: "2", ordinal: 3, failures: 1, known: 1, net: 90_000, netKnown: -90_000, level: 0})
		assert.Equal(t, int64(10_000), other.level)
	})
}

// What is wrong with our own keys in Redis costs what is in them and nothing else.
func TestScript_survives_nonsense(t *testing.T) {
	s := startServer(t)
	s.tell(told{ordinal: 1, failures: 5})
	for n, mark := range []string{"", "x", "1 2 3", "1 2 3 4 5 6 7", "-1 -2 -3 -4 -5 -6", "9999 1 1 1 1"} {
		s.do("HSET", "{a}instances", "i", mark)
		a := s.tell(told{ordinal: n + 2, failures: 5, known: 5})
		assert.False(t, a.known, mark)
	}
	s.do("HSET", "{a}finished", "junk", "x", "s", "1", "", "2", "12345678901234567890123s", "4")
	s.tell(told{ordinal: 100, failures: 6, known: 5})
	assert.Equal(t, int64(6), s.tell(told{ordinal: 101, failures: 6, known: 6}).had[1])
}
