package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/internal/model"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// A replay does to real purses what a run of the model did to its own.
type replay struct {
	*rig
	hops   map[int]*replayedHop // by the model's process
	copies map[int]otelprop.Nonce
	nonce  otelprop.Nonce
	did    map[string]int
}

type replayedHop struct {
	Inbound
	leases [2]lease
}

// TestPurse_AgainstModel takes hundreds of random runs of the model and repeats each operation on a purse of this package:
// every answer and every balance is the same. So what is proved of the model is proved of these rules.
func TestPurse_AgainstModel(t *testing.T) {
	const seeds, chains = 20, "CHAINS=16"
	did := map[string]int{}
	for _, switches := range []string{
		"LOSS", "LOSS TIMERS CANCEL", "LOSS RESERVE=1 FAN1=1", "AGAIN TIMERS FAN0=1", "COPIES=1 CANCEL FAN0=1 FAN1=1", "EARLY CANCEL",
		"LOSS TIMERS CRASH AGAIN CANCEL EARLY COPIES=1 BARE",
	} {
		for seed := range seeds {
			trace, err := model.Simulate(t.Context(), seed, append(strings.Fields(switches), chains)...)
			require.NoError(t, err)
			r := replay{rig: newRig(t, "", "plain", 0, CallOptions{}), did: did}
			for line := range strings.Lines(string(trace)) {
				if !strings.HasPrefix(line, "@ ") {
					continue // spin's own last words
				}
				if err := r.step(line); err != nil {
					t.Fatalf("%s, seed %d: %v at %q of\n%s", switches, seed, err, line, trace)
				}
			}
		}
	}
	t.Log(did)
	for _, what := range []string{"Receive", "Receive again", "Receive a copy of nothing new", "Refund", "Lend", "Lend nothing", "Settle", "Settle again",
		"Keep", "Close", "End", "reserved", "mayComeHome", "exhausted", "settled", "home late"} {
		if did[what] < 20 {
			t.Errorf("%s happened %d times, want 20", what, did[what])
		}
	}
}

// reservationsOfModel are the model's names.
var reservationsOfModel = map[reservation]string{
	reserved: "reserved", mayComeHome: "mayComeHome", exhausted: "exhausted", settled: "settled",
}

// step repeats one operation: its line has the process, the operation, two arguments and the answer, and after "=" what the
// purse then was granted, holds, has lent, spent, lost and returned, and whether it is closed.
func (r *replay) step(line string) error {
	var (
		process, argument, other, closed int
		operation, answer                string
		want                             Balance
	)
	if _, err := fmt.Sscanf(line, "@ %d %s %d %d %s = %d %d %d %d %d %d %d\n", &process, &operation, &argument, &other, &answer,
		&want.Granted, &want.Held, &want.Lent, &want.Spent, &want.Lost, &want.Returned, &closed); err != nil {
		return err
	}
	want.Closed = closed != 0
	if operation == "Receive" {
		if err := r.receive(process, argument, other, answer, want.Granted); err != nil {
			return err
		}
	}
	h := r.hops[process]
	before := h.Balance()
	got := answer
	switch operation {
	case "Receive":
	case "Reserve":
		peeked := h.peek()
		got = reservationsOfModel[h.reserve()]
		if reservationsOfModel[peeked] != got {
			return fmt.Errorf("peek says %s", reservationsOfModel[peeked])
		}
		operation = got
	case "Refund":
		h.refund()
	case "Lend":
		l := h.lend(other, r.dep)
		got = fmt.Sprint(l.tokens)
		if l.tokens == 0 {
			operation = "Lend nothing"
		} else {
			h.leases[argument] = l
		}
	case "Settle":
		var retries int
		if _, err := fmt.Sscan(answer, &retries); err != nil {
			return err
		}
		l := &h.leases[argument]
		if l.tokens == 0 {
			operation = "Settle again"
		} else if before.Closed && other > 0 {
			r.did["home late"]++
		}
		h.settle(l, other, retries)
	case "Keep":
		got = fmt.Sprint(h.Keep(argument))
	case "Close":
		got = fmt.Sprint(h.Return(ownership.Verdict{}).Returned)
	case "End":
		h.End()
	default:
		return fmt.Errorf("the model does what the purse does not know")
	}
	r.did[operation]++
	if got != answer {
		return fmt.Errorf("the purse answers %s", got)
	}
	if balance := h.Balance(); balance != want {
		return fmt.Errorf("the purse has %+v", balance)
	}
	return nil
}

// receive makes the purse of a hop: an entry mints, any other gets what a request grants. Of requests that were delivered
// twice copy says which; both deliveries have one nonce.
func (r *replay) receive(process, level, copy int, offered string, granted int) error {
	if level == 0 {
		r.hops, r.copies = map[int]*replayedHop{}, map[int]otelprop.Nonce{}
	}
	var tokens int
	if _, err := fmt.Sscan(offered, &tokens); err != nil {
		return err
	}
	h := new(replayedHop)
	r.hops[process] = h
	if level == 0 {
		r.sdk.Arrive(&h.Inbound, Arrival{Entry: true, Budget: tokens})
		return nil
	}
	nonce, repeated := r.copies[copy]
	if !repeated {
		r.nonce++
		nonce = 1<<16 + r.nonce
		if copy > 0 {
			r.copies[copy] = nonce
		}
	}
	r.sdk.Arrive(&h.Inbound, Arrival{Wire: otelprop.Request{State: otelprop.Valid, Grant: uint8(tokens), Limit: 3, Hop: uint8(level),
		Nonce: nonce, Entry: "edge", Direct: true}})
	switch {
	case repeated && tokens > 0:
		r.did["Receive again"]++
	case repeated:
		r.did["Receive a copy of nothing new"]++
	}
	return nil
}
