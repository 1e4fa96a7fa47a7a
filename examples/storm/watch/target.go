package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/examples/metrics"
	"github.com/chainbudget/chainbudget-go/examples/storm/loopback"
)

// target is the port for operators of one service in one run: its metrics and its live page. It outlives the service's SDK, as
// an address outlives the processes behind it; while there is none it answers 503.
type target struct {
	run, service string
	server       *loopback.Server

	mu           sync.Mutex
	scrape, page http.Handler  // of the SDK that there is now
	scrapes      int           // that have been answered
	changed      chan struct{} // closed when there is one more
}

func newTarget(run, service string) (*target, error) {
	t := &target{run: run, service: service, changed: make(chan struct{})}
	var err error
	t.server, err = loopback.Serve(t)
	return t, err
}

// address is host and port.
func (t *target) address() string { return strings.TrimPrefix(t.server.URL, "http://") }

// ServeHTTP answers /metrics, and everything else with the live page.
func (t *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	scrape, page := t.scrape, t.page
	t.mu.Unlock()
	switch {
	case scrape == nil:
		http.Error(w, "the service is not running", http.StatusServiceUnavailable)
	case r.URL.Path == "/metrics":
		scrape.ServeHTTP(w, r)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.scrapes++
		close(t.changed)
		t.changed = make(chan struct{})
	default:
		page.ServeHTTP(w, r)
	}
}

// watch shows an SDK from now on. end shows none, once the last numbers have been scraped.
func (t *target) watch(ctx context.Context, sdk *chainbudget.SDK) (end func() error, err error) {
	scrape, err := metrics.Expose(sdk, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	t.show(scrape, sdk.DebugHandler())
	return func() error {
		_ = t.wait(ctx) // a Prometheus that has gone, or an interrupt, is found out elsewhere
		t.show(nil, nil)
		return nil
	}, nil
}

func (t *target) show(scrape, page http.Handler) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scrape, t.page = scrape, page
}

// scrapeWithin is how long a Prometheus may take to find its targets, which it looks for every few seconds.
const scrapeWithin = 30 * time.Second

// wait returns when it has been scraped three times more: the first of them may have begun before, and Prometheus gives up
// on one that takes long.
func (t *target) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scrapeWithin)
	defer cancel()
	for first := -1; ; {
		t.mu.Lock()
		scrapes, changed := t.scrapes, t.changed
		t.mu.Unlock()
		if first < 0 {
			first = scrapes
		}
		if scrapes >= first+3 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
