package budgetgrpc

import (
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
)

// methods remembers what is known about the methods that a client calls. The zero value is ready to use.
type methods struct {
	known sync.Map // full name → *methodInfo
	count atomic.Int32
}

// maxMethods bounds what is remembered: a proxy calls whatever it is asked to.
const maxMethods = 1024

type methodInfo struct {
	shape      uint64
	idempotent bool
	limit      limit
	limited    bool
}

// of returns what is known about a full method name.
func (m *methods) of(method string, s *settings) *methodInfo {
	if known, ok := m.known.Load(method); ok {
		return known.(*methodInfo)
	}
	info := &methodInfo{
		shape:      max(engine.HashString(engine.HashSeed, method), 1),
		idempotent: rpc.Listed(method, s.idempotent) || declaredIdempotent(method),
	}
	info.limit, info.limited = s.limits.of(method)
	if m.count.Load() < maxMethods {
		if _, loaded := m.known.LoadOrStore(strings.Clone(method), info); !loaded {
			m.count.Add(1)
		}
	}
	return info
}

// declaredIdempotent reports whether the method's own definition, linked into the program, says that it may run twice.
func declaredIdempotent(method string) bool {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	if !name.IsValid() {
		return false
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return false
	}
	options, ok := d.Options().(*descriptorpb.MethodOptions)
	if _, isMethod := d.(protoreflect.MethodDescriptor); !ok || !isMethod {
		return false
	}
	return options.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
}

// maxIdentified is up to which size a message is read to tell whether a call repeats a failed one.
const maxIdentified = 16 << 10

// identify tells one request of a method from another, 0 where that is not known: a loop around the SDK asks the same
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
