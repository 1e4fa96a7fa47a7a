package budgetredis

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// replyOf makes a reply of Redis out of a text, one value a line: an integer, a string after a quote, or the rest of the lines as
// a list after a bracket. So a fuzzer can make every shape that the protocol has.
func replyOf(text string) (reply []any) {
	list := &reply
	var fields []any
	for line := range strings.SplitSeq(text, "\n") {
		n, err := strconv.ParseInt(line, 10, 64)
		switch {
		case line == "[":
			list = &fields
			reply = append(reply, nil)
		case line == "nil":
			*list = append(*list, nil)
		case err == nil:
			*list = append(*list, n)
		default:
			*list = append(*list, strings.TrimPrefix(line, `"`))
		}
	}
	if list == &fields {
		for i := range reply {
			if reply[i] == nil {
				reply[i] = fields
			}
		}
	}
	return reply
}

// FuzzReply has Redis, or whatever answers in its place, say anything: it is refused as a whole or taken, nothing panics, no
// count of others is more than was said, and the bucket stays within its bounds.
func FuzzReply(f *testing.F) {
	f.Add("1\n100\n100\n0\n0\n0\n0\n5000\n2500\n[\n\"100s\n\"7\n\"100f\n\"3\n\"99w\n\"1", "nil")
	f.Add("0\n0\n0\n0\n0\n0\n0\n0\n0\n[", "nil")
	f.Add("1\n-9223372036854775808\n9223372036854775807\n-1\n-1\n-1\n0\n-9223372036854775808\n9223372036854775807\n[\n\"9223372036854775807s\n\"9223372036854775807", "nil")
	f.Add("1\n100\n100\n0\n0\n0\n0\n9223372036854775807\n-1\n[\n\"100s\n\"9223372036854775807\n\"99s\n\"9223372036854775807\n\"\n\"x", "nil")
	f.Add("nil", "nil")
	catalog, err := profiles.Load([]byte("version: 1\ndependencies: {payments: {profile: read-heavy}}\n"), "fuzz.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		synctest.Test(t, func(t *testing.T) {
			sdk := new(engine.SDK)
			sdk.Init(engine.Config{Service: "checkout", Catalog: catalog})
			if _, _, err := sdk.Dependency("payments", profiles.ReadHeavy); err != nil {
				t.Fatal(err)
			}
			if !sdk.Share() {
				t.Fatal("not shared")
			}
			j := newJournal(sdk.Tallies()[0])
			for ordinal, text := range []string{first, second} {
				at := time.Now()
				keys, args := j.prepare(at, "chainbudget:", "fleet", "me", uint64(ordinal))
				if len(keys) != 3 || len(args) != 15 {
					t.Fatalf("%d keys, %d arguments", len(keys), len(args))
				}
				reply := replyOf(text)
				a, err := read(reply)
				if err == nil {
					fuzzOthers(t, j, a)
				}
				if got := j.accept(at, reply); (got == nil) != (err == nil) {
					t.Fatalf("read: %v, accepted: %v", err, got)
				}
				if level := j.bucket.Level(); level > j.bucket.Full || level < -j.bucket.Debt {
					t.Fatalf("level %d of %d, debt %d", level, j.bucket.Full, j.bucket.Debt)
				}
				time.Sleep(100 * time.Millisecond)
			}
			sdk.Unshare()
		})
	})
}

// fuzzOthers holds the sums of others against what was said.
func fuzzOthers(t *testing.T, j *journal, a answer) {
	said := byAge(a.slice, a.fleet)
	var most, got [3]float64
	for age := range said {
		for k, n := range said[age] {
			most[k] += max(0, float64(n))
		}
	}
	for _, counts := range j.others(a.slice, a.fleet) {
		for k, n := range counts {
			got[k] += float64(n)
		}
	}
	for k := range got {
		if got[k] > most[k]*(1+1e-9) {
			t.Fatalf("%v of others, %v said", got, most)
		}
	}
}
