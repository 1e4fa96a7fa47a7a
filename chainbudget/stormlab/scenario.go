package stormlab

import (
	"time"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// Scenario is a fleet, its traffic and what goes wrong. It is plain data: nothing of it is written by [Scenario.Run], so
// that one scenario may run several times at once.
type Scenario struct {
	// Name is what reports call it.
	Name string
	// Seed decides every random draw. The same scenario with the same seed gives the same result.
	Seed uint64
	// Duration is how long requests come, 1 ms to 24 h of virtual time. Those under way then end.
	Duration time.Duration
	// Interval is what the timeline counts by; 0 = 1 s. Duration may have at most 10,000 of it.
	Interval time.Duration
	// Cells is how many copies of the fleet share the traffic, 1 to 64; 0 = 1. Each has its own instances of all services,
	// with the full number of workers each, and an equal part of the traffic; no request goes from one cell to another.
	// Cells run side by side, so that as many as there are processors make a large run shorter.
	Cells int
	// Network is the time that an attempt takes on the wire, both ways together; the zero value is 0.2 to 0.4 ms.
	Network Latency
	// Services are the fleet, at most 1,000.
	Services []Service
	// Traffic is what comes from outside.
	Traffic []Traffic
	// Faults are what goes wrong, and when.
	Faults []Fault
	// Variants are the ways to run the fleet that are compared, at least one.
	Variants []Variant
	// Expect are the thresholds that decide whether the scenario passes.
	Expect []Threshold
}

// Service is one service of the fleet.
type Service struct {
	Name string
	// Work is the service's own time for each request, before its calls.
	Work Latency
	// Workers is how many requests it works on at once, 0 = any number; Queue is how many wait for a worker, and one more is
	// answered 503. A worker is busy for Work only, not while calls are out.
	Workers, Queue int
	// MaxInFlight is how many requests may be inside at once, calls included, 0 = any number; one more is answered 503.
	MaxInFlight int
	// Failure is the share of requests, 0 to 1, that it fails with 503 by its own fault: on arrival, or with FailsLate after its
	// calls have succeeded.
	Failure   float64
	FailsLate bool
	// Calls are what it needs for a request: one after the other, or all at once with Parallel.
	Calls    []Call
	Parallel bool
	// MeshRetries is how many times a proxy in front of the service sends a request again that was answered 5xx, 0 to 10. The
	// copies are the same but for x-envoy-attempt-count, and x-envoy-max-retries: 0 turns them off.
	MeshRetries int
	// PlainErrors says that its handler answers a failed call with 502 and tells the SDK nothing.
	PlainErrors bool
}

// Call is one call that a service makes for each request.
type Call struct {
	// To is the service called.
	To string
	// Times is how many such calls it makes, 0 = 1.
	Times int
	// Share is the share of requests that need it, above 0 to 1; 0 = 1. It is drawn for what the request is about, so that a
	// repeated attempt needs the same calls as the first one, and a client that asks again for what failed, too.
	Share float64
	// Optional says that the request goes on without it when it fails.
	Optional bool
	// Write says that the call is a POST, which the SDK does not repeat on its own.
	Write bool
}

// Latency is a distribution of times: even between Min and Max, exponential around Mean, or lognormal through P50 and P99. Only
// one of the three may be set. Each draw is up to a microsecond longer, and none is longer than an hour.
type Latency struct {
	Min, Max, Mean, P50, P99 time.Duration
}

// Traffic is requests from outside to one service, where their chains begin. There are two forms. With Rate requests
// come by themselves, so many a second and at random, or with Even in equal distances. With Clients each of so many
// clients asks once every Every, and once every RetryEvery while its latest request has failed (0 = Every); a client does not
// ask again before it has an answer.
type Traffic struct {
	To                string
	Rate              float64
	Even              bool
	Clients           int
	Every, RetryEvery time.Duration
	// From, before the end, and Until bound it; Until 0, and past the end, = to the end.
	From, Until time.Duration
}

// Fault is something that goes wrong from From, before the end of the traffic, to Until; 0, and past the end, = to the end.
type Fault struct {
	Kind FaultKind
	// Service is where it goes wrong. Caller, for cut only, is whose calls to it are cut; "" = everybody's.
	Service, Caller string
	From, Until     time.Duration
	// Share is the share of requests that it meets, above 0 to 1; 0 = 1.
	Share float64
	// Status is what FaultError answers, 400 to 599; 0 = 503. Factor is how many times as long FaultSlow takes, above 0.
	Status int
	Factor float64
}

// FaultKind is a way to go wrong.
type FaultKind string

// The kinds of faults.
const (
	// FaultError answers at once, with Status.
	FaultError FaultKind = "error"
	// FaultSlow makes Work take Factor times as long.
	FaultSlow FaultKind = "slow"
	// FaultHang does not answer until the caller has gone; after a minute it answers 503.
	FaultHang FaultKind = "hang"
	// FaultCrash refuses connections.
	FaultCrash FaultKind = "crash"
	// FaultCut loses requests on the way.
	FaultCut FaultKind = "cut"
	// FaultDropContext makes calls with a context that belongs to no request.
	FaultDropContext FaultKind = "drop_context"
	// FaultNoSDK makes the service one without the SDK: it makes one attempt and passes the baggage on. FaultNoBaggage drops
	// the baggage, too.
	FaultNoSDK     FaultKind = "no_sdk"
	FaultNoBaggage FaultKind = "no_baggage"
)

// Variant is one way to run the fleet.
type Variant struct {
	// Name is what reports call it, each once.
	Name string
	// Catalog is what SDKs run on; nil = the built-in one. A name of a service is also that of the dependency.
	Catalog *profiles.Catalog
	// Policy is how every service retries; the zero value is the SDK with the profile read-heavy where the catalog pins none.
	Policy Policy
	// Except are the services that do it otherwise.
	Except map[string]Policy
}

// Policy is how a service retries what it calls.
type Policy struct {
	Kind PolicyKind
	// Profile is what the SDK uses where the catalog pins none; "" = read-heavy. What follows is for the other kinds.
	Profile profiles.Name
	// Attempts is the most of a call, the first included; 0 = what is usual for the kind.
	Attempts int
	// Timeout limits each attempt; 0 = no limit.
	Timeout time.Duration
	// Base and Cap are of the backoff, rand(0, min(Cap, Base·2^n)), or with Fixed exactly Base; 0 = 1 ms and Base.
	Base, Cap time.Duration
	Fixed     bool
	// Budget is what a chain has under PolicyDownOnly. Ratio and Burst are of PolicyRatio: each call pays in Ratio, at most
	// Burst (0 = 10) is kept, and nothing is there at first.
	Budget int
	Ratio  float64
	Burst  int
}

// PolicyKind names a way to limit retries, for comparison: of the other systems each is built after what is published,
// without the parts that have nothing to do with retries.
type PolicyKind string

// The kinds of policies.
const (
	// PolicySDK is this SDK.
	PolicySDK PolicyKind = ""
	// PolicyNone makes one attempt.
	PolicyNone PolicyKind = "none"
	// PolicyNaive makes up to Attempts (3) whatever happens elsewhere.
	PolicyNaive PolicyKind = "naive"
	// PolicyRatio is naive with a budget of each caller for each dependency, funded by its calls.
	PolicyRatio PolicyKind = "ratio"
	// PolicyDownOnly has one budget for a chain that travels down and never back.
	PolicyDownOnly PolicyKind = "down_only"
	// PolicyChainStop is Kitex's: whoever serves a retry does not retry.
	PolicyChainStop PolicyKind = "chain_stop"
	// PolicyFinagle is Finagle's and Linkerd's budget: a fifth of the requests and ten a second, over ten seconds.
	PolicyFinagle PolicyKind = "finagle"
	// PolicyGRPC is gRPC's throttle: ten tokens, a failure takes one, a success pays in a tenth, and only above half of
	// them is retried.
	PolicyGRPC PolicyKind = "grpc"
	// PolicyAWS is the quota of the AWS SDKs since 2026: 500, of which a retry takes 14 until it succeeds.
	PolicyAWS PolicyKind = "aws"
)

// Threshold is what a metric must keep to in each variant, or in one.
type Threshold struct {
	Metric Metric
	// Service is whom it is about, for MetricLoad and the like; Variant which run, "" = each.
	Service, Variant string
	// From and Until are the intervals that count, those that begin between; at least one does. Until 0 = all that follow. Where
	// nothing in them can be measured, as without a request, the threshold is missed.
	From, Until time.Duration
	// Min and Max bound it, both included: shares as 0 to 1, loads as multiples, latencies in seconds. One of them is set; Min is not above Max.
	Min, Max *float64
	// Shows says in words what a value within the bounds shows, up to 200 bytes in one line; reports put it on top. "" = nothing.
	Shows string
}

// Metric is what a threshold is about.
type Metric string

// The metrics. Those with Service are a service's, the others the whole fleet's.
const (
	// MetricSuccess is the share of the requests from outside that succeeded; with a service, of what reached it.
	MetricSuccess Metric = "success"
	// MetricLoad is how many times the requests reached a service that would have without a single retry.
	MetricLoad Metric = "load"
	// MetricRetries is retries for each request from outside; with a service, those that it made.
	MetricRetries Metric = "retries"
	// MetricRadius is how many hops between a failure and the entry retried because of it, at most; MetricMeanRadius the mean of those for
	// which any did. A failure counts where it ends: at an attempt that succeeds, a call that is optional, or the entry.
	MetricRadius     Metric = "radius"
	MetricMeanRadius Metric = "mean_radius"
	// MetricP50, MetricP95 and MetricP99 are latencies of the requests from outside that succeeded.
	MetricP50 Metric = "p50"
	MetricP95 Metric = "p95"
	MetricP99 Metric = "p99"
)
