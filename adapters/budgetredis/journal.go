package budgetredis

import (
	"maps"
	"math"
	"net/url"
	"strconv"
	"strings"
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
	known  [3]uint64          // of what was told, what Redis is known to have
	after  [3]uint64          // what was finished up to this is told, or too old to be
	missed []miss             // failed syncs of the last window
	own    map[int64][3]int64 // the same by slice, as far as it is in the window

	bucket   engine.Bucket
	base     int64 // level up to which changes are in net
	net      int64 // how much this process has changed the bucket, all in all
	netKnown int64 // of this, what Redis is known to have

	finished, sent [3]uint64 // at the sync under way, and what it says of it
	level          int64
	heard          time.Time // when the fleet's numbers last came
}

// miss is a sync that did not come about.
type miss struct {
	at       time.Time
	finished [3]uint64
}

func newJournal(t *engine.Tally) *journal {
	j := &journal{tally: t, heard: time.Now(), own: map[int64][3]int64{}}
	j.bucket, j.base = t.Start()
	return j
}

// prepare notes what is to be sent, and returns keys and arguments of the script. What a catalog has changed since the
// last sync goes under a key of its own, so that processes with an older catalog do not meet numbers of another meaning.
func (j *journal) prepare(at time.Time, prefix, fleet, instance string, ordinal uint64) (keys []string, args []any) {
	if window := j.tally.Window(); window != j.window || j.keys == nil {
		j.window, j.period, j.keys = window, (window+parts-1)/parts, nil
		clear(j.own)
	}
	bucket := j.tally.Bucket()
	j.level = bucket.Level()
	if bucket != j.bucket {
		j.bucket, j.keys = bucket, nil
		// A new size moves the level, and nobody took that. What is not told yet was of another bucket.
		j.base, j.net = j.level, j.netKnown
	}
	j.net += j.level - j.base
	j.base = j.level
	for len(j.missed) > 0 && at.Sub(j.missed[0].at) > j.window {
		j.after, j.missed = j.missed[0].finished, j.missed[1:] // nobody's window has it any more
	}
	j.finished = j.tally.Finished()
	for k := range j.sent {
		j.sent[k] = j.known[k] + j.finished[k] - j.after[k]
	}
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

// answer is what the script says.
type answer struct {
	known            bool // Redis knew us
	slice, markSlice int64
	had              [3]int64 // what Redis had of ours before this sync
	level            int64
	elapsed          time.Duration // since the present slice began
	fleet            map[int64][3]int64
}

// read reads a reply. Fields that are not ours are not looked at.
func read(reply []any) (a answer, err error) {
	const numbers = 9
	var n [numbers]int64
	if len(reply) != numbers+1 {
		return a, errReply
	}
	for i := range n {
		v, ok := reply[i].(int64)
		if !ok {
			return a, errReply
		}
		n[i] = v
	}
	fields, ok := reply[numbers].([]any)
	if !ok {
		return a, errReply
	}
	a = answer{
		known: n[0] == 1, slice: n[1], markSlice: n[2], had: [3]int64{n[3], n[4], n[5]}, level: n[7],
		elapsed: time.Duration(n[8]) * time.Microsecond, fleet: map[int64][3]int64{},
	}
	for i := 0; i+1 < len(fields); i += 2 {
		name, _ := fields[i].(string)
		value, _ := fields[i+1].(string)
		if name == "" {
			continue
		}
		k := strings.IndexByte("sfw", name[len(name)-1])
		slice, badName := strconv.ParseInt(name[:len(name)-1], 10, 64)
		count, badCount := strconv.ParseInt(value, 10, 64)
		if k < 0 || badName != nil || badCount != nil {
			continue
		}
		counts := a.fleet[slice]
		counts[k] = max(0, count)
		a.fleet[slice] = counts
	}
	return a, nil
}

// accept takes the reply of a sync that began at a moment, and tells the breaker and the bucket.
func (j *journal) accept(at time.Time, reply []any) error {
	a, err := read(reply)
	if err != nil {
		return err
	}
	if !a.known {
		clear(j.own) // Redis was flushed, or does not know us yet
	}
	for k := range j.sent {
		// Redis had more than we know of if a reply was lost.
		if a.known {
			j.note(a.markSlice, k, a.had[k]-toInt(j.known[k]))
		}
		j.note(a.slice, k, toInt(j.sent[k])-a.had[k])
	}
	j.known, j.after, j.missed = j.sent, j.finished, nil
	j.netKnown, j.heard = j.net, at
	if j.period > 0 {
		grain := j.period / grains
		j.tally.Merge(at, grain, spread(j.others(a.slice, a.fleet), a.elapsed, grain))
	}
	if j.bucket.Full > 0 && j.tally.Bucket() == j.bucket {
		j.base = j.bucket.Move(j.level, a.level)
	}
	return nil
}

// miss notes that a sync that began at a moment did not come about. What is finished by now is told by a later one, unless
// that is more than a window away.
func (j *journal) miss(at time.Time) {
	if n := len(j.missed); n == 0 || at.Sub(j.missed[n-1].at) > j.window/parts {
		j.missed = append(j.missed, miss{at, j.finished})
	}
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
func (j *journal) others(now int64, fleet map[int64][3]int64) [][3]uint64 {
	maps.DeleteFunc(j.own, func(slice int64, _ [3]int64) bool { return !inWindow(now, slice) })
	all, own := byAge(now, fleet), byAge(now, j.own)
	others := make([][3]uint64, parts)
	for k := range 3 {
		// A reply that was lost leaves us unsure of the slice, not of the sum: what is not found in one is in another.
		var missing int64
		for age := range parts {
			left := all[age][k] - own[age][k] - missing
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

// inWindow reports whether a slice counts. One of the future was written before the server's clock was set back, or by
// another server; far in the future it is nonsense.
func inWindow(now, slice int64) bool { return slice > now-parts && slice <= now+parts }

// byAge adds up slices by age. Those of the future are as new as the present one.
func byAge(now int64, slices map[int64][3]int64) (sums [parts][3]int64) {
	for slice, counts := range slices {
		if !inWindow(now, slice) {
			continue
		}
		for k, n := range counts {
			sums[max(0, now-slice)][k] += n
		}
	}
	return sums
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
