package work

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/baggage"

	"github.com/chainbudget/chainbudget-go/breaker"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
	"github.com/chainbudget/chainbudget-go/otelprop"
)

const readHeavyWithoutBreaker = `
version: 1
profiles:
  ledger:
    extends: read-heavy
    budget: disabled
    breaker: disabled
    availability_floor: 0%
`

// broker returns a client of an in-process Kafka, for producing and consuming.
func broker(t *testing.T) *kgo.Client {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "orders.retry", "orders.dead"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumerGroup("orders"),
		kgo.ConsumeTopics("orders", "orders.retry", "orders.dead"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// deliver publishes a record and runs the consumer until handle has called done. It returns the deliveries, the dead included.
func deliver(t *testing.T, c *consumer, handle func(ctx context.Context, delivery int) error) (deliveries []*kgo.Record) {
	t.Helper()
	c.client = broker(t)
	ctx, done := context.WithTimeout(t.Context(), 20*time.Second)
	defer done()
	c.retry, c.dead = "orders.retry", "orders.dead"
	c.handle = func(ctx context.Context, record *kgo.Record) error {
		deliveries = append(deliveries, record)
		if record.Topic == c.dead {
			done()
			return nil
		}
		err := handle(ctx, len(deliveries))
		if err == nil {
			done()
		}
		return err
	}
	order := &kgo.Record{Topic: "orders", Value: []byte("7"), Headers: []kgo.RecordHeader{{Key: "Chainbudget", Value: []byte("stale")}}}
	member, err := baggage.NewMember("tenant", "7")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	if err := publish(baggage.ContextWithBaggage(ctx, bag), c.client, "checkout", order); err != nil {
		t.Fatal(err)
	}
	if err := c.run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("after %d deliveries: %v", len(deliveries), err)
	}
	return deliveries
}

func TestRegression_A123_retry_topics_keep_one_header(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Service("billing"))
	c := &consumer{sdk: rec.SDK, service: "billing", attempts: 6}
	var seen []otelprop.Request
	deliveries := deliver(t, c, func(ctx context.Context, delivery int) error {
		r, _ := otelprop.RequestFromContext(ctx)
		seen = append(seen, r)
		if bag := baggage.FromContext(ctx); bag.Len() != 1 || bag.Member("tenant").Value() != "7" {
			t.Errorf("delivery %d: baggage in the context %q", delivery, bag)
		}
		if delivery <= 5 {
			return errors.New("the order is not there yet")
		}
		return nil
	})
	if len(deliveries) != 6 {
		t.Fatalf("%d deliveries, want 6", len(deliveries))
	}
	nonces := map[otelprop.Nonce]bool{}
	for i, record := range deliveries {
		values, members := ours(record, otelprop.RequestHeader)
		if baggages := (headers{record}).Values("baggage"); len(values) != 1 || members != 1 || len(baggages) != 1 {
			t.Errorf("delivery %d: headers %q, %d members in baggage %q", i+1, values, members, baggages)
		}
		r := seen[i]
		if r.State != otelprop.Valid || r.Grant != 0 || int(r.Attempt) != i+1 || r.Entry != "checkout" {
			t.Errorf("delivery %d says %+v", i+1, r)
		}
		nonces[r.Nonce] = true
	}
	if len(nonces) != 6 {
		t.Errorf("%d nonces in 6 deliveries", len(nonces))
	}
}

func TestRegression_A070_waiting_for_a_dependency_uses_up_no_attempt(t *testing.T) {
	down := &breaker.OpenError{Name: "ledger"}
	for _, test := range []struct {
		name            string
		attempts, waits int
		errs            []error // of the deliveries, in order; then success
		dead            bool
		attempt, waited int // what the last delivery says
	}{
		{"many_waits_then_errors", 3, 9, slices.Concat(slices.Repeat([]error{down}, 6), slices.Repeat([]error{errors.New("bad order")}, 2)), false, 3, 6},
		{"errors_end_it", 3, 9, slices.Concat(slices.Repeat([]error{down}, 2), slices.Repeat([]error{errors.New("bad order")}, 9)), true, 4, 2},
		{"waits_end_it", 3, 4, slices.Repeat([]error{down}, 9), true, 1, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec := chainbudgettest.New(t, chainbudgettest.Service("billing"))
			c := &consumer{sdk: rec.SDK, service: "billing", attempts: test.attempts, waits: test.waits}
			deliveries := deliver(t, c, func(_ context.Context, delivery int) error {
				if delivery <= len(test.errs) {
					return test.errs[delivery-1]
				}
				return nil
			})
			last := deliveries[len(deliveries)-1]
			r, _ := otelprop.RequestFromContext(propagator.Extract(t.Context(), headers{last}))
			waited, err := strconv.Atoi(headers{last}.Get(waitsHeader))
			if (last.Topic == "orders.dead") != test.dead || int(r.Attempt) != test.attempt || waited != test.waited || err != nil {
				t.Errorf("last delivery from %s says attempt %d, %d waits (%v)", last.Topic, r.Attempt, waited, err)
			}
			if waits := (headers{last}).Values(waitsHeader); len(waits) != 1 {
				t.Errorf("headers of waits: %q", waits)
			}
		})
	}
}

// Each delivery has the whole budget, and none has more: a consumer's poll of many records is no request.
func TestEachRecordIsAChainOfItsOwn(t *testing.T) {
	rec := chainbudgettest.New(t, chainbudgettest.Service("billing"), chainbudgettest.Catalog(readHeavyWithoutBreaker))
	ledger := rec.Dependency("ledger", "ledger")
	var runs []int
	deliver(t, &consumer{sdk: rec.SDK, service: "billing", attempts: 9}, func(ctx context.Context, delivery int) error {
		runs = append(runs, 0)
		err := chainbudget.Do(ctx, ledger, func(context.Context) error {
			runs[delivery-1]++
			return chainbudget.Retryable(errors.New("busy"))
		}, chainbudget.Idempotent())
		if delivery == 3 {
			return nil
		}
		return err
	})
	if !slices.Equal(runs, []int{4, 4, 4}) {
		t.Errorf("the three deliveries ran the call %v times, want one and three retries each", runs)
	}
	if totals := rec.SDK.Totals(); totals.Orphans != 0 || totals.NoPurse != 0 {
		t.Errorf("%d orphans, %d calls without a purse", totals.Orphans, totals.NoPurse)
	}
}
