package work

import (
	"context"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// publish sends a record whose header says where it comes from.
func publish(ctx context.Context, client *kgo.Client, service string, record *kgo.Record) error {
	propagator.Inject(otelprop.ContextWithRequest(ctx, message(service, service, 1)), headers{record})
	return client.ProduceSync(ctx, record).FirstErr()
}

// message is what the header of a record says: the service that made it, the one that publishes it, and how often it has been
// tried. It carries no token, because nobody would bring one back.
func message(entry, caller string, attempt int) *otelprop.Request {
	return &otelprop.Request{
		Hop: 1, Nonce: otelprop.Nonce(rand.Uint32()), Entry: entry, Caller: caller, Attempt: uint8(min(attempt, otelprop.MaxAttempt)),
	}
}
