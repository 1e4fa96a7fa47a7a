package incident

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/chainbudget/chainbudget-go/profiles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testSettings = Settings{Rate: 200, Duration: 8 * time.Second, Budget: 3, Seed: 5}

func TestArrivals(t *testing.T) {
	list := arrivals(testSettings)
	if len(list) != 1600 {
		t.Errorf("%d arrivals in 8 s at 200 a second", len(list))
	}
	grab := 0
	for i, a := range list {
		if a.grab {
			grab++
		}
		if from := time.Duration(i) * 5 * time.Millisecond; a.at < from || a.at >= from+5*time.Millisecond {
			t.Fatalf("arrival %d is at %s, outside of its slot", i, a.at)
		}
	}
	if grab < 900 || grab > 1020 {
		t.Errorf("%d of 1600 payments are Grab's, want about 960", grab)
	}
	if !reflect.DeepEqual(list, arrivals(testSettings)) {
		t.Error("the same seed gave another load")
	}
	other := testSettings
	other.Seed++
	if reflect.DeepEqual(list, arrivals(other)) {
		t.Error("another seed gave the same load")
	}
}

func TestP95(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)*time.Millisecond)
	}
	for _, tc := range []struct {
		list []time.Duration
		want float64
	}{
		{nil, 0},
		{[]time.Duration{7 * time.Millisecond}, 7},
		{hundred, 95},
		{hundred[:20], 99}, // 81 to 100: the 19th
	} {
		if got := p95(slices.Clone(tc.list)); got != tc.want {
			t.Errorf("p95 of %d values is %v, want %v", len(tc.list), got, tc.want)
		}
	}
}

func TestPeak(t *testing.T) {
	// Ten a second are asked for, and sent on twice each in the third second.
	w := &world{ledger: &ledger{}, grab: &service{}, goes: &service{}}
	add := func(at time.Duration, sent int) {
		w.grab.payments = append(w.grab.payments, &payment{arrived: at})
		for range sent {
			w.ledger.entries = append(w.ledger.entries, &entry{arrived: at})
		}
	}
	for i := range 40 {
		sent := 1
		if i >= 20 && i < 30 {
			sent = 2
		}
		add(time.Duration(i)*100*time.Millisecond, sent)
	}
	if got := w.peak(10); got != 2 {
		t.Errorf("the busiest second had %v times the load, want 2", got)
	}
	for range 10 {
		add(5*time.Second, 1)
	}
	if got := w.peak(10); got != 2 {
		t.Errorf("with a burst of users, the busiest second had %v times the load, want 2", got)
	}
	for range 30 {
		add(8*time.Second, 1)
	}
	if got := w.peak(10); got != 2 {
		t.Errorf("with a larger burst of users, the busiest second had %v times the load, want 2", got)
	}
}

func TestCatalog(t *testing.T) {
	for budget := 1; budget <= 5; budget++ {
		catalog, err := profiles.Load(Catalog(budget), "retry-catalog.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if catalog.Chain.Budget != budget {
			t.Errorf("the chain's budget is %d, want %d", catalog.Chain.Budget, budget)
		}
		e, err := catalog.Resolve("ledger", profiles.ReadHeavy)
		if err != nil || !e.Pinned || e.Profile.Name != "ledger-payment" {
			t.Errorf("the ledger's profile is %v, pinned %t, %v", e.Profile.Name, e.Pinned, err)
		}
	}
	if !bytes.Equal(Catalog(3), catalogFile) {
		t.Error("the file does not have the default budget of 3")
	}
}

// An interrupt in the middle ends both runs at once, with what the servers counted until then.
func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := testSettings
	s.Duration = 2 * time.Minute
	r, err := Run(ctx, s, t.TempDir(), func(p Progress) {
		if p.Before > 0 && p.After > 0 && p.Elapsed > time.Second {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Complete || len(r.Targets) > 0 || r.Seconds < 1 || r.Seconds > 60 {
		t.Errorf("complete %t after %v s with %d targets, want a run that was cut short", r.Complete, r.Seconds, len(r.Targets))
	}
	for _, side := range []*Side{&r.Before, &r.After} {
		load := int64(0)
		for _, tick := range side.Ticks {
			load += int64(tick.Load)
		}
		if l := side.Ledger; load == 0 || load != l.Arrivals || l.Served == 0 || l.Served+l.Failed+l.Rejected+l.Abandoned > l.Arrivals {
			t.Errorf("%s: %d arrivals in the timeline, the ledger counted %+v", side.Name, load, l)
		}
	}
}

// pay sends one request straight into a ledger.
func (l *ledger) pay(id string) (status int) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set(paymentHeader, id)
	r.Header.Set(callerHeader, "grab")
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w.Code
}

func TestLedgerServesItsCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(testSettings, time.Now())
		defer l.close()
		start := time.Now()
		codes := make(chan int, 100)
		for i := range 56 { // five in service, fifty that wait, one too many
			go func() { codes <- l.pay(strconv.Itoa(i)) }()
			synctest.Wait()
		}
		rejected := 0
		for range 56 {
			if <-codes == http.StatusServiceUnavailable {
				rejected++
			}
		}
		// 55 requests of 20 ms, five at a time.
		if took := time.Since(start); took != 220*time.Millisecond || rejected != 1 {
			t.Errorf("%d rejected, the rest took %s: want 1 and 220 ms", rejected, took)
		}
		c := l.counts
		if c.Arrivals != 56 || c.Served != 55 || c.Rejected != 1 || c.QueueMax != 50 || c.Retries != 0 || c.RejectedForRetry != 0 {
			t.Errorf("the ledger counted %+v", c)
		}
	})
}

func TestLedgerCountsWritesThatARetryPushedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(testSettings, time.Now())
		defer l.close()
		l.pay("again")
		done := make(chan int, 100)
		for i := range 55 {
			id := strconv.Itoa(i)
			if i == 30 {
				id = "again"
			}
			go func() { done <- l.pay(id) }()
			synctest.Wait()
		}
		if l.pay("late") != http.StatusServiceUnavailable || l.pay("again") != http.StatusServiceUnavailable {
			t.Error("a full queue took in more")
		}
		for range 55 {
			<-done
		}
		if c := l.counts; c.Retries != 2 || c.RejectedForRetry != 1 || c.Rejected != 2 {
			t.Errorf("the ledger counted %+v: want 2 retries and 1 write rejected because of one", c)
		}
		if l.tainted {
			t.Error("an idle ledger still blames the retry")
		}
	})
}

func TestLedgerBlips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testSettings
		s.Blips = 0.2
		s.Duration = time.Hour // well all the time
		l := newLedger(s, time.Now())
		defer l.close()
		failed := 0
		for i := range 200 {
			from := time.Now()
			if l.pay(strconv.Itoa(i)) != http.StatusOK {
				failed++
			}
			if took := time.Since(from); took != serviceTime {
				t.Fatalf("a request took %s", took)
			}
		}
		if failed < 20 || failed > 60 {
			t.Errorf("%d of 200 failed, want about 40", failed)
		}
	})
}

func TestLedgerFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := newLedger(testSettings, start)
		defer l.close()
		timer := time.NewTimer(testSettings.faultFrom())
		<-timer.C
		failed := 0
		for i := range 10 {
			from := time.Now()
			if l.pay(strconv.Itoa(i)) != http.StatusOK {
				failed++
			}
			if took := time.Since(from); took != faultFactor*serviceTime {
				t.Fatalf("a request in the fault took %s", took)
			}
		}
		if failed < 2 || failed > 8 {
			t.Errorf("%d of 10 failed, want about half", failed)
		}
		timer.Reset(testSettings.faultTo() - time.Since(start))
		<-timer.C
		from := time.Now()
		if status := l.pay("after"); status != http.StatusOK || time.Since(from) != serviceTime {
			t.Errorf("after the fault: status %d in %s", status, time.Since(from))
		}
	})
}
