package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	dir := flags.String("dir", ".", "top folder of the repository")
	timeout := flags.Duration("timeout", 2*time.Minute, "time limit of one test; a mutant that hangs its test is killed")
	if err := flags.Parse(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		return
	} else if err != nil {
		os.Exit(2)
	}
	if *timeout <= 0 {
		fmt.Fprintf(os.Stderr, "-timeout is %v, want a time above zero\n", *timeout)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := tryAll(ctx, *dir, *timeout, flags.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// tryAll copies the repository at dir, tries its mutants there, prints what came of them, and removes the copy.
func tryAll(ctx context.Context, dir string, timeout time.Duration, names []string) (ok bool, err error) {
	mutants, err := readMutants(filepath.Join(dir, "internal", "mutants"), names)
	if err != nil {
		return false, err
	}
	temporary, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	c := repositoryCopy{dir: filepath.Join(temporary, "repository"), timeout: timeout}
	if err := copyRepository(c.dir, dir); err != nil {
		return false, fmt.Errorf("copy the repository: %w", err)
	}
	t := trial{copy: c, progress: os.Stdout}
	verdicts, err := t.run(ctx, mutants)
	if err != nil {
		return false, err
	}
	return report(os.Stdout, verdicts)
}
