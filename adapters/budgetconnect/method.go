package budgetconnect

import (
	"strings"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
)

// methods remembers what is known about the procedures that a client calls. The zero value is ready to use.
type methods struct {
	known sync.Map // procedure → *methodInfo
	count atomic.Int32
}

// maxMethods bounds what is remembered: a proxy calls whatever it is asked to.
const maxMethods = 1024

type methodInfo struct {
	shape      uint64
	kind       connect.StreamType
	idempotent bool
	mayGet     bool         // by HTTP GET
	version    atomic.Int32 // of HTTP, over connections without TLS; 0 = not known
}

// of returns what is known about a procedure.
func (m *methods) of(spec connect.Spec, patterns []string) *methodInfo {
	if known, ok := m.known.Load(spec.Procedure); ok {
		return known.(*methodInfo)
	}
	info := &methodInfo{
		shape:      max(engine.HashString(engine.HashSeed, spec.Procedure), 1),
		kind:       spec.StreamType,
		mayGet:     spec.IdempotencyLevel == connect.IdempotencyNoSideEffects && spec.StreamType == connect.StreamTypeUnary,
		idempotent: spec.IdempotencyLevel != connect.IdempotencyUnknown || rpc.Listed(spec.Procedure, patterns),
	}
	if m.count.Load() < maxMethods {
		if had, loaded := m.known.LoadOrStore(strings.Clone(spec.Procedure), info); loaded {
			return had.(*methodInfo)
		}
		m.count.Add(1)
	}
	return info
}

// streams reports whether the client sends more than one message.
func (i *methodInfo) streams() bool { return i.kind&connect.StreamTypeClient != 0 }

// maxIdentified is up to which size a message is read to tell whether a call repeats a failed one.
const maxIdentified = 16 << 10

// identify tells one request of a procedure from another, 0 where that is not known: a loop around the SDK asks the same
// again, while two orders are two requests.
func (i *methodInfo) identify(request any) uint64 {
	m, ok := request.(proto.Message)
	if !ok || proto.Size(m) > maxIdentified {
		return 0
	}
	b, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
	if err != nil {
		return 0
	}
	return max(engine.HashString(i.shape, string(b)), 1)
}
