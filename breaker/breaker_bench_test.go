package breaker

import (
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"
)

func BenchmarkBreaker(b *testing.B) {
	b.Run("closed/success", func(b *testing.B) {
		br := New("payments", settings(), nil)
		b.ReportAllocs()
		for b.Loop() {
			p, _ := br.Allow()
			br.Done(&p, Success)
		}
	})
	b.Run("closed/success/parallel", func(b *testing.B) {
		br := New("payments", settings(), nil)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				p, _ := br.Allow()
				br.Done(&p, Success)
			}
		})
	})
	b.Run("closed/success/every_rule", func(b *testing.B) {
		p := settings()
		p.ConsecutiveFailures, p.SlowCall, p.SlowRatio, p.MaxInFlight = 5, time.Second, 0.5, 100
		br := New("payments", p, nil)
		b.ReportAllocs()
		for b.Loop() {
			p, _ := br.Allow()
			br.Done(&p, Success)
		}
	})
	b.Run("closed/success/gobreaker", func(b *testing.B) {
		cb := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{Interval: 10 * time.Second, BucketPeriod: time.Second})
		b.ReportAllocs()
		for b.Loop() {
			_, _ = cb.Execute(succeeded)
		}
	})
	b.Run("closed/success/gobreaker/parallel", func(b *testing.B) {
		cb := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{Interval: 10 * time.Second, BucketPeriod: time.Second})
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = cb.Execute(succeeded)
			}
		})
	})
	b.Run("closed/failure", func(b *testing.B) {
		p := settings()
		p.FailureRatio = 1
		br := New("payments", p, nil)
		attempt(br, Success)
		b.ReportAllocs()
		for b.Loop() {
			attempt(br, Failure)
		}
	})
	b.Run("open/refusal", func(b *testing.B) {
		p := settings()
		p.OpenFor = time.Hour
		br := New("payments", p, nil)
		for br.State() == Closed {
			attempt(br, Failure)
		}
		b.ReportAllocs()
		for b.Loop() {
			_, _ = br.Allow()
		}
	})
}
