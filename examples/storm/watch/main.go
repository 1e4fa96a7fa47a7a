package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/chainbudget/chainbudget-go/examples/storm/incident"
)

// blips is the share of requests that fail while all is well, as some always do: it is what retries are for.
const blips = 0.02

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "watch:", err)
		os.Exit(1)
	}
}

// run plays rounds until ctx ends, which is no error.
func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	set := flag.NewFlagSet("watch", flag.ContinueOnError)
	rules := set.String("rules", "../dashboards/prometheus", "`folder` of the rules")
	rounds := set.Int("rounds", 0, "`number` of rounds; 0 = until an interrupt")
	s := incident.Settings{Budget: 3, Blips: blips}
	set.IntVar(&s.Rate, "rate", 200, fmt.Sprintf("`payments` a second, a multiple of %d", incident.RateStep))
	set.DurationVar(&s.Duration, "duration", time.Minute, "`length` of a round: a quarter healthy, three eighths with the fault, the rest after it")
	if err := set.Parse(args); err != nil {
		return err
	}
	if s.Rate < incident.RateStep || s.Rate%incident.RateStep != 0 || s.Duration < 10*time.Second || set.NArg() > 0 {
		return fmt.Errorf("-rate is a multiple of %d, -duration at least 10s, and there is nothing beside flags", incident.RateStep)
	}
	dir, err := os.MkdirTemp("", "storm-watch-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	interrupted := ctx
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stage, err := newStage(ctx, end, dir, *rules)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.close()) }()
	fmt.Fprint(stdout, stage.guide(ctx))
	s.Watcher = stage
	for round := 1; *rounds == 0 || round <= *rounds; round++ {
		s.Seed = uint64(round)
		err := play(ctx, s, dir, round, stdout)
		switch {
		case interrupted.Err() != nil: // by Prometheus, too, which a terminal interrupts with us
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
	}
	return nil
}

// play is one round.
func play(ctx context.Context, s incident.Settings, dir string, round int, stdout io.Writer) error {
	fmt.Fprintf(stdout, "round %d: waiting for the first scrape\n", round)
	fault := false
	r, err := incident.Run(ctx, s, dir, func(p incident.Progress) {
		if p.Fault != fault {
			fault = p.Fault
			fmt.Fprintf(stdout, "round %d: %s after %.0f s\n", round, map[bool]string{true: "the fault begins", false: "the fault is over"}[fault], p.Elapsed.Seconds())
		}
	})
	if err != nil || !r.Complete {
		return err
	}
	for _, side := range []*incident.Side{&r.Before, &r.After} {
		fmt.Fprintf(stdout, "round %d, %s: %d requests at the ledger, %d of them retries, p95 in the fault %.0f ms\n",
			round, side.Name, side.Ledger.Arrivals, side.Ledger.Retries, side.Summary.P95Fault)
	}
	return nil
}

// guide says where to look.
func (s *stage) guide(ctx context.Context) string {
	var b strings.Builder
	query := url.Values{}
	for i, expr := range []string{
		`sum by (environment, chainbudget_service, chainbudget_dependency) (rate({__name__=~"chainbudget_retries_total|chainbudget_repeated_calls_total"}[5s]))`,
		"chainbudget:attempt_seconds:p95_rate2m",
		"chainbudget:error_share:ratio_rate2m",
		"chainbudget:amplification:ratio_rate2m",
	} {
		name := fmt.Sprintf("g%d.", i)
		query.Set(name+"expr", expr)
		query.Set(name+"tab", "0")
		query.Set(name+"range_input", "3m")
	}
	fmt.Fprintf(&b, "Retries, latency, errors and amplification, by caller and callee:\n  %s/graph?%s\n", s.prometheus.URL, query.Encode())
	fmt.Fprintf(&b, "Alerts:\n  %s\n", s.prometheus.alerts(ctx))
	b.WriteString("Live pages:\n")
	for _, t := range s.targets {
		fmt.Fprintf(&b, "  %-6s %-6s %s   metrics: %s/metrics\n", t.run, t.service, t.server.URL, t.server.URL)
	}
	fmt.Fprintf(&b, "Grafana: a data source of type Prometheus at %s, and dashboards/grafana/chainbudget.json\n", s.prometheus.URL)
	b.WriteString("The rules read minutes as seconds here, and hours as minutes. An interrupt (Ctrl-C) ends it.\n\n")
	return b.String()
}
