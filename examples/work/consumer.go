package work

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

// waitsHeader counts how often a record was put back because a dependency was not to be asked.
const waitsHeader = "waits"

// A consumer handles records, each in a chain of its own. What fails is published again to the retry topic, and in the end to the
// topic of the dead.
type consumer struct {
	client      *kgo.Client
	sdk         *chainbudget.SDK
	service     string
	retry, dead string
	attempts    int // deliveries in which the record itself may fail
	waits       int // deliveries in which a dependency may be out of reach
	handle      func(context.Context, *kgo.Record) error
}

// run consumes until ctx ends. Offsets are committed when every record of a poll was handled or published again, so that a
// crash delivers some twice and loses none.
func (c *consumer) run(ctx context.Context) error {
	for {
		fetches := c.client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return err
		}
		for record := range fetches.RecordsAll() {
			if err := c.consume(ctx, record); err != nil {
				return err
			}
		}
		if err := c.client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
	}
}

func (c *consumer) consume(ctx context.Context, record *kgo.Record) error {
	ctx = propagator.Extract(ctx, headers{record}) // takes the member out of the baggage, and has the sender's span for the link
	err := c.work(ctx, record)
	if err == nil {
		return nil
	}
	next := c.redelivery(ctx, record, err)
	return c.client.ProduceSync(ctx, next).FirstErr()
}

// work is one unit: the chain begins with the record's handling and ends with it. What the record's header says is not paid out.
func (c *consumer) work(ctx context.Context, record *kgo.Record) error {
	ctx, end := chainbudget.Start(ctx, c.sdk)
	defer end()
	return c.handle(ctx, record)
}

// redelivery returns the record that follows one which was not handled. There are two counters, because there are two reasons: a
// dependency that is down for an hour must not use up what the record has for failures of its own.
func (c *consumer) redelivery(ctx context.Context, record *kgo.Record, err error) *kgo.Record {
	next := &kgo.Record{Topic: c.retry, Key: record.Key, Value: record.Value, Headers: slices.Clone(record.Headers)}
	sent, _ := otelprop.RequestFromContext(ctx)
	attempt := max(int(sent.Attempt), 1)
	waits, _ := strconv.Atoi(headers{next}.Get(waitsHeader))
	var refused *breaker.OpenError
	if errors.As(err, &refused) {
		waits++
		headers{next}.Set(waitsHeader, strconv.Itoa(waits))
	} else {
		attempt++
	}
	if attempt > c.attempts || waits > c.waits {
		next.Topic = c.dead
	}
	if sent.Entry == "" {
		sent.Entry = c.service
	}
	propagator.Inject(otelprop.ContextWithRequest(ctx, message(sent.Entry, c.service, attempt)), headers{next})
	return next
}
