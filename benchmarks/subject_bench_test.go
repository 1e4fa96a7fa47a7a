package benchmarks

import (
	"runtime"
	"testing"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
)

// goroutines is how many share one dependency in the parallel benchmarks, whatever the number of cores.
const goroutines = 16

// BenchmarkCost runs every subject. Names are paths: -bench Cost/transport/first_attempt/chainbudget.
func BenchmarkCost(b *testing.B) {
	for _, s := range subject.All() {
		b.Run(s.String(), func(b *testing.B) {
			run := s.Open()
			defer run.Close()
			op := run.Worker()
			b.ReportAllocs()
			for b.Loop() {
				if err := op(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParallel runs whole calls on 16 goroutines that share one dependency, each in a request of its own.
func BenchmarkParallel(b *testing.B) {
	for _, s := range subject.All() {
		if s.Path != "transport/first_attempt" && s.Path != "do" {
			continue
		}
		b.Run(s.String(), func(b *testing.B) {
			run := s.Open()
			defer run.Close()
			workers := make(chan subject.Op, goroutines+runtime.GOMAXPROCS(0))
			for range cap(workers) {
				workers <- run.Worker()
			}
			b.SetParallelism((goroutines + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				op := <-workers
				defer func() { workers <- op }()
				for pb.Next() {
					if err := op(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
