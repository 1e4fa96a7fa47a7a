package engine

import (
	"sync/atomic"
	"time"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

const (
	nonceSets   = 4096
	nonceWays   = 4
	nonceMemory = 60 // seconds
)

// nonces remembers which grants arrived lately, so that a request that something between the hops repeated brings its
// grant only once. It is a fixed table: an old nonce makes room for a new one of the same set.
type nonces struct {
	table atomic.Pointer[[nonceSets][nonceWays]atomic.Uint64] // made at the first nonce; an entry-only process never does
	start time.Time
}

// seen reports whether the nonce arrived within the last minute, and remembers it.
func (m *nonces) seen(n otelprop.Nonce, now time.Time) bool {
	t := m.table.Load()
	if t == nil {
		fresh := new([nonceSets][nonceWays]atomic.Uint64)
		if !m.table.CompareAndSwap(nil, fresh) {
			t = m.table.Load()
		} else {
			t = fresh
		}
	}
	second := uint32(now.Sub(m.start)/time.Second) + 1 // never 0, so that an entry is never an empty slot
	entry := uint64(n)<<32 | uint64(second)
	set := &t[uint32(n)%nonceSets]
	for {
		victim, oldest, found := 0, uint32(1<<32-1), uint64(0)
		for i := range set {
			e := set[i].Load()
			if e != 0 && uint32(e>>32) == uint32(n) && second-uint32(e) <= nonceMemory {
				return true
			}
			if uint32(e) < oldest {
				victim, oldest, found = i, uint32(e), e
			}
		}
		if set[victim].CompareAndSwap(found, entry) {
			return false
		}
	}
}
