package main

// What the reader has picked, for metrics with a caller and a callee, for those of a service, and for those of a callee.
const (
	where  = `cluster=~"$cluster", environment=~"$environment"`
	edge   = `{` + where + `, chainbudget_service=~"$service", chainbudget_dependency=~"$dependency"}`
	caller = `{` + where + `, chainbudget_service=~"$service"}`
	callee = `{` + where + `, chainbudget_dependency=~"$dependency"}`
)

// How lines are called. A label that a Prometheus does not have is empty.
const (
	nameOfEdge   = "{{environment}} {{chainbudget_service}} → {{chainbudget_dependency}}"
	nameOfCallee = "{{environment}} {{chainbudget_dependency}}"
)

// rate sums the rate of a counter over what the reader has picked, by the labels given.
func rate(metric, selector, by string) string {
	return "sum by (environment, " + by + ") (rate(" + metric + selector + "[$__rate_interval]))"
}

const byEdge = "chainbudget_service, chainbudget_dependency"

// row is panels beside each other, 24 wide.
type row struct {
	title  string
	panels []panel
}

var rows = []row{
	{"Retries, latency and errors, by caller and callee", []panel{
		{
			title: "Retries", width: 8, unit: "reqps",
			about: "Retries and hedges a second. A loop around the SDK repeats calls without its budget; in observe some retries go out that the budget would have refused.",
			queries: []query{
				{rate("chainbudget_retries_total", edge, byEdge), nameOfEdge},
				{rate("chainbudget_repeated_calls_total", edge, byEdge) + " > 0", nameOfEdge + ", a loop around the SDK"},
				{rate("chainbudget_would_deny_total", edge, byEdge) + " > 0", nameOfEdge + ", let through"},
			},
		},
		{
			title: "Latency of attempts, p50 and p95", width: 8, unit: "s",
			about: "From the sending of an attempt to its answer. 10 s is the last bound: what takes longer shows as 10.",
			queries: []query{
				{"chainbudget:attempt_seconds:p95_rate2m" + edge, nameOfEdge + " p95"},
				{"chainbudget:attempt_seconds:p50_rate2m" + edge, nameOfEdge + " p50"},
			},
		},
		{
			title: "Failed attempts", width: 8, unit: "percentunit",
			about:   "The share of the attempts that ended which the dependency failed. Canceled ones are none.",
			queries: []query{{"chainbudget:error_share:ratio_rate2m" + edge, nameOfEdge}},
		},
	}},
	{"Load and refusals", []panel{
		{
			title: "Amplification", width: 8, unit: "none", limit: 1.25,
			about:   "Attempts for each call that was asked for. Below 1 a breaker refuses calls; above 1.25, while the dependency fails, is a storm.",
			queries: []query{{"chainbudget:amplification:ratio_rate2m" + edge, nameOfEdge}},
		},
		{
			title: "Denials by reason", width: 8, unit: "reqps", stacked: true,
			about:   "Final refusals a second: what the request then failed with, or the response that stayed readable. docs/denied has a page for each reason.",
			queries: []query{{rate("chainbudget_denials_total", edge, "chainbudget_reason"), "{{environment}} {{chainbudget_reason}}"}},
		},
		{
			title: "Breakers", width: 8,
			about: "The worst state among the instances of a caller.",
			states: []state{
				{"0", "closed", "green"}, {"1", "half open", "yellow"}, {"2", "open", "red"},
			},
			queries: []query{{
				`max by (environment, ` + byEdge + `) (chainbudget_breaker_status` + with(edge, `chainbudget_state="half_open"`) +
					` + ignoring (chainbudget_state) 2 * chainbudget_breaker_status` + with(edge, `chainbudget_state="open"`) + `)`,
				nameOfEdge,
			}},
		},
	}},
	{"Budgets", []panel{
		{
			title: "Tokens minted and lost", width: 8, unit: "none",
			about: "Tokens a second over all callers picked: minted by entries and others, and lost with leases that did not come home (timeouts, callees without the SDK).",
			queries: []query{
				{rate("chainbudget_tokens_minted_total", caller, "chainbudget_source"), "{{environment}} minted: {{chainbudget_source}}"},
				{rate("chainbudget_tokens_lost_total", caller, "chainbudget_service"), "{{environment}} lost: {{chainbudget_service}}"},
			},
		},
		{
			title: "Tokens lent and come home", width: 8, unit: "none",
			about: "Tokens a second. What does not come home was spent below, or is lost.",
			queries: []query{
				{rate("chainbudget_tokens_lent_total", edge, byEdge), nameOfEdge + " lent"},
				{rate("chainbudget_tokens_home_total", edge, byEdge), nameOfEdge + " home"},
			},
		},
		{
			title: "Retries left in the dependency's bucket", width: 8, unit: "none",
			about:   "Of the instance that has least. At 0 the reason is dependency_budget.",
			queries: []query{{"min by (environment, " + byEdge + ") (chainbudget_dependency_budget_tokens" + edge + ")", nameOfEdge}},
		},
	}},
	{"How far it spreads", []panel{
		{
			title: "Storm radius", width: 6, unit: "none",
			about: "At how many depths of the call trees retries are made, and how many at each. 1 is as it should be: next to the cause.",
			queries: []query{
				{"chainbudget:storm_radius:count_rate2m{" + where + "}", "{{environment}} radius"},
				{"chainbudget:retries_by_hop:rate2m{" + where + "} > 0", "{{environment}} retries a second at hop {{chainbudget_hop}}"},
			},
		},
		{
			title: "Attempts for each request of a user", width: 6, unit: "none",
			about: "The load that all paths together bring to a dependency. The other line is the product of what each picked hop adds: pick the hops of one path.",
			queries: []query{
				{"chainbudget:attempts_per_entry_request:ratio_rate2m" + callee, nameOfCallee},
				{"exp(sum by (environment) (ln(chainbudget:amplification:ratio_rate2m" + edge + " > 0)))", "{{environment}} product of the hops picked"},
			},
		},
		{
			title: "Retries prevented", width: 6, unit: "reqps",
			about:   "What a policy that follows the profile's own attempts and nothing else would still have sent: a lower bound, at this hop only.",
			queries: []query{{rate("chainbudget_retries_prevented_total", edge, byEdge), nameOfEdge}},
		},
		{
			title: "Claims of failures", width: 6, unit: "reqps", stacked: true,
			about:   "What failed attempts said about who owns the failure. unclaimed: it was retried below.",
			queries: []query{{rate("chainbudget_claims_received_total", edge, "chainbudget_claim"), "{{environment}} {{chainbudget_claim}}"}},
		},
	}},
	{"What should be quiet", []panel{
		{
			title: "Switch", width: 6,
			about: "Retries of a dependency that somebody switched off.",
			states: []state{
				{"0", "retries on", "green"}, {"1", "retries off", "orange"},
			},
			queries: []query{{"max by (environment, " + byEdge + ") (chainbudget_retries_disabled_ratio" + edge + ")", nameOfEdge}},
		},
		{
			title: "Profiles that differ", width: 6, unit: "none",
			about: "Requests a second by callers with another profile than the catalog pins, as the callee sees them; and how many digests a dependency has among all instances, where more than one.",
			queries: []query{
				{rate("chainbudget_profile_mismatches_total", caller, "chainbudget_service, chainbudget_caller, chainbudget_kind") + " > 0",
					"{{environment}} {{chainbudget_caller}} → {{chainbudget_service}} {{chainbudget_kind}}"},
				{"chainbudget:profile_digests:count" + callee + " > 1", nameOfCallee + " digests"},
			},
		},
		{
			title: "Requests without a budget", width: 6, unit: "percentunit",
			about: "Orphans: a caller without the SDK, or baggage lost on the way. Lost contexts: calls that belong to no request.",
			queries: []query{
				{"chainbudget:request_share:ratio_rate2m" + with(caller, `chainbudget_source="orphan"`), "{{environment}} {{chainbudget_service}} orphans"},
				{rate("chainbudget_no_purse_total", caller, "chainbudget_service") + " / " + rate("chainbudget_calls_total", caller, "chainbudget_service"),
					"{{environment}} {{chainbudget_service}} lost contexts"},
			},
		},
		{
			title: "Hidden retries and bad values", width: 6, unit: "reqps",
			about: "Requests repeated by a mesh or gRPC, by net/http, or with a grant that came before; values on the wire that were not accepted; catalogs refused.",
			queries: []query{
				{rate("chainbudget_foreign_repeats_total", caller, "chainbudget_service") + " > 0", "{{environment}} {{chainbudget_service}} by a proxy"},
				{rate("chainbudget_hidden_repeats_total", caller, "chainbudget_service") + " > 0", "{{environment}} {{chainbudget_service}} by net/http"},
				{rate("chainbudget_repeated_grants_total", caller, "chainbudget_service") + " > 0", "{{environment}} {{chainbudget_service}} grants that came twice"},
				{rate("chainbudget_wire_rejections_total", caller, "chainbudget_service, chainbudget_reason") + " > 0", "{{environment}} {{chainbudget_service}} {{chainbudget_reason}}"},
				{rate("chainbudget_catalog_rejections_total", caller, "chainbudget_service") + " > 0", "{{environment}} {{chainbudget_service}} catalogs refused"},
			},
		},
	}},
}

// with adds a matcher to a selector.
func with(selector, matcher string) string { return selector[:len(selector)-1] + ", " + matcher + "}" }
