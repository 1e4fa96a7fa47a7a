package profiles

import "strconv"

// Repeats says what becomes of a call that repeats a failed one of the same purse, dependency and operation: the trace
// of a caller's own retry loop around the SDK.
type Repeats uint8

// The ways to treat a repeated call.
const (
	RepeatsCount  Repeats = iota // count it, and let it go on
	RepeatsCharge                // take a token for it, as for a retry
	RepeatsRefuse                // refuse it
)

// Missing says what a failure means that came without a claim.
type Missing uint8

// The ways to read a missing claim.
const (
	MissingRetry Missing = iota // this hop is the first that can tell: it may retry
	MissingStop                 // do not retry
)

// Fund says what pays into a ratio budget.
type Fund uint8

// The sources of a ratio budget.
const (
	FundSuccesses Fund = iota // each successful call
	FundRequests              // each first attempt
)

// BudgetKind is the rule that a [Budget] follows.
type BudgetKind uint8

// The kinds of budget.
const (
	// BudgetRatio deposits Ratio for every unit of Fund, and a retry costs 1.
	BudgetRatio BudgetKind = iota
	// BudgetQuota is the retry quota of the AWS SDKs: a retry takes Cost or ThrottledCost units, a call that
	// succeeds after a retry gives back what its last retry took, and a first attempt that succeeds pays in 1.
	BudgetQuota
	// BudgetThrottle is gRPC's retry throttling: a failed attempt costs 1 token, a success pays Ratio, and retries pass
	// only while more than half of Burst is there. A retry itself costs nothing.
	BudgetThrottle
	// BudgetReserve is Finagle's and Linkerd's retry budget: retries within TTL stay below Ratio of the requests within
	// it, plus MinPerSecond for each second of it.
	BudgetReserve
)

// HintRule says what a server's wish ("retry after") does to the delay.
type HintRule uint8

// The rules for hints.
const (
	// HintAdd makes the hint a lower bound: hint + rand(0, ceiling). Nobody comes early, and nobody comes together.
	HintAdd HintRule = iota
	// HintClamp draws the delay t as if there were no hint, and moves the hint into [t, t + 5 s]: the AWS SDKs' rule.
	HintClamp
)

// OnFailure says whether a dependency's failure is the failure of whoever calls it.
type OnFailure uint8

// The declarations about failures.
const (
	OnFailureUndeclared OnFailure = iota // to be learned
	OnFailureClosed                      // its failure fails us
	OnFailureOpen                        // we answer without it
)

// Deadlines says whether the time left for an attempt goes to the callee.
type Deadlines uint8

// The ways to treat deadlines.
const (
	DeadlinesPropagate Deadlines = iota
	DeadlinesIgnore
)

// Mode says how much of the SDK acts on its findings.
type Mode uint8

// The modes, from nothing to everything.
const (
	ModeInherit Mode = iota // not set here: the chain's mode
	ModeBypass              // one attempt, no gates, no breaker, nothing on the wire
	ModeObserve             // carries and counts; what the chain, ownership and floor gates refuse goes on
	ModeBudget              // enforces all but ownership
	ModeEnforce             // enforces all
)

// Unknown says whose failure it is when nothing tells.
type Unknown uint8

// The last resorts.
const (
	UnknownCompare Unknown = iota // under LearnEnforce the failure rates decide; ties, and without it all failures, blame downstream
	UnknownClaim                  // it is ours
)

// Learning says what becomes of what the edges have taught about whose failure a failure is.
type Learning uint8

// The ways to use what was learned.
const (
	LearnObserve Learning = iota // count and show it
	LearnEnforce                 // and decide claims by it
)

// Placement says whether a dependency is inside, where tokens may go, or somebody else's.
type Placement uint8

// The declarations about where a dependency is.
const (
	PlacementByHost   Placement = iota // not declared: each request's host decides, see [Catalog.Internal]
	PlacementInternal                  // declared `external: false`
	PlacementExternal                  // declared `external: true`, or by a profile that is always external
)

// Mesh names a proxy below the dependency that repeats requests by itself.
type Mesh string

// The proxies that can be told to leave retries to us.
const (
	MeshNone  Mesh = ""
	MeshEnvoy Mesh = "envoy"
)

// One table for each setting: what the loader accepts is what String returns. An empty word cannot be written.
var (
	repeatsWords   = []string{"count", "charge", "refuse"}
	missingWords   = []string{"retry", "stop"}
	fundWords      = []string{"successes", "requests"}
	kindWords      = []string{"ratio", "quota", "throttle", "reserve"}
	hintWords      = []string{"add", "clamp"}
	onFailureWords = []string{"", "closed", "open"}
	deadlinesWords = []string{"propagate", "ignore"}
	modeWords      = []string{"", "bypass", "observe", "budget", "enforce"}
	unknownWords   = []string{"compare", "claim"}
	learningWords  = []string{"observe", "enforce"}
	placementWords = []string{"by host", "internal", "external"}
	meshWords      = []string{string(MeshNone), string(MeshEnvoy)}
)

// String returns the word that the catalog uses.
func (r Repeats) String() string { return word(repeatsWords, uint8(r), "") }

// String returns the word that the catalog uses.
func (m Missing) String() string { return word(missingWords, uint8(m), "") }

// String returns the word that the catalog uses.
func (f Fund) String() string { return word(fundWords, uint8(f), "") }

// String returns the word that the catalog uses.
func (k BudgetKind) String() string { return word(kindWords, uint8(k), "") }

// String returns the word that the catalog uses.
func (h HintRule) String() string { return word(hintWords, uint8(h), "") }

// String returns the word that the catalog uses, or "undeclared".
func (o OnFailure) String() string { return word(onFailureWords, uint8(o), "undeclared") }

// String returns the word that the catalog uses.
func (d Deadlines) String() string { return word(deadlinesWords, uint8(d), "") }

// String returns the word that the catalog uses, or "inherit".
func (m Mode) String() string { return word(modeWords, uint8(m), "inherit") }

// String returns the word that the catalog uses.
func (u Unknown) String() string { return word(unknownWords, uint8(u), "") }

// String returns the word that the catalog uses.
func (l Learning) String() string { return word(learningWords, uint8(l), "") }

// String returns "by host", "internal" or "external".
func (p Placement) String() string { return word(placementWords, uint8(p), "") }

// ParseMode reads a mode as the catalog and the environment spell it. An unknown word is not ok; there is no word for
// [ModeInherit].
func ParseMode(s string) (m Mode, ok bool) {
	for i, w := range modeWords {
		if w != "" && w == s {
			return Mode(i), true
		}
	}
	return ModeInherit, false
}

func word(words []string, i uint8, unset string) string {
	switch {
	case int(i) >= len(words):
		return "invalid(" + strconv.Itoa(int(i)) + ")"
	case words[i] == "":
		return unset
	}
	return words[i]
}
