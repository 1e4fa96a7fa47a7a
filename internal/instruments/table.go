package instruments

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/chainbudget/chainbudget-go/otelprop"
)

// Sort is the kind of an instrument.
type Sort uint8

// The kinds. All are observable.
const (
	Counter       Sort = iota
	UpDownCounter      // a sum that goes up and down
	Gauge
)

// String returns the kind's name in documents.
func (s Sort) String() string { return [...]string{"counter", "updowncounter", "gauge"}[s] }

// ID says which instrument a value is for.
type ID uint8

// The instruments, in the order of the table.
const (
	Calls ID = iota
	Attempts
	AttemptFailures
	AttemptWithin
	AttemptTime
	Retries
	Denials
	WouldDeny
	RetriesPrevented
	RepeatedCalls
	ClaimsReceived
	TokensLent
	TokensHome
	Holdout
	BreakerChanges
	BreakerStatus
	DependencyInfo
	RetriesDisabled
	BudgetTokens
	Requests
	TokensMinted
	TokensReturned
	TokensLost
	NoPurse
	ClaimsSent
	RetriesByHop
	ForeignRepeats
	RepeatedGrants
	HiddenRepeats
	ProfileMismatches
	WireRejections
	BaggageDropped
	LearnedOtherwise
	CatalogGeneration
	CatalogRejections

	// Count is how many instruments there are.
	Count = int(CatalogRejections) + 1
)

// Instrument is one line of the table.
type Instrument struct {
	Name string
	Sort Sort
	Unit string
	// Attributes are those beside otelprop.AttrService, which every instrument has.
	Attributes []attribute.Key
	// Moves says what it counts and when it moves. It is the instrument's description, too.
	Moves string

	float bool // its values are no whole numbers
}

var (
	perDependency = []attribute.Key{otelprop.AttrDependency}
	perProfile    = []attribute.Key{otelprop.AttrDependency, otelprop.AttrProfile}
)

// with returns what a list says, and more.
func with(list []attribute.Key, more ...attribute.Key) []attribute.Key {
	return append(list[:len(list):len(list)], more...)
}

// table is the one place that names the instruments.
var table = [Count]Instrument{
	Calls: {Name: "chainbudget.calls", Unit: "{call}", Attributes: perProfile,
		Moves: "Calls, when one begins, and those that an open breaker refuses at once."},
	Attempts: {Name: "chainbudget.attempts", Unit: "{attempt}", Attributes: perProfile,
		Moves: "Attempts sent: the first ones, retries and hedges, each when it goes out."},
	AttemptFailures: {Name: "chainbudget.attempt.failures", Unit: "{attempt}", Attributes: perProfile,
		Moves: "Attempts that failed, each when it ends. A canceled one has not failed."},
	AttemptWithin: {Name: "chainbudget.attempt.within", Unit: "{attempt}", Attributes: with(perProfile, otelprop.AttrWithin),
		Moves: "Attempts that were answered or failed within le seconds, cumulative as a histogram's buckets; a canceled one counts nowhere. Each counts when it ends; of an answer that is a stream, only the time until it began is taken."},
	AttemptTime: {Name: "chainbudget.attempt.time", Unit: "s", Attributes: perProfile, float: true,
		Moves: "The time that those attempts took, together."},
	Retries: {Name: "chainbudget.retries", Unit: "{retry}", Attributes: with(perProfile, otelprop.AttrKind, otelprop.AttrEntry),
		Moves: "Retries and hedges that were paid with a token of the chain, each when it goes out. A call that repeats a failed one and is charged for it is one, too."},
	Denials: {Name: "chainbudget.denials", Unit: "{denial}", Attributes: with(perProfile, otelprop.AttrReason, otelprop.AttrEntry),
		Moves: "Final refusals, by the gate that refused: a retry, a hedge, or a call before its first attempt."},
	WouldDeny: {Name: "chainbudget.would_deny", Unit: "{denial}", Attributes: with(perProfile, otelprop.AttrReason),
		Moves: "Retries that went out only because the mode is milder than `enforce`, by the gate that would have refused."},
	RetriesPrevented: {Name: "chainbudget.retries.prevented", Unit: "{retry}", Attributes: perProfile,
		Moves: "Retries that the profile's own attempts would still have made, when the SDK ends a call for the sake of others. It is a lower bound, which docs/metrics.md defines."},
	RepeatedCalls: {Name: "chainbudget.repeated_calls", Unit: "{call}", Attributes: perProfile,
		Moves: "Calls to an operation that had already failed in the same request: somebody retries around the SDK. A call that an open breaker refuses at once is not looked at."},
	ClaimsReceived: {Name: "chainbudget.claims.received", Unit: "{attempt}", Attributes: with(perProfile, otelprop.AttrClaim, otelprop.AttrOwner),
		Moves: "Failed attempts by the claim that came with them, each when it ends."},
	TokensLent: {Name: "chainbudget.tokens.lent", Unit: "{token}", Attributes: perProfile,
		Moves: "Tokens that went out in leases with attempts."},
	TokensHome: {Name: "chainbudget.tokens.home", Unit: "{token}", Attributes: perProfile,
		Moves: "Tokens of leases that came back."},
	Holdout: {Name: "chainbudget.holdout", Unit: "{retry}", Attributes: with(perProfile, otelprop.AttrOutcome),
		Moves: "Retries that ownership had refused and `chain.holdout` let through, by what came of them, each when it ends. A canceled one counts nowhere."},
	BreakerChanges: {Name: "chainbudget.breaker.changes", Unit: "{change}", Attributes: with(perDependency, otelprop.AttrState),
		Moves: "Changes of the breaker's state, by the new one, when an attempt or its end causes them."},
	BreakerStatus: {Name: "chainbudget.breaker.status", Sort: UpDownCounter, Unit: "1", Attributes: with(perDependency, otelprop.AttrState),
		Moves: "1 for the state that the breaker is in, 0 for the other two. Absent while the profile has no breaker."},
	DependencyInfo: {Name: "chainbudget.dependency.info", Sort: Gauge, Unit: "1", Attributes: with(perProfile, otelprop.AttrDigest, otelprop.AttrMode),
		Moves: "Always 1, with what is in force."},
	RetriesDisabled: {Name: "chainbudget.retries.disabled", Sort: Gauge, Unit: "1", Attributes: perDependency,
		Moves: "1 while the dependency's retries are switched off, by the catalog or at run time, else 0."},
	BudgetTokens: {Name: "chainbudget.dependency_budget.tokens", Sort: Gauge, Unit: "{token}", Attributes: perDependency, float: true,
		Moves: "What the dependency's own budget holds. Absent while the profile has none."},
	Requests: {Name: "chainbudget.requests", Unit: "{request}", Attributes: []attribute.Key{otelprop.AttrSource},
		Moves: "Inbound requests by what they brought, each when it arrives."},
	TokensMinted: {Name: "chainbudget.tokens.minted", Unit: "{token}", Attributes: []attribute.Key{otelprop.AttrSource},
		Moves: "Tokens made here, by what for."},
	TokensReturned: {Name: "chainbudget.tokens.returned", Unit: "{token}",
		Moves: "Tokens sent back to callers, with the answer."},
	TokensLost: {Name: "chainbudget.tokens.lost", Unit: "{token}",
		Moves: "Tokens of which nobody knows what became: leases without a return, and what was kept back from a return and not used."},
	NoPurse: {Name: "chainbudget.no_purse", Unit: "{call}",
		Moves: "Calls whose context belonged to no request: somebody lost it on the way."},
	ClaimsSent: {Name: "chainbudget.claims.sent", Unit: "{answer}", Attributes: []attribute.Key{otelprop.AttrClaim, otelprop.AttrOwner},
		Moves: "Answers to callers that wait for a return, by the claim sent with it. The owner is empty where nothing failed."},
	RetriesByHop: {Name: "chainbudget.retries.by_hop", Unit: "{retry}", Attributes: []attribute.Key{otelprop.AttrHop},
		Moves: "The retries again, by where in their chains this service made them: 0 at the entry, 99 there or deeper."},
	ForeignRepeats: {Name: "chainbudget.foreign_repeats", Unit: "{request}",
		Moves: "Inbound requests that a proxy's or gRPC's own counter announces as repetitions."},
	RepeatedGrants: {Name: "chainbudget.repeated_grants", Unit: "{request}",
		Moves: "Inbound requests whose grant had already arrived here: something repeats them and does not say so."},
	HiddenRepeats: {Name: "chainbudget.hidden_repeats", Unit: "{request}",
		Moves: "Outbound requests that the transport below repeated, or was kept from repeating, on its own."},
	ProfileMismatches: {Name: "chainbudget.profile.mismatches", Unit: "{request}", Attributes: []attribute.Key{otelprop.AttrCaller, otelprop.AttrKind},
		Moves: "Inbound requests whose caller uses another profile than the catalog pins, or, within `chain.grace`, what it pinned before."},
	WireRejections: {Name: "chainbudget.wire.rejections", Unit: "{value}", Attributes: []attribute.Key{otelprop.AttrReason},
		Moves: "Values on the wire that were not taken as they stood, by why."},
	BaggageDropped: {Name: "chainbudget.baggage.dropped", Unit: "{member}",
		Moves: "Other people's baggage members that found no room beside ours."},
	LearnedOtherwise: {Name: "chainbudget.learned_otherwise", Unit: "{failure}",
		Moves: "Failures whose cause learned edges would have found elsewhere, while they only observe (`chain.learn: observe`)."},
	CatalogGeneration: {Name: "chainbudget.catalog.generation", Sort: Gauge, Unit: "1",
		Moves: "How many catalogs were in force, the present one included."},
	CatalogRejections: {Name: "chainbudget.catalog.rejections", Unit: "{catalog}",
		Moves: "Changes of the catalog that were refused: the last good one stays in force."},
}

// Table returns the instruments in their order. The slice is the caller's own, what it refers to is not.
func Table() []Instrument { return append([]Instrument(nil), table[:]...) }
