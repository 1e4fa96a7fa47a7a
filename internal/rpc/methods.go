package rpc

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// Methods remembers what is known about the methods that a client calls. The zero value is ready to use, by many goroutines
// at once.
type Methods[T any] struct {
	known sync.Map // full name → *T
	count atomic.Int32
}

// maxMethods bounds what is remembered: a proxy calls whatever it is asked to.
const maxMethods = 1024

// Find returns what is known about a method, or nil.
func (m *Methods[T]) Find(name string) *T {
	known, _ := m.known.Load(name)
	info, _ := known.(*T)
	return info
}

// Keep remembers what is known about a method, and returns what is to be used from now on.
func (m *Methods[T]) Keep(name string, info *T) *T {
	if m.count.Load() >= maxMethods {
		return info
	}
	if had, loaded := m.known.LoadOrStore(strings.Clone(name), info); loaded {
		return had.(*T)
	}
	m.count.Add(1)
	return info
}

// Shape is what the engine knows a method by.
func Shape(name string) uint64 { return max(engine.HashString(engine.HashSeed, name), 1) }

// MaxIdentified is up to which size a message is read to tell whether a call repeats a failed one.
const MaxIdentified = 16 << 10

// Identify tells one request of a method from another by its message: a loop around the SDK asks the same again, while two
// orders are two requests.
func Identify(shape uint64, message []byte) uint64 {
	return max(engine.HashString(shape, string(message)), 1)
}
