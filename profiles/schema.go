package profiles

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Schema returns a JSON Schema (draft 7) of catalog files, for editors: it knows every key with its description, type,
// words, range and default. It is made from the lists that the loader itself reads, and says less than the loader does:
// what depends on other settings, on other files or on the number of bytes only [Load] knows. The slice is the caller's
// own.
func Schema() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	// There is nothing in it that could not be encoded.
	_ = e.Encode(catalogSchema())
	return b.Bytes()
}

func catalogSchema() node {
	top := object("A catalog of retry profiles, or a file of one that is a folder.", node{
		"version":      node{"const": SchemaVersion, "description": "Version of the keys and of their defaults. Every file states it."},
		"chain":        chainSchema(),
		"profiles":     named("Named sets of retry, backoff, budget and breaker settings, by name.", node{"pattern": profileNamePattern}, profileSchema()),
		"dependencies": named("What services call, by name.", nameSchema(), dependencySchema()),
		"services":     named("What the catalog says about a service's own, inbound side, by its name.", nameSchema(), serviceSchema()),
		"internal_hosts": arrayOf("Hosts and networks that are ours, in the place of the default rules (names of one part, *.svc, *.cluster.local, *.internal, "+
			"loopback and private addresses). [] = none is.", hostSchema("A host such as payments.internal, *.corp.example.com, 10.0.0.7:8080, or a network such as 10.0.0.0/8."), 0),
		"overrides": object("The on-call switch.", node{
			"retries": disabledSchema("No call to anything is repeated."),
			"dependencies": named("The switch for single dependencies, also for those that only code names.", nameSchema(),
				required(object("", node{"retries": disabledSchema("No call to it is repeated.")}), "retries")),
		}),
	})
	top["$schema"] = "http://json-schema.org/draft-07/schema#"
	top["title"] = "chainbudget catalog"
	return required(top, "version")
}

func chainSchema() node {
	base := DefaultChain()
	keys := node{}
	for _, k := range chainKeys() {
		keys[k.name] = k.shape.described(k.about, k.value(&base))
	}
	return object("What holds for every chain.", keys)
}

func profileSchema() node {
	base := Default()
	defaults := settingsMap(&base)
	delete(defaults, "retry.max_attempts") // is never assumed
	defaults["breaker.slow_ratio"] = show(DefaultSlowRatio)
	defaults["adaptive_throttle.window"] = showDuration(DefaultThrottleWindow)

	keys := node{"extends": node{"type": "string", "pattern": profileNamePattern,
		"description": "The profile that this one starts from, built-in or of this catalog. Every key that is not set has its value."}}
	groups := map[string]node{"retry": {}, "backoff": {}}
	for _, g := range profileGroups {
		groups[g.name] = node{}
	}
	for _, k := range profileKeys() {
		value := k.shape.described(k.about, defaults[k.name])
		if group := k.group(); group != "" {
			groups[group][strings.TrimPrefix(k.name, group+".")] = value
		} else {
			keys[k.name] = value
		}
	}
	keys["retry"] = object("How often, and after what, a call is repeated.", groups["retry"])
	keys["backoff"] = object("Waits before retries, always with full jitter.", groups["backoff"])
	for _, g := range profileGroups {
		on := object("", groups[g.name])
		if g.name == "budget" {
			on["allOf"] = budgetKinds()
		}
		either := node{"description": g.about, "anyOf": []node{disabledSchema(""), on}}
		if base := defaults[g.name]; base != "" {
			either["default"] = base
		}
		keys[g.name] = either
	}
	p := object("A profile. Defaults are those of one that extends nothing.", keys)
	p["if"] = node{"not": node{"required": []string{"extends"}}}
	p["then"] = node{"required": []string{"retry"}, "properties": node{"retry": node{"required": []string{"max_attempts"}}}}
	return p
}

// budgetKinds refuses, for each kind that is said, the keys of the others.
func budgetKinds() []node {
	var rules []node
	for kind, word := range kindWords {
		keys := node{}
		for _, k := range budgetKeys {
			if !slices.Contains(k.kinds, BudgetKind(kind)) {
				keys[k.name] = false
			}
		}
		if BudgetKind(kind) == BudgetThrottle {
			keys["burst"] = node{"maximum": rangeThrottle.max}
		}
		said := node{"required": []string{"kind"}, "properties": node{"kind": node{"const": word}}}
		rules = append(rules, node{"if": said, "then": node{"properties": keys}})
	}
	return rules
}

func dependencySchema() node {
	return object("", node{
		"profile":    node{"type": "string", "pattern": profileNamePattern, "description": "The profile that every caller must use. Without it, each uses the one that its code names."},
		"owner":      text("The team to ask."),
		"on_failure": oneOf(onFailureWords).described("Whether its failure is its caller's. Without it, that is learned.", ""),
		"hosts":      arrayOf("Its hosts. Each belongs to one dependency.", hostSchema("A host, exact or as *.suffix, with a port or without."), 0),
		"external":   trueFalse().described("Whether it belongs to somebody else: no tokens and headers go there. Without it, each request's host decides.", ""),
		"mesh":       oneOf(meshWords).described("The proxy below it that repeats requests and is told not to.", ""),
		"mode":       oneOf(modeWords).described("How much of the SDK acts on its findings here; the chain's where not set.", ""),
	})
}

func serviceSchema() node {
	pattern := node{"minLength": 1, "maxLength": maxPattern}
	idempotent := arrayOf("Operations that may run twice, as patterns of net/http.ServeMux.", node{"type": "string", "minLength": 1, "maxLength": maxPattern}, 0)
	failures := statusList().described("Answers that are failures of this service. Without it, every 5xx, and 429.", "")
	failures["minItems"] = 1
	return object("", node{
		"serves": arrayOf("The dependencies that it is to its callers; the one of its own name where not set.", text(""), 1),
		"routes": named("Chains that begin at these routes, by pattern of net/http.ServeMux.", pattern,
			required(object("", node{"budget": whole(rangeTokens).described("Tokens that an entry mints there, in the place of chain.budget. At most chain.max_budget.", "")}), "budget")),
		"idempotent":       idempotent,
		"failure_statuses": failures,
	})
}

const profileNamePattern = `^[a-z0-9_-]{1,40}$`

func object(about string, properties node) node {
	n := node{"type": "object", "additionalProperties": false, "properties": properties}
	return describe(n, about)
}

func named(about string, name, value node) node {
	return describe(node{"type": "object", "propertyNames": name, "additionalProperties": value, "maxProperties": maxEntries}, about)
}

func arrayOf(about string, item node, least int) node {
	n := node{"type": "array", "items": item, "uniqueItems": true, "maxItems": maxEntries}
	if least > 0 {
		n["minItems"] = least
	}
	return describe(n, about)
}

func describe(n node, about string) node {
	if about != "" {
		n["description"] = about
	}
	return n
}

func required(n node, keys ...string) node {
	n["required"] = keys
	return n
}

func nameSchema() node { return node{"minLength": 1, "maxLength": maxNameLen, "pattern": textPattern} }

// textPattern keeps white space from both ends.
const textPattern = `^\S(.*\S)?$`

func text(about string) node {
	return describe(node{"type": "string", "minLength": 1, "maxLength": maxNameLen, "pattern": textPattern}, about)
}

func hostSchema(about string) node {
	return node{"type": "string", "minLength": 1, "maxLength": maxHostLen + 8, "description": about}
}

func disabledSchema(about string) node {
	return describe(node{"const": "disabled"}, about)
}

// described returns the shape's schema with a description, which ends with the range, and the default; "" = none.
func (s shape) described(about, base string) node {
	n := node{"description": about}
	if s.schema["enum"] == nil && s.schema["type"] != "boolean" { // which editors show by themselves
		n["description"] = about + " " + strings.ToUpper(s.text[:1]) + s.text[1:] + "."
	}
	for key, v := range s.schema {
		n[key] = v
	}
	if base != "" {
		n["default"] = s.typed(base)
	}
	return n
}

// typed reads what a value's String wrote, as the type that the schema gives it.
func (s shape) typed(value string) any {
	var v any = value
	switch s.schema["type"] {
	case "integer", "number", "boolean", "array":
		// Of these, what a catalog would write is JSON as well.
		if json.Unmarshal([]byte(value), &v) != nil {
			return value
		}
	}
	return v
}
