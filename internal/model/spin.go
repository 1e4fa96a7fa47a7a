package model

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

//go:embed purse.pml
var source []byte

const install = "install it: apt-get install spin, or brew install spin"

// Simulate draws one run of the model and returns the operations that it made on its purses, one line each: see
// the macro operation in purse.pml. switches are names with or without a value, "CRASH" or "CHAINS=9".
func Simulate(ctx context.Context, seed int, switches ...string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "purse")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	return spin(ctx, dir, switches, "-T", "-n"+strconv.Itoa(seed))
}

// spin runs spin on the model, in a folder that it may fill.
func spin(ctx context.Context, dir string, switches []string, args ...string) ([]byte, error) {
	if err := os.WriteFile(filepath.Join(dir, "purse.pml"), source, 0o600); err != nil {
		return nil, err
	}
	for _, s := range switches {
		args = append(args, "-D"+s)
	}
	out, err := run(ctx, dir, "spin", append(args, "purse.pml")...)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("spin is missing: the model of the purse is checked with it; %s", install)
	case err == nil && bytes.Contains(out, []byte("Error:")): // some errors leave its exit status at 0
		err = errors.New("spin refuses the model")
	}
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return out, nil
}

func run(ctx context.Context, dir, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}

// verdict is what a search came to.
type verdict struct {
	states int
	broken string // the first rule that a run breaks, "" = none does
	output []byte
}

// limits of one search: what it needs beyond these it does not get, and the search fails.
const (
	maxMemory = 4096    // MiB
	maxDepth  = 100_000 // steps of one run
)

// A question is what a search is for.
type question struct {
	switches []string
	ends     bool // whether every run ends, not whether it breaks a rule on the way
	long     bool // worth a compiler that takes its time
}

// search visits every state that the model can reach with the switches. An error says that it did not get through: a state
// that was left out, for want of memory or depth, is no answer.
func search(ctx context.Context, dir string, q question) (verdict, error) {
	if q.ends {
		q.switches = append(slices.Clip(q.switches), "ENDS")
	}
	if _, err := spin(ctx, dir, q.switches, "-a"); err != nil {
		return verdict{}, err
	}
	// COLLAPSE stores parts of states once and loses none. NOREDUCE: a process whose turn depends on others allows no reduction
	// by spin itself.
	flags := []string{"-O0", "-w", "-DCOLLAPSE", "-DNOREDUCE", "-DVECTORSZ=4096", "-DMEMLIM=" + strconv.Itoa(maxMemory)}
	args := []string{"-n", "-w22", "-m" + strconv.Itoa(maxDepth)}
	if q.long {
		flags[0] = "-O2"
	}
	if q.ends {
		flags = append(flags, "-DNP")
		args = append(args, "-l")
	} else {
		flags = append(flags, "-DSAFETY")
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if out, err := run(ctx, dir, compiler, append(flags, "-o", "pan", "pan.c")...); err != nil {
		return verdict{}, fmt.Errorf("compiling the search: %w\n%s", err, out)
	}
	out, err := run(ctx, dir, filepath.Join(dir, "pan"), args...)
	if err != nil {
		return verdict{}, fmt.Errorf("the search: %w\n%s", err, out)
	}
	return judge(out)
}

var (
	failure  = regexp.MustCompile(`(?m)^pan:\d+: (.*) \(at depth -?\d+\)$`)
	errorsIn = regexp.MustCompile(`errors: (\d+)\n`)
	stored   = regexp.MustCompile(`(?m)^ *(\d+) states, stored`)
	// cutShort are spin's words for a search that left states out.
	cutShort = regexp.MustCompile(`max search depth too small|out of memory|reached -DMEMLIM`)
)

// judge reads what a search prints.
func judge(out []byte) (verdict, error) {
	v := verdict{output: out}
	if words := cutShort.Find(out); words != nil {
		return v, fmt.Errorf("the search is not exhaustive: %s\n%s", words, out)
	}
	if !bytes.Contains(out, []byte("Full statespace search for:")) {
		return v, fmt.Errorf("the search keeps no full states\n%s", out)
	}
	count, states := errorsIn.FindSubmatch(out), stored.FindSubmatch(out)
	if count == nil || states == nil {
		return v, fmt.Errorf("the search says neither how many errors nor how many states there are\n%s", out)
	}
	v.states, _ = strconv.Atoi(string(states[1]))
	if found := failure.FindSubmatch(out); found != nil {
		v.broken = string(found[1])
	}
	if (v.broken != "") != (string(count[1]) != "0") {
		return v, fmt.Errorf("%s errors, and %q is broken\n%s", count[1], v.broken, out)
	}
	if v.broken == "" && bytes.Contains(out, []byte("Search not completed")) {
		return v, fmt.Errorf("the search did not complete\n%s", out)
	}
	return v, nil
}
