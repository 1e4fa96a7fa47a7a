//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"
)

// ask puts questions to a Prometheus, and collects what is wrong with its answers.
type ask struct {
	t        *testing.T
	url      string
	problems *[]string
}

func (p ask) problem(format string, values ...any) {
	*p.problems = append(*p.problems, fmt.Sprintf(format, values...))
}

// sample is one series of an answer. The values of an instant query have one element, those of a range query all.
type sample struct {
	Metric map[string]string
	Value  [2]any
	Values [][2]any
}

func (p ask) get(path string, query url.Values) (result []sample) {
	p.t.Helper()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path+"?"+query.Encode(), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: base}).Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	var answer struct {
		Data struct{ Result []sample }
	}
	if err := json.Unmarshal(body, &answer); err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %s, %v\n%s", query.Get("query"), resp.Status, err, body)
	}
	return answer.Data.Result
}

func (p ask) samples(expr string, at time.Time) []sample {
	p.t.Helper()
	return p.get("/api/v1/query", url.Values{"query": {expr}, "time": {at.Format(time.RFC3339Nano)}})
}

// number is the value of an expression that has one.
func (p ask) number(expr string) float64 {
	p.t.Helper()
	list := p.samples(expr, time.Now())
	if len(list) != 1 {
		p.problem("%s: %d values, want one", expr, len(list))
		return math.NaN()
	}
	return value(p.t, list[0].Value)
}

func value(t *testing.T, pair [2]any) float64 {
	t.Helper()
	text, _ := pair[1].(string)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (p ask) equal(expr string, want int64) {
	p.t.Helper()
	if got := p.number(expr); got != float64(want) {
		p.problem("%s\nis %v, the servers counted %d", expr, got, want)
	}
}

func (p ask) within(expr string, want, share float64) {
	p.t.Helper()
	if got := p.number(expr); !(math.Abs(got-want) <= share*want) {
		p.problem("%s\nis %v, the servers counted %v", expr, got, want)
	}
}

// moment is one value of the past.
type moment struct {
	at    time.Time
	value float64
}

// history is the values of an expression that has at most one, from a moment to now.
func (p ask) history(expr string, from time.Time) (list []moment) {
	p.t.Helper()
	result := p.get("/api/v1/query_range", url.Values{
		"query": {expr}, "start": {from.Format(time.RFC3339Nano)}, "end": {time.Now().Format(time.RFC3339Nano)}, "step": {"0.5"},
	})
	if len(result) > 1 {
		p.t.Fatalf("%s: %d series, want one", expr, len(result))
	}
	for _, series := range result {
		for _, pair := range series.Values {
			seconds, _ := pair[0].(float64)
			list = append(list, moment{time.UnixMilli(int64(seconds * 1000)), value(p.t, pair)})
		}
	}
	return list
}
