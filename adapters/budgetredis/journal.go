package budgetredis

import (
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// parts is how many slices of time a window has. The breaker divides its own in the same way, so that what leaves the one
// leaves the other within a slice.
const parts = 10

// journal is what the view knows about one dependency: what of its own Redis has been told, so that it can tell the
// others' counts from its own. Only the view's goroutine uses it.
type journal struct {
	tally *engine.Tally
	keys  []string

	window time.Duration
	period time.Duration      // a slice
	known  [3]uint64          // of what was finished here, what Redis is known to have
	own    map[int64][3]int64 // the same by slice, as far as it is in the window

	bucket   engine.Bucket
	base     int64 // level up to which changes are in net
	net      int64 // how much this process has changed the bucket, all in all
	netKnown int64 // of this, what Redis is known to have

	sent  [3]uint64 // what the sync under way says
	level int64
	heard time.Time // when the fleet's numbers last came
}

func newJournal(t *engine.Tally) *journal {
	j := &journal{tally: t, heard: time.Now(), own: map[int64][3]int64{}}
	j.bucket, j.base = t.Start()
	return j
}

// prepare notes what is to be sent, and returns keys and arguments of the script. What a catalog has changed since the
// last sync goes under a key of its own, so that processes with an older catalog do not meet numbers of another meaning.
func (j *journal) prepare(prefix, fleet, instance string, ordinal uint64) (keys []string, args []any) {
	if window := j.tally.Window(); window != j.window || j.keys == nil {
		j.window, j.period, j.keys = window, (window+parts-1)/parts, nil
		clear(j.own)
	}
	bucket := j.tally.Bucket()
	j.level = bucket.Level()
	if bucket != j.bucket {
		j.bucket, j.keys = bucket, nil
		j.base = j.level // a new size moves the level, and nobody took that
	}
	j.net += j.level - j.base
	j.base = j.level
	j.sent = j.tally.Finished()
	if j.keys == nil {
		tag := prefix + "{" + url.PathEscape(fleet) + "/" + url.PathEscape(j.tally.Name()) + "}:"
		j.keys = []string{
			tag + "finished:" + strconv.FormatInt(j.window.Milliseconds(), 10),
			tag + "level:" + j.bucket.Kind.String() + ":" + strconv.FormatInt(j.bucket.Full, 10),
			tag + "instances",
		}
	}
	return j.keys, []any{
		instance, ordinal, j.sent[0], j.sent[1], j.sent[2], j.known[0], j.known[1], j.known[2],
		max(0, j.period.Microseconds()), parts, j.net, j.netKnown, j.level, j.bucket.Full, -j.bucket.Debt,
	}
}

// head is how many numbers of a reply come before the slices.
const head = 9

// accept takes the reply of a sync that began at a moment, and tells the breaker and the bucket.
func (j *journal) accept(at time.Time, reply []int64) error {
	if len(reply) != head && len(reply) != head+3*parts || j.period > 0 && len(reply) == head {
		return errReply
	}
	known, slice, markSlice := reply[0] == 1, reply[1], reply[2]
	if !known {
		clear(j.own) // Redis was flushed, or does not know us yet
	}
	for k := range j.sent {
		// In reply is what Redis had before this sync: more than we know of if a reply was lost.
		had := reply[3+k]
		if known {
			j.note(markSlice, k, had-toInt(j.known[k]))
		}
		j.note(slice, k, toInt(j.sent[k])-had)
	}
	j.known, j.netKnown, j.heard = j.sent, j.net, at
	if j.period > 0 {
		grain := j.period / grains
		j.tally.Merge(at, grain, spread(j.others(slice, reply[head:]), time.Duration(reply[8])*time.Microsecond, grain))
	}
	if j.bucket.Full > 0 && j.tally.Bucket() == j.bucket {
		j.base = j.bucket.Move(j.level, reply[7])
	}
	return nil
}

// alone is told that the fleet has not been heard of for long. What it owes is not this process's to repay.
func (j *journal) alone() {
	if j.bucket != j.tally.Bucket() {
		return
	}
	if level := j.bucket.Level(); level < 0 {
		j.net += level - j.base
		j.base = j.bucket.Move(level, 0)
	}
}

// note adds to our own part of a slice.
func (j *journal) note(slice int64, k int, n int64) {
	if n > 0 && j.period > 0 {
		own := j.own[slice]
		own[k] += n
		j.own[slice] = own
	}
}

// others returns what is left of the fleet's slices, newest first, without our own part.
func (j *journal) others(now int64, fleet []int64) [][3]uint64 {
	var own [parts][3]int64
	for slice, n := range j.own {
		age := now - slice
		if age >= parts || age < -parts {
			delete(j.own, slice)
			continue
		}
		for k := range n {
			own[max(0, age)][k] += n[k]
		}
	}
	others := make([][3]uint64, parts)
	for k := range 3 {
		// A reply that was lost leaves us unsure of the slice, not of the sum: what is not found in one is in another.
		var missing int64
		for age := range parts {
			left := max(0, fleet[3*age+k]) - own[age][k] - missing
			missing = max(0, -left)
			others[age][k] = uint64(max(0, left))
		}
		for age := 0; age < parts && missing > 0; age++ {
			less := min(missing, toInt(others[age][k]))
			others[age][k] -= uint64(less)
			missing -= less
		}
	}
	return others
}

// grains is into how many shorter ones a slice is divided for the breaker, which takes slices of one length and counts
// each as long as its beginning is in the window. Ours began with the server's clock, and the newest has not ended: one
// short slice at the beginning of each says so, to a hundredth of the window.
const grains = 10

// spread puts each slice's counts into the short slice at its beginning. The newest began so long ago as elapsed says.
func spread(slices [][3]uint64, elapsed, grain time.Duration) [][3]uint64 {
	short := make([][3]uint64, (len(slices)+1)*grains)
	for age, counts := range slices {
		ago := int(elapsed/grain) + age*grains
		if counts != ([3]uint64{}) && ago >= 0 && ago < len(short) {
			short[ago] = counts
		}
	}
	return short
}

// toInt is exact as far as Redis's numbers are.
func toInt(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
