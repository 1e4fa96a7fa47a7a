package benchmarks

import (
	"fmt"
	"sync"
	"testing"

	"github.com/chainbudget/chainbudget-go/benchmarks/subject"
)

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

// BenchmarkParallel runs whole calls on 1, 2 and 16 goroutines, whatever the number of cores. They share one dependency, or
// Many, and each is in a request of its own.
func BenchmarkParallel(b *testing.B) {
	for _, s := range subject.All() {
		if s.Path != "transport/first_attempt" && s.Path != many && s.Path != "do" {
			continue
		}
		for _, goroutines := range []int{1, 2, 16} {
			b.Run(fmt.Sprintf("%v/goroutines_%d", s, goroutines), func(b *testing.B) {
				run := s.Open()
				defer run.Close()
				workers := make([]subject.Op, goroutines)
				for i := range workers {
					workers[i] = run.Worker()
				}
				b.ReportAllocs()
				b.ResetTimer()
				var all sync.WaitGroup
				for i, op := range workers {
					share := b.N / goroutines
					if i < b.N%goroutines {
						share++
					}
					all.Go(func() {
						for range share {
							if err := op(); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
			})
		}
	}
}
