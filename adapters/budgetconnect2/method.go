package budgetconnect2

import (
	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	"github.com/chainbudget/chainbudget-go/internal/connectrpc"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
)

// method returns what is known about a procedure.
func (c *client) method(spec connect.Spec) *connectrpc.Method {
	if known := c.Known(spec.Procedure); known != nil {
		return known
	}
	level := spec.IdempotencyLevel
	return c.Learn(spec.Procedure, connectrpc.Kind(spec.StreamType),
		level != connect.IdempotencyUnknown, level != connect.IdempotencyNoSideEffects, identify)
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
