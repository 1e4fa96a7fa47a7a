package sabotage

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/chainbudget/chainbudget-go/chainbudget/chainbudgettest"
)

// Attempted runs a case and returns how it failed, "" if it did not.
func Attempted(t testing.TB, c chainbudgettest.Case, a chainbudgettest.Adapter) (failure string) {
	r := &trial{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.end()
		c.Run(r, a)
	}()
	<-done
	return r.failure()
}

// trial is a test that may fail.
type trial struct {
	testing.TB

	mu       sync.Mutex
	first    string
	cleanups []func()
}

func (r *trial) Error(args ...any)                 { r.note(fmt.Sprint(args...)) }
func (r *trial) Errorf(format string, args ...any) { r.note(fmt.Sprintf(format, args...)) }
func (r *trial) Fail()                             { r.note("failed") }
func (r *trial) Failed() bool                      { return r.failure() != "" }
func (r *trial) Log(...any)                        {}
func (r *trial) Logf(string, ...any)               {}

func (r *trial) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *trial) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *trial) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *trial) note(failure string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == "" {
		r.first = failure
	}
}

// failure is the first that was reported, "" if there was none.
func (r *trial) failure() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first
}

func (r *trial) Cleanup(f func()) {
	r.mu.Lock()
	r.cleanups = append(r.cleanups, f)
	r.mu.Unlock()
}

func (r *trial) end() {
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		last()
	}
}
