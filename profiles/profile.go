package profiles

import (
	"slices"
	"strings"
	"time"
)

// Name names a profile. It is 1 to 40 of [a-z0-9_-], because it travels in a header beside the profile's digest.
type Name string

// The built-in profiles. A catalog may extend them under another name, and cannot redefine them.
const (
	ReadHeavy       Name = "read-heavy"       // idempotent reads that many callers make
	WritePath       Name = "write-path"       // writes; repeated only with a key, or where provably unsent
	LatencyCritical Name = "latency-critical" // a user waits
	Background      Name = "background"       // batch, cron, consumers
	ThirdParty      Name = "third-party"      // other people's services and limits; always external
	NoRetry         Name = "no-retry"         // one attempt: breaker and ownership only
	AWSStandard     Name = "aws-standard"     // the rules of the AWS SDKs' standard retry mode
	GoogleSRE       Name = "google-sre"       // the rules of the Google SRE book, "Handling Overload"
)

// Profile is a named, reviewed set of retry, backoff, budget and breaker settings. Profiles of a loaded [Catalog] are
// complete (nothing in them is "unset") and shared: do not change them. A profile made in code starts from [Default]
// and is checked with [Profile.Validate]; the zero Profile makes one attempt, with no
// breaker, bucket, throttle or floor.
type Profile struct {
	Name    Name // how the catalog calls it
	Extends Name // the profile it was derived from; "" = from the defaults

	Retry   Retry
	Backoff Backoff
	Budget  Budget  // zero = no bucket
	Breaker Breaker // zero = no breaker
	Hedge   Hedge   // zero = no hedges

	Throttle Throttle // adaptive_throttle; zero = none

	// ProcessBudget is how many retries a minute this process makes with this profile, over all dependencies that use
	// it: 0 to 1000000; 0 = no limit. [Chain.ProcessBudget] holds beside it.
	ProcessBudget int

	// AvailabilityFloor is a share, 0 to 1: no retry while the dependency's first-attempt success is below it. 0 = off.
	AvailabilityFloor float64

	// External says that everything called with this profile belongs to somebody else, whatever its host: it is
	// never sent a member, a header or a lease.
	External bool
}

// Retry says how often, and after what, a call is repeated.
type Retry struct {
	MaxAttempts    int           // attempts of one call, the first included: 1 to 99; 0 is read as 1
	Statuses       []int         // HTTP statuses worth a retry, 400 to 599, ascending; empty = none
	AttemptTimeout time.Duration // limit of each attempt, at most 1 h; 0 = none of its own
	Timeout        time.Duration // limit of the whole call, all attempts and waits, at most 1 h; 0 = none of its own
	Reserve        int           // tokens that a lease leaves in the purse: 0 to 99
	Repeats        Repeats       // what a repeated call costs
	Missing        Missing       // what a failure without a claim means
}

// RetryStatus reports whether the profile lists the HTTP status as worth a retry. It does not allocate.
func (r *Retry) RetryStatus(status int) bool {
	return slices.Contains(r.Statuses, status)
}

// Attempts returns MaxAttempts, at least 1.
func (r *Retry) Attempts() int {
	return max(1, r.MaxAttempts)
}

// Budget is the bucket of retries that all calls of one process to one dependency share, beside the tokens of each chain.
// The zero value is no bucket.
type Budget struct {
	Kind BudgetKind

	// Ratio is 0.0001 to 1. [BudgetRatio]: what one unit of Fund deposits; 0.1 is one retry for every ten.
	// [BudgetThrottle]: what a success pays. [BudgetReserve]: the share of the requests within TTL that may be repeated.
	// Unused by [BudgetQuota].
	Ratio float64

	// Fund says what deposits Ratio. [BudgetRatio] only.
	Fund Fund

	// Burst is the size of the bucket, and its level at the start: 1 to 100000 retries; [BudgetQuota]: units;
	// [BudgetThrottle]: 1 to 1000 tokens. Unused by [BudgetReserve], whose size is TTL times what each second brings.
	Burst int

	// Cost and ThrottledCost are what [BudgetQuota] takes for a retry after a transient failure and after a
	// throttled one, 1 to 100000 units. The other kinds have none.
	Cost, ThrottledCost int

	// MinPerSecond is how many retries a second [BudgetReserve] allows whatever the traffic is, in each process: 0 to
	// 100000. The other kinds have none.
	MinPerSecond int

	// TTL is how long a request counts for [BudgetReserve]: 1 s to 60 s. The other kinds have none.
	TTL time.Duration
}

// Enabled reports whether there is a bucket.
func (b Budget) Enabled() bool {
	if b.Kind == BudgetReserve {
		return b.TTL > 0
	}
	return b.Burst > 0
}

// Breaker sets the circuit breaker of one dependency. The zero value is no breaker.
type Breaker struct {
	Window       time.Duration // rolling window that attempts are counted over: 100 ms to 1 h
	FailureRatio float64       // opens at this share of failures in the window: 0.01 to 1
	MinRequests  int           // and not before so many finished attempts are in it: 1 to 1000000
	OpenFor      time.Duration // stays open so long, plus or minus 20 % drawn per process: 10 ms to 1 h
	Probes       int           // attempts let through while half-open; all must succeed to close: 1 to 1000

	// ProbeTimeout is how long a probe may be without a result before it gives its permit back: 10 ms to 1 h; 0 = OpenFor,
	// or a second more than Retry.AttemptTimeout where that is not below OpenFor.
	ProbeTimeout time.Duration

	// ConsecutiveFailures opens it after so many failures in a row, however few attempts are in the window: 1 to
	// 1000000; 0 = only the ratio does.
	ConsecutiveFailures int

	// SlowCall is how long an attempt takes at least to count as slow, whatever it answers: 1 ms to 1 h; 0 = none does.
	SlowCall time.Duration

	// SlowRatio opens it at this share of slow attempts in the window, 0.01 to 1. A catalog that sets slow_call alone
	// gets [DefaultSlowRatio]. Without SlowCall it is 0.
	SlowRatio float64

	// MaxInFlight is how many attempts may be on their way at once: 1 to 1000000; 0 = no limit.
	MaxInFlight int
}

// Enabled reports whether there is a breaker.
func (b Breaker) Enabled() bool { return b.Window > 0 }

// Hedge sets additional attempts that start beside the ones that have not answered yet; the first that does not fail
// counts, and the others are canceled. Each one is a retry: it costs a token and passes every gate but the backoff. Only
// calls that are idempotent and can be sent twice hedge, and those lend nothing. A function given to Do then runs
// concurrently with itself. The zero value is off.
type Hedge struct {
	After time.Duration // wait for an answer's headers before each hedge: 1 ms to 1 min
	Max   int           // hedges of one call, each one of its attempts: 1 to 9, and below MaxAttempts; 0 = off
}

// Enabled reports whether calls may hedge.
func (h Hedge) Enabled() bool { return h.Max > 0 }

// The values of what a catalog turns on without saying them.
const (
	DefaultSlowRatio      = 0.5             // breaker.slow_ratio beside breaker.slow_call
	DefaultThrottleWindow = 2 * time.Minute // adaptive_throttle.window; source: Google SRE book, "Handling Overload"
)

// Throttle is the client-side throttling of the Google SRE book, "Handling Overload": a process that saw requests and
// accepts within Window refuses each attempt itself with probability max(0, (requests - K*accepts) / (requests + 1)). The zero
// value is off.
type Throttle struct {
	K      float64       // how many times the accepted load goes through: 1.01 to 100; the book's is 2
	Window time.Duration // 1 s to 1 h
}

// Enabled reports whether attempts are throttled.
func (t Throttle) Enabled() bool { return t.K > 0 }

// DefaultStatuses returns the HTTP statuses that are worth a retry unless a profile lists others: 408, 421, 425, 429,
// 502, 503, 504. A 500 is an ordinary bug more often than a passing fault, so it has to be listed. The slice is the
// caller's own.
func DefaultStatuses() []int { return []int{408, 421, 425, 429, 502, 503, 504} }

// Default returns the values of every key that a profile does not set and does not inherit. It makes one attempt: how
// often to retry is never assumed.
func Default() Profile {
	return Profile{
		Retry:   Retry{MaxAttempts: 1, Statuses: DefaultStatuses()},
		Backoff: Backoff{Base: DefaultBase, ThrottledBase: DefaultThrottledBase, Cap: DefaultCap},
		Budget:  Budget{Ratio: 0.1, Burst: 10},
		Breaker: Breaker{
			Window: 10 * time.Second, FailureRatio: 0.5, MinRequests: 20,
			OpenFor: 5 * time.Second, Probes: 3,
		},
		AvailabilityFloor: 0.6,
	}
}

// Validate checks every range and every pair of settings that contradict each other, the same checks that a catalog
// file passes. The error is a [*CatalogError] that lists all problems.
func (p *Profile) Validate() error {
	var list problemList
	if p.Name != "" && !validProfileName(string(p.Name)) {
		list.add(Problem{Path: "name", What: quote(string(p.Name)) + " is not a profile name", Fix: fixProfileName})
	}
	checkProfile(p, func(string) bool { return false }, func(what, fix string, keys ...string) {
		list.add(Problem{Path: strings.Join(keys, ", "), What: what, Fix: fix})
	})
	return list.err("profile " + quote(string(p.Name)))
}

// An UnknownProfileError says that no profile has the name that was asked for, and which names there are.
type UnknownProfileError struct {
	Name       Name   // the name that does not exist; "" = none was given
	Dependency string // who was to use it
	Known      []Name // the names that exist, sorted
}

// Error names the dependency, the unknown profile and the profiles that exist.
func (e *UnknownProfileError) Error() string {
	var b strings.Builder
	b.WriteString("chainbudget: dependency ")
	b.WriteString(quote(e.Dependency))
	if e.Name == "" {
		b.WriteString(" has no profile; name one in code or in the catalog: ")
	} else {
		b.WriteString(" uses the unknown profile ")
		b.WriteString(quote(string(e.Name)))
		b.WriteString("; known are ")
	}
	b.WriteString(listNames(e.Known))
	return b.String()
}
