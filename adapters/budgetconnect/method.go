package budgetconnect

import (
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
)

// method returns what is known about a procedure.
func (c *client) method(spec connect.Spec) *connectrpc.Method {
	if known := c.methods.Find(spec.Procedure); known != nil {
		return known
	}
	return c.methods.Keep(spec.Procedure, &connectrpc.Method{
		Shape:      rpc.Shape(spec.Procedure),
		Kind:       connectrpc.Kind(spec.StreamType),
		Idempotent: spec.IdempotencyLevel != connect.IdempotencyUnknown || rpc.Listed(spec.Procedure, c.idempotent),
		MayGet:     spec.IdempotencyLevel == connect.IdempotencyNoSideEffects && spec.StreamType == connect.StreamTypeUnary,
		Identify:   identify,
	})
}

// identify tells one request of a procedure from another, 0 where that is not known.
func identify(shape uint64, request any) uint64 {
	m, ok := request.(proto.Message)
	if !ok || proto.Size(m) > rpc.MaxIdentified {
		return 0
	}
	b, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
	if err != nil {
		return 0
	}
	return rpc.Identify(shape, b)
}
