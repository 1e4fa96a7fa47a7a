package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
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
	if err := flags.Parse(args); err != nil {
		return 2
	}
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
	}
	heap := make([]byte, ballast)
	defer runtime.KeepAlive(heap)

	missed := false
	results := make([]result, 0, len(rows))
	for i, r := range rows {
		fmt.Fprintf(stderr, "%d/%d %s\n", i+1, len(rows)+1, r.path)
		res, err := r.measure(*rounds, *round)
		if err != nil {
			fmt.Fprintf(stderr, "compare: %v\n", err)
			return 1
		}
		missed = missed || res.allocsMissed
		results = append(results, res)
	}
	fmt.Fprintf(stderr, "%d/%d memory\n", len(rows)+1, len(rows)+1)
	grown, err := growth()
	if err != nil {
		fmt.Fprintf(stderr, "compare: %v\n", err)
		return 1
	}
	fmt.Fprintf(stdout, "%s, %d cores, %s/%s, %d rounds of %v\n\n", runtime.Version(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, *rounds, *round)
	print(stdout, results)
	verdict := "ok"
	if grown > subject.GrowthLimit {
		missed = true
		verdict = "FAIL"
	}
	fmt.Fprintf(stdout, "\nmemory: %d requests to as many hosts and paths, one dependency: heap %+d B, target <= %d B: %s\n", requests, grown, subject.GrowthLimit, verdict)
	if missed {
		return 1
	}
	return 0
}
