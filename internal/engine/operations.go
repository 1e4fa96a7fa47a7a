package engine

import "sync/atomic"

const (
	operationSlots  = 256
	operationProbes = 8
	learnedAfter    = 16 // observations in a row
)

// operations is what a dependency's answers have taught, by operation: whether the callee is silent (answers without a
// return) or a leaf (its returns say that it called nobody). Either needs no lease. The table is fixed; operations that
// find no slot share one. The zero value is ready to use.
type operations struct {
	slots [operationSlots]operation
	other operation
}

type operation struct {
	key    atomic.Uint64
	silent atomic.Int32
	leaf   atomic.Int32
}

// find returns the slot of an operation. Key 0 is nobody's.
func (o *operations) find(key uint64) *operation {
	if key == 0 {
		return &o.other
	}
	for i := range uint64(operationProbes) {
		s := &o.slots[(key+i)%operationSlots]
		switch s.key.Load() {
		case key:
			return s
		case 0:
			if s.key.CompareAndSwap(0, key) || s.key.Load() == key {
				return s
			}
		}
	}
	return &o.other
}

// needsNoLease reports whether the callee would only send the tokens back, or never.
func (o *operation) needsNoLease() bool {
	return o.silent.Load() >= learnedAfter || o.leaf.Load() >= learnedAfter
}

// observe learns from one answer. A failure without a return teaches nothing: something in between may have made it.
func (o *operation) observe(success, hasReturn, leaf bool) {
	switch {
	case hasReturn:
		reset(&o.silent)
		if leaf {
			count(&o.leaf)
		} else {
			reset(&o.leaf)
		}
	case success:
		count(&o.silent)
	}
}

func count(n *atomic.Int32) {
	if n.Load() < learnedAfter {
		n.Add(1)
	}
}

func reset(n *atomic.Int32) {
	if n.Load() != 0 {
		n.Store(0)
	}
}

// HashSeed begins the hash that identifies an operation.
const HashSeed = 14695981039346656037

// HashString continues such a hash by a string: FNV-1a, which needs no state and is the same in every process.
func HashString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = HashByte(h, s[i])
	}
	return h
}

// HashByte continues such a hash by a byte.
func HashByte(h uint64, c byte) uint64 {
	const prime = 1099511628211
	return (h ^ uint64(c)) * prime
}
