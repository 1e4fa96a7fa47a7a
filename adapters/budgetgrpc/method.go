package budgetgrpc

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/chainbudget/chainbudget-go/internal/rpc"
)

// methods remembers what is known about the methods that a client calls.
type methods struct{ rpc.Methods[methodInfo] }

type methodInfo struct {
	shape      uint64
	idempotent bool
	limit      limit
	limited    bool
}

// of returns what is known about a full method name.
func (m *methods) of(method string, s *settings) *methodInfo {
	if known := m.Find(method); known != nil {
		return known
	}
	info := &methodInfo{
		shape:      rpc.Shape(method),
		idempotent: rpc.Listed(method, s.idempotent) || declaredIdempotent(method),
	}
	info.limit, info.limited = s.limits.of(method)
	return m.Keep(method, info)
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

// identify tells one request of a method from another, 0 where that is not known.
func (i *methodInfo) identify(request any) uint64 {
	m, ok := request.(proto.Message)
	if !ok || proto.Size(m) > rpc.MaxIdentified {
		return 0
	}
	b, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
	if err != nil {
		return 0
	}
	return rpc.Identify(i.shape, b)
}
