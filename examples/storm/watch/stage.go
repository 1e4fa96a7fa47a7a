package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

// stage is everything that is there for longer than one round: the targets, and the Prometheus that scrapes them. It is the
// watcher of each round.
type stage struct {
	ctx        context.Context
	targets    []*target
	prometheus *server
}

// newStage starts a target for each service of both runs, and a Prometheus for all of them. ctx ends its waits; end is told when
// Prometheus has ended.
func newStage(ctx context.Context, end context.CancelCauseFunc, dir, rules string) (s *stage, err error) {
	s = &stage{ctx: ctx}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for _, run := range []string{incident.Before, incident.After} {
		for _, service := range []string{"grab", "go", "ledger"} {
			t, err := newTarget(run, service)
			if err != nil {
				return s, err
			}
			s.targets = append(s.targets, t)
		}
	}
	s.prometheus, err = startPrometheus(ctx, end, dir, rules, s.targets)
	return s, err
}

// Watch implements incident.Watcher.
func (s *stage) Watch(run, service string, sdk *chainbudget.SDK) (end func() error, err error) {
	for _, t := range s.targets {
		if t.run == run && t.service == service {
			return t.watch(s.ctx, sdk)
		}
	}
	return nil, fmt.Errorf("there is no service %s %s", service, run)
}

// Ready implements incident.Watcher: every counter has been seen at 0, so that no increase is missed.
func (s *stage) Ready(ctx context.Context) error {
	for _, t := range s.targets {
		if err := t.wait(ctx); err != nil {
			return fmt.Errorf("prometheus has not scraped %s %s: %w", t.service, t.run, err)
		}
	}
	return nil
}

// close ends everything.
func (s *stage) close() error {
	var problems []error
	if s.prometheus != nil {
		problems = append(problems, s.prometheus.close())
	}
	for _, t := range s.targets {
		problems = append(problems, t.server.Close())
	}
	return errors.Join(problems...)
}
