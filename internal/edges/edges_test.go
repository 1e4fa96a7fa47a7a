package edges

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestT18 is NUMBERS T18: how many failures classify.
func TestT18(t *testing.T) {
	for _, row := range []struct {
		n    float64
		low  float64
		want Class
	}{{15, .796, Unknown}, {16, .806, FailClose}, {50, .929, FailClose}} {
		low, high := Wilson(1, row.n)
		assert.InDelta(t, row.low, low, .0005)
		assert.InDelta(t, row.n/(row.n+3.84), low, .0005)
		assert.InDelta(t, 1, high, 1e-9)
		assert.Equal(t, row.want, classify(row.n, row.n))
		if row.want == FailClose {
			assert.Equal(t, FailOpen, classify(0, row.n), "the other side is the same")
		}
	}
	assert.Equal(t, Unknown, classify(0, 0))
	assert.Equal(t, Unknown, classify(16, 32), "mixed")
}

func fail(o *Operation, n int, both bool) {
	for range n {
		o.Record(time.Now(), both, []Call{{Dependency: "payments", Failed: true}})
	}
}

func TestEdges_classify_and_change(t *testing.T) {
	o := New(0).Operation("POST /checkout")
	fail(o, 15, true)
	assert.Equal(t, Unknown, o.Look("payments").Class)
	fail(o, 1, true)
	assert.Equal(t, FailClose, o.Look("payments").Class)
	fail(o, 10_000, true)
	for n := 1; ; n++ {
		fail(o, 1, false)
		if o.Look("payments").Class == FailOpen {
			t.Logf("reclassified as fail-open after %d failures", n)
			break
		}
		require.LessOrEqual(t, n, 100)
	}
	fail(o, 10_000, false)
	for n := 1; ; n++ {
		fail(o, 1, true)
		if o.Look("payments").Class == FailClose {
			t.Logf("reclassified as fail-close after %d failures", n)
			break
		}
		require.LessOrEqual(t, n, 100)
	}
	assert.Zero(t, o.Look("other"))
}

// TestClassify_needs_evidence: 15 alike say nothing, 16 do; both bounds of the 95 % interval count.
func TestClassify_needs_evidence(t *testing.T) {
	for _, c := range []struct {
		both, failed float64
		want         Class
	}{
		{0, 0, Unknown}, {15, 15, Unknown}, {16, 16, FailClose}, {0, 15, Unknown}, {0, 16, FailOpen},
		{80, 100, Unknown}, {90, 100, FailClose}, {20, 100, Unknown}, {10, 100, FailOpen}, {50, 100, Unknown},
	} {
		assert.Equal(t, c.want, classify(c.both, c.failed), "%v of %v", c.both, c.failed)
	}
}

func TestEdges_exact_causes_teach(t *testing.T) {
	o := New(0).Operation("GET /page")
	for range 20 {
		o.Record(time.Now(), true, []Call{
			{Dependency: "ads", Failed: true, Exact: true},
			{Dependency: "users", Failed: true, Exact: true, Cause: true},
		})
	}
	assert.Equal(t, FailOpen, o.Look("ads").Class, "it failed beside, and was not the cause")
	assert.Equal(t, FailClose, o.Look("users").Class)
}

func TestOperation_own_rate(t *testing.T) {
	o := New(0).Operation("GET /page")
	for i := range 1000 {
		o.Record(time.Now(), i%100 == 0, []Call{{Dependency: "users"}})
	}
	fail(o, 50, true)
	rate, n := o.Own()
	assert.InDelta(t, .01, rate, 1e-9)
	assert.Equal(t, int64(1000), n, "requests in which a dependency failed say nothing about us")
	for range 10 * ownWindow {
		o.learnOwn(false)
	}
	assert.Less(t, o.clean.Load(), int64(ownWindow))
	rate, _ = o.Own()
	assert.Less(t, rate, .001)
}

func TestEdges_fade_with_traffic_not_with_pauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := New(time.Minute)
		o := tb.Operation("GET /page")
		fail(o, 32, true)
		time.Sleep(48 * time.Hour)
		fail(o, 1, false)
		assert.InDelta(t, 32, o.Look("payments").Failed, .5, "a night without traffic forgets nothing")
		for range 600 {
			time.Sleep(500 * time.Millisecond)
			o.Record(time.Now(), false, nil)
		}
		fail(o, 1, false)
		assert.InDelta(t, keep+1, o.Look("payments").Failed, .5, "five half-lives of traffic fade, down to what is kept")
	})
}

func TestTable_is_bounded(t *testing.T) {
	tb := New(0)
	for i := range MaxOperations * 2 {
		tb.Operation(fmt.Sprint("op", i))
	}
	assert.Same(t, tb.other, tb.Operation("one more"))

	tb = New(0)
	o := tb.Operation("GET /page")
	for i := range MaxEdges / 100 {
		for j := range 101 {
			tb.Operation(fmt.Sprint("op", i)).Record(time.Now(), false, []Call{{Dependency: fmt.Sprint("dep", j)}})
		}
		if i == 0 {
			fail(o, 1, true)
		}
	}
	assert.LessOrEqual(t, tb.edges, MaxEdges)
	assert.NotZero(t, o.Look("payments").Failed, "an edge that never failed goes first")
}

// TestTable_memory: 10,000 edges take at most 4 MiB.
func TestTable_memory_NoRace(t *testing.T) {
	allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			tb := New(0)
			for i := range 1000 {
				o := tb.Operation(fmt.Sprint("GET /operation/", i))
				calls := make([]Call, 10)
				for j := range calls {
					calls[j] = Call{Dependency: deps[j], Failed: true}
				}
				o.Record(time.Now(), true, calls)
			}
			if tb.edges != MaxEdges {
				b.Fatal(tb.edges)
			}
		}
	})
	t.Logf("%d edges: %d bytes allocated in all", MaxEdges, allocated.AllocedBytesPerOp())
	assert.LessOrEqual(t, allocated.AllocedBytesPerOp(), int64(4<<20))
}

var deps = strings.Fields("a b c d e f g h i j")

func TestRecord_Allocs_nothing(t *testing.T) {
	o := New(0).Operation("GET /page")
	calls := []Call{{Dependency: "users"}, {Dependency: "ads", Failed: true}}
	o.Record(time.Now(), true, calls)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { o.Record(time.Now(), true, calls) }))
	tb := New(0)
	tb.Operation("GET /page")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { tb.Operation("GET /page") }))
}

func TestRecord_concurrent(t *testing.T) {
	tb := New(0)
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for i := range 500 {
				o := tb.Operation(fmt.Sprint("op", i%3))
				o.Record(time.Now(), i%2 == 0, []Call{{Dependency: "users", Failed: i%5 == 0}, {Dependency: deps[g%10]}})
				o.Look("users")
			}
		})
	}
	wg.Wait()
	requests := int64(0)
	for _, o := range tb.Memory().Operations {
		for _, e := range o.Edges {
			if e.Dependency == "users" {
				requests += e.Requests
			}
		}
	}
	assert.Equal(t, int64(32*500), requests)
}

func TestMemory_restart_and_merge(t *testing.T) {
	whole, left, right := New(0), New(0), New(0)
	for i := range 24 {
		calls := []Call{{Dependency: "users", Failed: true}, {Dependency: "ads", Failed: i%3 == 0}, {Dependency: "idle"}}
		failed := i != 7
		half := left
		if i%2 == 0 {
			half = right
		}
		for _, tb := range []*Table{whole, half} {
			tb.Operation("GET /page").Record(time.Now(), failed, calls)
			tb.Operation("GET /own").Record(time.Now(), i%4 == 0, nil)
		}
	}
	assert.Equal(t, whole.Memory(), Merge(left.Memory(), right.Memory()), "two instances' memories equal one that saw all")

	path := filepath.Join(t.TempDir(), "edges.json")
	m, err := Load(path)
	require.NoError(t, err, "no file yet")
	assert.Empty(t, m.Operations)
	require.NoError(t, whole.Save(path))
	m, err = Load(path)
	require.NoError(t, err)
	assert.Equal(t, whole.Memory(), m)
	again := New(0)
	again.Remember(m)
	assert.Equal(t, whole.Memory(), again.Memory())
	assert.Equal(t, whole.Operation("GET /page").Look("users"), again.Operation("GET /page").Look("users"))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no half-written file is left")
	assert.ErrorContains(t, whole.Save(filepath.Join(path, "nowhere")), "not saved")

	fail(whole.Operation("GET /page"), 1000, true)
	require.NoError(t, whole.Save(path))
	_, err = Load(path)
	assert.NoError(t, err, "full weights are readable again")
}

func TestDecode_refuses_whole(t *testing.T) {
	for name, text := range map[string]string{
		"empty":            ``,
		"half_written":     `{"version": 1, "operations": [{"name": "GET /pa`,
		"not_json":         `edges`,
		"older":            `{"version": 0, "operations": []}`,
		"newer":            `{"version": 2, "operations": []}`,
		"unknown_key":      `{"version": 1, "operations": [], "extra": 1}`,
		"more_after":       `{"version": 1, "operations": []} {}`,
		"operation_twice":  `{"version": 1, "operations": [{"name": "a"}, {"name": "a"}]}`,
		"edge_twice":       `{"version": 1, "operations": [{"name": "a", "edges": [{"dependency": "b"}, {"dependency": "b"}]}]}`,
		"both_above":       `{"version": 1, "operations": [{"name": "a", "edges": [{"dependency": "b", "failed": 1, "both": 2}]}]}`,
		"negative":         `{"version": 1, "operations": [{"name": "a", "edges": [{"dependency": "b", "failed": -1, "both": -1}]}]}`,
		"above_the_window": `{"version": 1, "operations": [{"name": "a", "edges": [{"dependency": "b", "failed": 1e9, "both": 1e9}]}]}`,
		"own_above_clean":  `{"version": 1, "operations": [{"name": "a", "clean": 1, "own": 2}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Decode([]byte(text))
			assert.ErrorContains(t, err, "chainbudget: saved edge")
			assert.Empty(t, m.Operations)
		})
	}
}

func FuzzDecode(f *testing.F) {
	tb := New(0)
	fail(tb.Operation("GET /page"), 3, true)
	data, _ := tb.Memory().Encode()
	f.Add(data)
	f.Add([]byte(`{"version": 1, "operations": [{"name": "a", "edges": [{"dependency": "b", "failed": 1e400}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data)
		if err != nil {
			return
		}
		again := New(0)
		again.Remember(m)
		for _, o := range again.Memory().Operations {
			for _, e := range o.Edges {
				if math.IsNaN(e.Failed) || e.Failed > window*1.01 || e.Both > e.Failed*1.000001 {
					t.Fatalf("%+v", e)
				}
				e.Class()
			}
		}
	})
}
