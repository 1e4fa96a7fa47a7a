package otelprop

import "go.opentelemetry.io/otel/attribute"

// The names of what the SDK writes into the span around a call, or of a handler. docs/traces.md says when.
const (
	EventRetry   = "chainbudget.retry"
	EventDenied  = "chainbudget.denied"
	EventClaim   = "chainbudget.claim"
	EventBreaker = "chainbudget.breaker"
)

// The keys of attributes, in span events and in metrics alike. Without their prefix they are the words of log records.
const (
	AttrDependency attribute.Key = "chainbudget.dependency"
	AttrProfile    attribute.Key = "chainbudget.profile"
	AttrReason     attribute.Key = "chainbudget.reason"
	AttrClaim      attribute.Key = "chainbudget.claim"
	AttrOwner      attribute.Key = "chainbudget.owner"
	AttrEntry      attribute.Key = "chainbudget.entry"
	AttrHop        attribute.Key = "chainbudget.hop"
	AttrState      attribute.Key = "chainbudget.state"

	// Of metrics only; docs/metrics.md has their values.
	AttrService attribute.Key = "chainbudget.service"
	AttrDigest  attribute.Key = "chainbudget.digest"
	AttrMode    attribute.Key = "chainbudget.mode"
	AttrCaller  attribute.Key = "chainbudget.caller"
	AttrOutcome attribute.Key = "chainbudget.outcome"
	AttrSource  attribute.Key = "chainbudget.source"
	AttrKind    attribute.Key = "chainbudget.kind"
	// AttrWithin is the upper bound of a bucket in seconds. It is spelled as Prometheus spells it, so that what works for a
	// histogram works for the counters that have it.
	AttrWithin attribute.Key = "le"

	// Of span events only.
	AttrAttempt     attribute.Key = "chainbudget.attempt"
	AttrWouldDeny   attribute.Key = "chainbudget.would_deny"
	AttrHedge       attribute.Key = "chainbudget.hedge"
	AttrDelayMillis attribute.Key = "chainbudget.delay_ms"
	AttrTokens      attribute.Key = "chainbudget.tokens"
	AttrOwnerDepth  attribute.Key = "chainbudget.owner_depth"
	AttrWhy         attribute.Key = "chainbudget.why"
	AttrStateBefore attribute.Key = "chainbudget.state_before"
	AttrAgeMillis   attribute.Key = "chainbudget.age_ms"
)
