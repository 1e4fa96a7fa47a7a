package chain

import (
	"context"
	"strconv"
	"strings"
)

// Result is one chain under all policies.
type Result struct {
	Title string `json:"title"`
	// Nodes names the services, Failing the one that fails.
	Nodes   []string `json:"nodes"`
	Failing string   `json:"failing"`
	Counts  []Count  `json:"counts"`
}

// Compare runs a chain under each policy. before is called before each of them, done after each request. When ctx ends
// the result has the policies that were complete, and Compare returns the error of ctx.
func Compare(ctx context.Context, title string, shape Shape, policies []Policy, before func(Policy), done func()) (Result, error) {
	r := Result{Title: title, Failing: Name(shape.Failing)}
	for i := range shape.Nodes {
		r.Nodes = append(r.Nodes, Name(i))
	}
	for _, p := range policies {
		before(p)
		count, err := Run(ctx, shape, p, done)
		if err != nil {
			return r, err
		}
		r.Counts = append(r.Counts, count)
	}
	return r, nil
}

// Short writes a number of requests with as many decimals as it needs, two at most.
func Short(n float64) string {
	s := strconv.FormatFloat(n, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
