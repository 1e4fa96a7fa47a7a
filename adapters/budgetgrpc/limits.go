package budgetgrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
)

// A limit is what a service config allows for a method.
type limit struct {
	attempts int
	codes    map[codes.Code]bool
}

// limits are those of a service config's methods: by "/service/method", "/service/" for all others of the service, and
// "" for all others.
type limits map[string]limit

// of returns the limit of a full method name. It is not ok where the config has no retryPolicy for it.
func (l limits) of(method string) (limit, bool) {
	if len(l) == 0 {
		return limit{}, false
	}
	if have, ok := l[method]; ok {
		return have, true
	}
	if have, ok := l[method[:strings.LastIndexByte(method, '/')+1]]; ok {
		return have, true
	}
	have, ok := l[""]
	return have, ok
}

// with adds the limits of another config, whose word counts where both have one.
func (l limits) with(other limits) limits {
	if l == nil {
		return other
	}
	for k, v := range other {
		l[k] = v
	}
	return l
}

// readLimits reads a service config. The error lists every problem.
func readLimits(config string) (limits, error) {
	var file struct {
		MethodConfig []struct {
			Name []struct {
				Service, Method string
			}
			RetryPolicy   json.RawMessage
			HedgingPolicy json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(config), &file); err != nil {
		return nil, fmt.Errorf("ServiceConfig: no service config: %w: give the JSON that gRPC documents", err)
	}
	l := limits{}
	var problems []error
	for i, m := range file.MethodConfig {
		at := fmt.Sprintf("ServiceConfig: methodConfig[%d]", i)
		problem := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf(at+format, args...))
		}
		if len(m.HedgingPolicy) > 0 {
			problem(".hedgingPolicy: not read: set hedge in the profile")
		}
		if len(m.RetryPolicy) == 0 {
			continue
		}
		read, err := readPolicy(m.RetryPolicy)
		if err != nil {
			for _, e := range err {
				problem(".retryPolicy%w", e)
			}
			continue
		}
		if len(m.Name) == 0 {
			problem(".name: missing: name the methods that the retryPolicy is for")
		}
		for _, n := range m.Name {
			key := ""
			switch {
			case n.Service == "" && n.Method != "":
				problem(".name: method %.64q without a service: name its service, too", n.Method)
				continue
			case n.Service != "":
				key = "/" + n.Service + "/" + n.Method
			}
			if _, twice := l[key]; twice {
				problem(".name: %.128q is named twice: keep one", key)
			}
			l[key] = read
		}
	}
	return l, errors.Join(problems...)
}

// readPolicy reads a retryPolicy. Every key is checked in its exact spelling: one that Go's JSON takes in any other is
// ignored by gRPC in other languages.
func readPolicy(raw json.RawMessage) (limit, []error) {
	var (
		keys     map[string]json.RawMessage
		problems []error
	)
	if err := json.Unmarshal(raw, &keys); err != nil {
		return limit{}, []error{errors.New(": no object: write {\"maxAttempts\": 3, ...}")}
	}
	l := limit{codes: map[codes.Code]bool{}}
	for key, value := range keys {
		switch key {
		case "maxAttempts":
			if err := json.Unmarshal(value, &l.attempts); err != nil {
				problems = append(problems, fmt.Errorf(".maxAttempts: %.32s is no whole number: write one of 2 or more", value))
				l.attempts = -1
			}
		case "retryableStatusCodes":
			problems = append(problems, l.readCodes(value)...)
		case "initialBackoff", "maxBackoff", "backoffMultiplier": // the profile's backoff is the rule
		default:
			problems = append(problems, fmt.Errorf(".%.64s: unknown key: gRPC has maxAttempts, initialBackoff, maxBackoff, backoffMultiplier and retryableStatusCodes", key))
		}
	}
	if l.attempts >= 0 && l.attempts < 2 {
		problems = append(problems, fmt.Errorf(".maxAttempts: %d: write 2 or more, or leave the retryPolicy out", l.attempts))
	}
	if len(l.codes) == 0 && len(problems) == 0 {
		problems = append(problems, errors.New(".retryableStatusCodes: empty: list at least one, such as \"UNAVAILABLE\""))
	}
	return l, problems
}

func (l *limit) readCodes(raw json.RawMessage) (problems []error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return []error{errors.New(".retryableStatusCodes: no list: write [\"UNAVAILABLE\"]")}
	}
	for _, item := range list {
		var c codes.Code
		if err := c.UnmarshalJSON(item); err != nil || bytes.Equal(item, []byte("null")) {
			problems = append(problems, fmt.Errorf(".retryableStatusCodes: %.64s is no code: write names such as \"UNAVAILABLE\"", item))
			continue
		}
		l.codes[c] = true
	}
	return problems
}

// jsonString spells a string in JSON.
func jsonString(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // no string has one
		return `""`
	}
	return string(b)
}
