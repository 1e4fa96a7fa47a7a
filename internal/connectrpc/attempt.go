package connectrpc

import (
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/internal/nethttp"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// What both versions call gRPC and gRPC-Web.
const (
	ProtocolGRPC    = "grpc"
	protocolGRPCWeb = "grpcweb"
)

// Attempt is one attempt, and its context. It watches net/http's connections where net/http is below.
type Attempt struct {
	engine.Attempt
	Watch nethttp.Watch

	x      *Call
	member string // the baggage member of its wire; "" = it has none
	values [2]string
	ends   time.Time // when its time is over, as the callee was told; zero = never

	// Streams:
	timer   *time.Timer // until the answer begins
	unhook  func() bool // from the caller's context
	settled bool        // nothing more is learned of the attempt
}

var _ nethttp.Watched = (*Attempt)(nil)

// Value implements [context.Context].
func (a *Attempt) Value(key any) any {
	if key == nethttp.TraceKey && !a.x.Passes { // the layer above watches
		return a.Watch.Trace(a.Parent(), a)
	}
	if key == member.Key {
		switch {
		case a.x.External: // instrumentation below would write the baggage that it finds here
			return member.Strip(a.Parent()).Value(key)
		case a.member != "":
			return member.With(a.Parent(), a.member).Value(key)
		}
	}
	return a.Attempt.Value(key)
}

// Repeated implements [nethttp.Watched].
func (a *Attempt) Repeated() { a.x.Dependency().SDK().HiddenRepeat() }

// Version implements [nethttp.Watched]. gRPC has only one.
func (a *Attempt) Version() int {
	if a.x.Protocol == ProtocolGRPC {
		return 2
	}
	return int(a.x.Method.version.Load())
}

// Spoke implements [nethttp.Watched].
func (a *Attempt) Spoke(major int) { a.x.Method.version.Store(int32(major)) }

// stop ends the wait for the answer to a stream.
func (a *Attempt) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// show makes the attempt's deadline visible. Connect tells the callee how much time there is in milliseconds, rounded down:
// the callee must not be done before the time is over, because what it says then is about the clock, and not about itself.
func (a *Attempt) show(deadline time.Time) {
	a.ends = deadline
	a.Show(deadline.Add(time.Millisecond))
}

// late reports whether the attempt's time is over, whether or not its timer has gone off yet.
func (a *Attempt) late() bool { return !a.ends.IsZero() && !time.Now().Before(a.ends) }

// Enter makes the attempt a context below the caller's, for a unary call with the time that its profile gives it. It is
// called before the attempt is shared.
func (x *Call) Enter(a *Attempt, now time.Time) {
	a.Init(x.Parent(), &x.Call)
	if deadline, ok := x.Parent().Deadline(); ok {
		a.show(deadline)
	}
	if limit, limited := x.AttemptLimit(now); limited && x.Method.Kind == Unary && !x.ignoresDeadlines() {
		a.show(time.Now().Add(limit))
	}
}

func (x *Call) ignoresDeadlines() bool { return x.Policy().Deadlines() == profiles.DeadlinesIgnore }

// Lend gives an attempt its share of tokens and time, and writes its wire on header, which is the attempt's own.
func (x *Call) Lend(a *Attempt, now time.Time, header member.Headers) {
	limit, limited := x.AttemptLimit(now)
	if x.Method.Streams() {
		limited = false // when the callee answers is up to what the caller sends
	}
	if !x.External {
		var left time.Duration
		if deadline, ok := x.Parent().Deadline(); ok {
			left = max(deadline.Sub(now), time.Millisecond)
		}
		if limited && x.Method.Kind == Unary {
			left = limit // a stream lives on when its answer has begun
		}
		if x.ignoresDeadlines() {
			left = 0
		}
		wire, n := x.Call.Lend(left)
		x.write(a, header, wire, n)
	}
	a.Watch.Unwritten = !x.Keyed && !x.Method.MayGet
	switch {
	case !limited:
	case x.Method.Kind == Unary:
		a.Arm(limit)
	default:
		a.arm(limit)
	}
}

// arm limits the attempt until its answer begins.
func (a *Attempt) arm(limit time.Duration) {
	a.timer = time.AfterFunc(limit, func() {
		if !a.Watch.Heard() {
			a.Cancel(engine.ErrAttemptTimeout)
		}
	})
}

// write puts the attempt's wire on its header, and gives the member to its context.
func (x *Call) write(a *Attempt, header member.Headers, wire string, memberLen int) {
	own := wire[:memberLen]
	lent, _ := x.Lent()
	a.Watch.Lease = lent > 0
	a.member = own
	a.values = [2]string{wire[len(otelprop.MemberKey)+1:], own}
	if foreign := header.Values(otelprop.HTTPBaggageHeader); len(foreign) > 0 {
		merged, dropped := otelprop.MergeBaggage(foreign, own)
		a.values[1] = merged
		x.Dependency().SDK().BaggageDropped(dropped)
	}
	header.SetValues(otelprop.HTTPRequestHeader, a.values[0:1:1])
	header.SetValues(otelprop.HTTPBaggageHeader, a.values[1:2:2])
	if x.Policy().Mesh() == profiles.MeshEnvoy {
		header.SetValues("X-Envoy-Max-Retries", envoyNoRetries)
	}
	x.MarkWritten()
}

var envoyNoRetries = []string{"0"}
