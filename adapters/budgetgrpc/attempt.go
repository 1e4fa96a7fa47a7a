package budgetgrpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/member"
	"github.com/chainbudget/chainbudget-go/otelprop"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// attempt is one attempt, and its context. It also stands among the call's credentials, which gRPC asks just before each
// sending of a request: so it sees what gRPC, or a layer between, repeats on its own, and can stop it.
type attempt struct {
	engine.Attempt
	x *call

	member string // the baggage member of its wire; "" = it has none
	values [2]string
	lease  bool        // the request carries tokens
	timer  *time.Timer // streams: until the answer begins

	// What the call options below fill in as a stream ends.
	header, trailer metadata.MD
	peer            peer.Peer

	mu       sync.Mutex
	sendings int   // streams begun in the run of gRPC's machinery that is under way
	tries    int   // sendings of the latest run that has ended
	runs     int   // runs that have ended
	repeated bool  // something between this layer and gRPC made another run
	vetoed   bool  // a sending was stopped
	outcome  error // of the latest run that was not stopped
	settled  bool  // streams: nothing more is learned of the attempt
}

// maxSendings bounds how often gRPC may try to send one attempt: by itself it tries again without end on connections that
// turn out to be closing.
const maxSendings = 8

// The errors of a sending that was stopped. Their codes are such that gRPC does not repeat them.
var (
	errRepeated     = status.Error(codes.Internal, "chainbudget: a layer below repeated the request with the same tokens; it was stopped")
	errRefusedTwice = status.Error(codes.Unavailable, "chainbudget: the callee refused the request twice without processing it")
	errStorm        = status.Error(codes.Unavailable, "chainbudget: every connection closed before the request could be sent")
)

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (a *attempt) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	if err := a.sending(); err != nil {
		return nil, err
	}
	if a.x.creds != nil {
		return a.x.creds.GetRequestMetadata(ctx, uri...)
	}
	return nil, nil
}

// RequireTransportSecurity implements [credentials.PerRPCCredentials].
func (a *attempt) RequireTransportSecurity() bool {
	return a.x.creds != nil && a.x.creds.RequireTransportSecurity()
}

var _ credentials.PerRPCCredentials = (*attempt)(nil)

// sending notes one more sending, and returns why it must not happen.
func (a *attempt) sending() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	again := a.runs > 0 && a.sendings == 0
	a.sendings++
	if again {
		a.repeated = true
	}
	if again || a.sendings > 1 {
		a.x.Dependency().SDK().HiddenRepeat()
	}
	switch {
	case again && a.lease && !challenged(a.outcome):
		a.vetoed = true
		return errRepeated
	case a.sendings > 1 && a.x.freed:
		a.vetoed = true
		return errRefusedTwice
	case a.sendings > maxSendings:
		a.vetoed = true
		return errStorm
	}
	return nil
}

// finished is called by gRPC as a run of its machinery ends.
func (a *attempt) finished(err error) {
	a.mu.Lock()
	a.runs++
	a.tries, a.sendings = a.sendings, 0
	if !a.repeated || !a.vetoed {
		a.outcome = err
	}
	a.mu.Unlock()
}

// challenged reports whether the callee refused the caller and not the request: a layer below may have better credentials
// now, or have more to ask.
func challenged(err error) bool {
	switch status.Code(err) {
	case codes.OK, codes.Unauthenticated, codes.PermissionDenied:
		return true
	}
	return false
}

// options are the caller's call options with those of the attempt.
func (a *attempt) options() []grpc.CallOption {
	own := a.x.opts
	opts := make([]grpc.CallOption, len(own), len(own)+6)
	copy(opts, own)
	return append(opts, grpc.Header(&a.header), grpc.Trailer(&a.trailer), grpc.Peer(&a.peer), grpc.PerRPCCredentials(a), grpc.OnFinish(a.ended), nothingKept)
}

// nothingKept takes gRPC's retries off a call once it has sent something: those by policy, and the transparent one, which
// can end a stream with io.EOF, as if it had been a success, where it fails. What was refused is sent again here.
var nothingKept = grpc.MaxRetryRPCBufferSize(0)

// ended is what gRPC calls when it is done with the attempt.
func (a *attempt) ended(err error) {
	a.finished(err)
	if s := a.x.stream; s != nil {
		s.settleAttempt(a, err)
	}
}

// stop ends the wait for the answer to a stream.
func (a *attempt) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// left reports whether the latest sending of the request reached a connection.
func (a *attempt) left() bool { return a.peer.Addr != nil }

// answered reports whether the callee, or something in between, answered in gRPC.
func (a *attempt) answered() bool { return len(a.header) > 0 || len(a.trailer) > 0 }

// late reports whether the time is over that the attempt, or the caller, has.
func (a *attempt) late() bool {
	deadline, limited := a.Deadline()
	return limited && !time.Now().Before(deadline)
}

// history is what happened below in an attempt.
type history struct {
	repeated bool  // a layer below made more than one run of gRPC's machinery
	stopped  bool  // the latest sending was stopped
	tries    int   // how often gRPC tried to send, in the latest run
	outcome  error // what came of the run before the one that was stopped
}

func (a *attempt) history() history {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := history{repeated: a.repeated, stopped: a.vetoed, tries: a.tries}
	if a.repeated && a.vetoed {
		h.outcome = a.outcome
	}
	return h
}

// Value implements [context.Context].
func (a *attempt) Value(key any) any {
	if key == member.Key && a.member != "" {
		return member.With(a.Parent(), a.member).Value(key)
	}
	return a.Attempt.Value(key)
}

// prepare makes the context of one attempt: with metadata of its own, on which its wire is.
func (x *call) prepare(a *attempt, now time.Time) context.Context {
	limit, limited := x.AttemptLimit(now)
	if x.desc != nil && x.desc.ClientStreams {
		limited = false // when the callee answers is up to what the caller sends
	}
	parent := x.Parent()
	md, _ := metadata.FromOutgoingContext(parent) // a copy
	md = x.clean(md)
	if x.external {
		parent = member.Strip(parent) // instrumentation below would write the baggage that it finds there
		if lines := md[otelprop.BaggageHeader]; len(lines) > 0 {
			if kept, _ := otelprop.StripBaggage(lines); len(kept) > 0 {
				md[otelprop.BaggageHeader] = kept
			} else {
				delete(md, otelprop.BaggageHeader)
			}
		}
	}
	ignored := x.Policy().Deadlines() == profiles.DeadlinesIgnore
	if !x.external {
		var left time.Duration
		if deadline, ok := parent.Deadline(); ok {
			left = max(deadline.Sub(now), time.Millisecond)
		}
		if limited && x.desc == nil {
			left = limit // a stream lives on when its answer has begun
		}
		if ignored {
			left = 0
		}
		wire, n := x.Lend(left)
		x.write(a, md, wire, n)
	}
	a.Init(parent, &x.Call)
	switch {
	case !limited:
	case x.desc != nil:
		x.stream.arm(a, limit)
	case ignored:
		a.Arm(limit)
	default:
		a.ArmVisibly(limit) // gRPC tells the callee: grpc-timeout is the attempt's
	}
	return metadata.NewOutgoingContext(a, md)
}

// clean takes from outgoing metadata what is no caller's business, and returns metadata that can be written.
func (x *call) clean(md metadata.MD) metadata.MD {
	if md == nil {
		return make(metadata.MD, 2)
	}
	delete(md, otelprop.RequestHeader)
	delete(md, otelprop.ReturnHeader)
	if len(md[attemptMark]) > 0 {
		sdk := x.Dependency().SDK()
		sdk.Warn("grpc-outer-retry:"+x.Dependency().Name(), "chainbudget: a retry interceptor stands outside the SDK's: what it repeats is a "+
			"new call each time; take it out, the dependency's profile decides", "dependency", x.Dependency().Name(), "method", x.method)
	}
	return md
}

// attemptMark is what go-grpc-middleware's retry interceptor, and others after it, write on a repeated call.
const attemptMark = "x-retry-attempt"

// write puts the attempt's wire on its metadata, and gives the member to its context.
func (x *call) write(a *attempt, md metadata.MD, wire string, memberLen int) {
	member := wire[:memberLen]
	sdk := x.Dependency().SDK()
	lent, _ := x.Lent()
	a.lease = lent > 0
	a.member = member
	a.values = [2]string{wire[len(otelprop.MemberKey)+1:], member}
	if foreign := md[otelprop.BaggageHeader]; len(foreign) > 0 {
		merged, dropped := otelprop.MergeBaggage(foreign, member)
		a.values[1] = merged
		sdk.BaggageDropped(dropped)
	}
	md[otelprop.RequestHeader] = a.values[0:1:1]
	md[otelprop.BaggageHeader] = a.values[1:2:2]
	if x.Policy().Mesh() == profiles.MeshEnvoy {
		md["x-envoy-max-retries"] = envoyNoRetries
	}
	x.MarkWritten()
}

var envoyNoRetries = []string{"0"}
