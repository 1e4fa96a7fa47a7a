package rpc

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Pattern reads one pattern of an option's Idempotent, such as "/shop.Catalog/*" or "shop.Catalog/Get*".
func Pattern(text string) (string, error) {
	pattern := text
	if pattern == "" || pattern[0] != '/' {
		pattern = "/" + pattern
	}
	if _, err := path.Match(pattern, ""); err != nil || pattern == "/" {
		return "", fmt.Errorf("%.128q in Idempotent is no pattern: write a method such as \"/shop.Catalog/Get*\"", pattern[1:])
	}
	return pattern, nil
}

// Patterns reads all patterns that can be read; the error lists the others.
func Patterns(texts []string) (read []string, err error) {
	var problems []error
	for _, text := range texts {
		p, err := Pattern(text)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		read = append(read, p)
	}
	return read, errors.Join(problems...)
}

// Listed reports whether a full method name matches one of the patterns.
func Listed(method string, patterns []string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, method); ok {
			return true
		}
	}
	return false
}

// Probe reports whether a method is asked by machines that only want to know whether the service is there.
func Probe(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.Health/") }

// Above reports whether any of the values of a counter is a number greater than limit. What is no number counts as none.
func Above(values []string, limit int) bool {
	for _, v := range values {
		n := 0
		for i := range len(v) {
			if v[i] < '0' || v[i] > '9' {
				n = 0
				break
			}
			n = min(n*10+int(v[i]-'0'), 1000)
		}
		if n > limit {
			return true
		}
	}
	return false
}
