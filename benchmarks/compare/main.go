package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// ballast is the heap that keeps garbage collection rare. It is never written, so that it takes no memory.
const ballast = 256 << 20

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns 0, 1 if an allocation target was missed or a measurement failed, or 2 for wrong arguments.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 20, "rounds of each side of a row, 1 to 1000")
	round := flags.Duration("round", 100*time.Millisecond, "length of a round, 1ms to 10s")
	pattern := flags.String("run", "", "measure only rows whose name matches this regular expression, such as transport/ or one_retry")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	only, err := regexp.Compile(*pattern)
	if err != nil {
		fmt.Fprintf(stderr, "compare: -run %q is no regular expression: %v\n", *pattern, err)
		return 2
	}
	chosen := selected(only)
	switch {
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "compare: unexpected argument %q\n", flags.Arg(0))
		return 2
	case *rounds < 1 || *rounds > 1000:
		fmt.Fprintf(stderr, "compare: -rounds %d is not in 1 to 1000\n", *rounds)
		return 2
	case *round < time.Millisecond || *round > 10*time.Second:
		fmt.Fprintf(stderr, "compare: -round %v is not in 1ms to 10s\n", *round)
		return 2
	case len(chosen) == 0 && !only.MatchString(growthID) && !only.MatchString(perDependencyID):
		fmt.Fprintf(stderr, "compare: -run %q matches no row; there are %s\n", *pattern, strings.Join(ids(), ", "))
		return 2
	}
	heap := make([]byte, ballast)
	defer runtime.KeepAlive(heap)

	missed := false
	var memory bytes.Buffer // measured before all else: what other rows leave to be collected would count
	if only.MatchString(growthID) {
		fmt.Fprintln(stderr, growthID)
		ok, err := growth(&memory)
		if err != nil {
			fmt.Fprintf(stderr, "compare: %v\n", err)
			return 1
		}
		missed = missed || !ok
	}
	if only.MatchString(perDependencyID) {
		fmt.Fprintln(stderr, perDependencyID)
		if err := perDependency(&memory); err != nil {
			fmt.Fprintf(stderr, "compare: %v\n", err)
			return 1
		}
	}
	results := make([]result, 0, len(chosen))
	for i, r := range chosen {
		fmt.Fprintf(stderr, "%d/%d %s\n", i+1, len(chosen), r.id())
		res, err := r.measure(*rounds, *round)
		if err != nil {
			fmt.Fprintf(stderr, "compare: %v\n", err)
			return 1
		}
		missed = missed || res.missed()
		results = append(results, res)
	}
	fmt.Fprintf(stdout, "%s, %d cores, %s/%s, %d rounds of %v\n\n", runtime.Version(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, *rounds, *round)
	if len(results) > 0 {
		print(stdout, results)
	}
	memory.WriteTo(stdout)
	if missed {
		return 1
	}
	return 0
}

// selected returns the rows whose name matches.
func selected(only *regexp.Regexp) []row {
	var list []row
	for _, r := range rows {
		if only.MatchString(r.id()) {
			list = append(list, r)
		}
	}
	return list
}

// ids returns the names of all rows.
func ids() []string {
	list := make([]string, 0, len(rows)+2)
	for _, r := range rows {
		list = append(list, r.id())
	}
	return append(list, growthID, perDependencyID)
}
