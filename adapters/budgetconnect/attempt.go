package budgetconnect

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/internal/nethttp"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// attempt is one attempt, and its context. It watches net/http's connections where net/http is below.
type attempt struct {
	engine.Attempt
	x *call

	member string // the baggage member of its wire; "" = it has none
	values [2]string
	watch  nethttp.Watch
	ends   time.Time // when its time is over, as the callee was told; zero = never

	// Streams:
	timer   *time.Timer // until the answer begins
	unhook  func() bool // from the caller's context
	settled bool        // nothing more is learned of the attempt
}

var _ nethttp.Watched = (*attempt)(nil)

// Value implements [context.Context].
func (a *attempt) Value(key any) any {
	if key == nethttp.TraceKey && !a.x.passes { // the layer above watches
		return a.watch.Trace(a.Parent(), a)
	}
	if key == member.Key {
		switch {
		case a.x.external: // instrumentation below would write the baggage that it finds here
			return member.Strip(a.Parent()).Value(key)
		case a.member != "":
			return member.With(a.Parent(), a.member).Value(key)
		}
	}
	return a.Attempt.Value(key)
}

// Repeated implements [nethttp.Watched].
func (a *attempt) Repeated() { a.x.Dependency().SDK().HiddenRepeat() }

// Version implements [nethttp.Watched]. gRPC has only one.
func (a *attempt) Version() int {
	if a.x.peer.Protocol == connect.ProtocolGRPC {
		return 2
	}
	return int(a.x.info.version.Load())
}

// Spoke implements [nethttp.Watched].
func (a *attempt) Spoke(major int) { a.x.info.version.Store(int32(major)) }

// stop ends the wait for the answer to a stream.
func (a *attempt) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// prepare makes the context of one attempt of a unary call, and writes its wire on header, which is the attempt's own.
func (x *call) prepare(a *attempt, now time.Time, header http.Header) context.Context {
	a.enter(x.Parent())
	x.lend(a, now, header)
	return a
}

// enter makes the attempt a context below the caller's. Connect tells the callee how much time there is in milliseconds,
// rounded down: the callee must not be done before the time is over, because what it says then is about the clock, and not
// about itself.
func (a *attempt) enter(parent context.Context) {
	a.Init(parent, &a.x.Call)
	if deadline, ok := parent.Deadline(); ok {
		a.show(deadline)
	}
}

func (a *attempt) show(deadline time.Time) {
	a.ends = deadline
	a.Show(deadline.Add(time.Millisecond))
}

// late reports whether the attempt's time is over, whether or not its timer has gone off yet.
func (a *attempt) late() bool { return !a.ends.IsZero() && !time.Now().Before(a.ends) }

// lend gives an attempt its share of tokens and time, and writes its wire on header.
func (x *call) lend(a *attempt, now time.Time, header http.Header) {
	limit, limited := x.AttemptLimit(now)
	if x.info.streams() {
		limited = false // when the callee answers is up to what the caller sends
	}
	stream := x.info.kind != connect.StreamTypeUnary
	ignored := x.Policy().Deadlines() == profiles.DeadlinesIgnore
	if !x.external {
		var left time.Duration
		if deadline, ok := x.Parent().Deadline(); ok {
			left = max(deadline.Sub(now), time.Millisecond)
		}
		if limited && !stream {
			left = limit // a stream lives on when its answer has begun
		}
		if ignored {
			left = 0
		}
		wire, n := x.Lend(left)
		x.write(a, header, wire, n)
	}
	a.watch.Unwritten = !x.keyed && !x.info.mayGet
	switch {
	case !limited:
	case stream:
		a.arm(limit)
	case ignored:
		a.Arm(limit)
	default:
		a.show(time.Now().Add(limit))
		a.Arm(limit)
	}
}

// arm limits the attempt until its answer begins.
func (a *attempt) arm(limit time.Duration) {
	a.timer = time.AfterFunc(limit, func() {
		if !a.watch.Heard() {
			a.Cancel(engine.ErrAttemptTimeout)
		}
	})
}

// write puts the attempt's wire on its header, and gives the member to its context.
func (x *call) write(a *attempt, header http.Header, wire string, memberLen int) {
	own := wire[:memberLen]
	sdk := x.Dependency().SDK()
	lent, _ := x.Lent()
	a.watch.Lease = lent > 0
	a.member = own
	a.values = [2]string{wire[len(otelprop.MemberKey)+1:], own}
	if foreign := header[otelprop.HTTPBaggageHeader]; len(foreign) > 0 {
		merged, dropped := otelprop.MergeBaggage(foreign, own)
		a.values[1] = merged
		sdk.BaggageDropped(dropped)
	}
	header[otelprop.HTTPRequestHeader] = a.values[0:1:1]
	header[otelprop.HTTPBaggageHeader] = a.values[1:2:2]
	if x.Policy().Mesh() == profiles.MeshEnvoy {
		header["X-Envoy-Max-Retries"] = envoyNoRetries
	}
	x.MarkWritten()
}

var envoyNoRetries = []string{"0"}
