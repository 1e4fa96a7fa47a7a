package rolling

import (
	"cmp"
	"slices"
	"time"
)

// maxOlder bounds the blocks of earlier rings that are kept apart. More come together only where the span changes many
// times within one window.
const maxOlder = 64

// aged is a block of an earlier ring. It still counts what those who hold it add.
type aged struct {
	block *Block
	end   time.Duration // all in it began before
}

// TakeOver makes r, which measures another span from the same start, count what old has at elapsed. An old slice
// that straddles the beginning of the new window is counted whole: what is still in both windows is never dropped. It is
// called before r is shared, and once more when nobody begins a new slice of old any longer, for slices that have begun
// in between; not concurrently with itself.
func (r *Ring) TakeOver(old *Ring, elapsed time.Duration) {
	age, from := old.age(elapsed), r.from(elapsed)
	var list []aged
	if older := old.older.Load(); older != nil {
		for _, a := range *older {
			if a.end > from && a.end > old.from(elapsed) {
				list = append(list, a)
			}
		}
	}
	for i := range old.blocks {
		b := old.blocks[i].Load()
		if b == nil || b.age <= age-parts {
			continue
		}
		if end := min(time.Duration(b.age+1)*old.Period, elapsed+1); end > from {
			list = append(list, aged{b, end})
		}
	}
	if len(list) > maxOlder {
		list = r.fold(list)
	}
	if len(list) > 0 {
		r.older.Store(&list)
	}
}

// fold puts together what leaves r's window at the same moment. Who holds one of these blocks since before the last
// change of the span, and adds to it without asking whether there was one, adds in vain.
func (r *Ring) fold(list []aged) []aged {
	slices.SortFunc(list, func(a, b aged) int { return cmp.Compare(a.end, b.end) })
	var folded []aged
	for _, a := range list {
		last := len(folded) - 1
		if last < 0 || (folded[last].end-1)/r.Period != (a.end-1)/r.Period {
			folded = append(folded, aged{&Block{cells: make([]cell, 1)}, a.end})
			last++
		}
		var s Sums
		a.block.addTo(&s)
		c := &folded[last].block.cells[0]
		c.ok.Add(s.OK)
		c.failed.Add(s.Failed)
		c.slow.Add(s.Slow)
		folded[last].end = a.end
	}
	return folded
}
