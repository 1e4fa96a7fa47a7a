package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/chainbudget/chainbudget-go/examples/storm/chain"
	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
	"github.com/chainbudget/chainbudget-go/examples/storm/report"
)

// Exit codes.
const (
	exitOK          = 0
	exitBroken      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command: results go to stdout, progress and errors to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	s, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(stderr, "storm:", err)
		return exitUsage
	}
	n, err := storm(ctx, s, stderr)
	if err == nil {
		err = n.publish(stdout, stderr)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "storm:", err)
		return exitBroken
	case !n.Complete:
		fmt.Fprintln(stderr, "storm: interrupted; the numbers are those until then")
		return exitInterrupted
	}
	return exitOK
}

// chainShare is the part of the run's time that the chains take, for the progress bar.
const chainShare = 0.2

// storm runs everything. An interrupt is no error: the numbers are then not complete.
func storm(ctx context.Context, s settings, stderr io.Writer) (n *numbers, err error) {
	heard := &warnings{}
	previous := slog.Default()
	slog.SetDefault(slog.New(heard))
	defer slog.SetDefault(previous)

	dir, err := os.MkdirTemp("", "storm-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	bar := newProgress(stderr)
	defer bar.end()
	n = &numbers{Settings: s}
	if n.Chains, err = chains(ctx, s, dir, bar); err != nil && ctx.Err() == nil {
		return nil, err
	}
	if ctx.Err() == nil {
		fault := false
		n.Incident, err = incident.Run(ctx, incident.Settings{Rate: s.Rate, Duration: s.Duration, Budget: s.Budget, Seed: s.Seed}, dir, func(p incident.Progress) {
			state := "healthy"
			if p.Fault {
				state = "FAULT"
			}
			text := fmt.Sprintf("incident %4.1f/%.0f s %-7s ledger %.1fx before, %.1fx after", p.Elapsed.Seconds(), p.Whole.Seconds(), state, p.Before, p.After)
			bar.show(chainShare+(1-chainShare)*float64(p.Elapsed)/float64(p.Whole), p.Fault != fault, text)
			fault = p.Fault
		})
		if err != nil {
			return nil, err
		}
	}
	n.Complete, n.Warnings = ctx.Err() == nil, heard.all()
	if mode := os.Getenv("CHAINBUDGET_MODE"); mode != "" {
		n.Warnings = append(n.Warnings, fmt.Sprintf("CHAINBUDGET_MODE=%s is set, so that is the mode that was measured", mode))
	}
	return n, nil
}

// chains runs the published chain and the deep one.
func chains(ctx context.Context, s settings, dir string, bar *progress) ([]chain.Result, error) {
	type plan struct {
		short    string // for the progress bar
		title    string
		shape    chain.Shape
		attempts int // of the SDK's profile
		policies []chain.Policy
	}
	plans := []plan{
		{short: "seven services", title: fmt.Sprintf("Seven services, %s fails", s.Failing), shape: chain.Shape{Nodes: publishedNodes, Failing: s.failing}, attempts: 2},
		{short: "deep chain", title: fmt.Sprintf("Deep chain, the last of %d calls fails", s.Depth), shape: chain.Shape{Nodes: s.Depth + 1, Failing: s.Depth}, attempts: s.Budget + 1},
	}
	whole, done := 0, 0
	for i := range plans {
		p := &plans[i]
		alone, err := chain.SDK(dir, s.Budget, p.attempts, false)
		if err != nil {
			return nil, err
		}
		shared, err := chain.SDK(dir, s.Budget, p.attempts, true)
		if err != nil {
			return nil, err
		}
		p.policies = []chain.Policy{chain.Naive(1), chain.Naive(2), chain.PerHopBudget(), chain.DownOnly(s.Budget), alone, shared}
		for _, policy := range p.policies {
			whole += policy.Roots
		}
	}
	var results []chain.Result
	for _, p := range plans {
		text := ""
		show := func(part bool) { bar.show(chainShare*float64(done)/float64(whole), part, text) }
		r, err := chain.Compare(ctx, p.title, p.shape, p.policies, func(policy chain.Policy) {
			text = fmt.Sprintf("%s: %s", p.short, policy.Name)
			show(true)
		}, func() {
			done++
			show(false)
		})
		results = append(results, r)
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// publish writes the results and the report.
func (n *numbers) publish(stdout, stderr io.Writer) error {
	path, err := filepath.Abs(n.Settings.out)
	if err != nil {
		return err
	}
	if err := report.Write(path, report.Data{Chains: n.Chains, Incident: n.Incident, Warnings: n.Warnings, Complete: n.Complete}); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if n.Settings.json {
		fmt.Fprintln(stderr, "report:", path)
		return n.writeJSON(stdout)
	}
	if err := n.writeTables(stdout); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "report:", path)
	return err
}
