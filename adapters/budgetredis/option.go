package budgetredis

import (
	"fmt"
	"strings"
	"time"
)

// Option configures [Share].
type Option struct {
	apply func(*settings)
}

type settings struct {
	interval time.Duration
	fleet    string
	prefix   string
}

const (
	defaultInterval = 250 * time.Millisecond
	minInterval     = 50 * time.Millisecond
	maxInterval     = time.Minute
	defaultPrefix   = "chainbudget:"
	maxPrefix       = 100
	maxFleet        = 100
)

// Interval sets the longest time between two syncs, 50 ms to 1 min; 250 ms by default. What one process counts is seen by
// the others within two of them. A shorter one costs Redis more commands: one for each dependency, process and interval.
func Interval(d time.Duration) Option {
	return Option{func(s *settings) { s.interval = d }}
}

// Fleet names the processes that share one view: 1 to 100 bytes; the service's name by default. Give several services one
// fleet only if they call their dependencies alike: they then trip together, and live on one bucket.
func Fleet(name string) Option {
	return Option{func(s *settings) { s.fleet = name }}
}

// Prefix is what the name of every key begins with, at most 100 bytes without braces; "chainbudget:" by default.
func Prefix(prefix string) Option {
	return Option{func(s *settings) { s.prefix = prefix }}
}

// problem says what is wrong with the settings, or nothing.
func (s *settings) problem() error {
	switch {
	case s.interval < minInterval || s.interval > maxInterval:
		return fmt.Errorf("chainbudget: budgetredis: the interval %v is out of range: use %v to %v", s.interval, minInterval, maxInterval)
	case len(s.fleet) > maxFleet:
		return fmt.Errorf("chainbudget: budgetredis: the fleet's name %.40q... is too long: use at most %d bytes", s.fleet, maxFleet)
	case len(s.prefix) > maxPrefix:
		return fmt.Errorf("chainbudget: budgetredis: the prefix %.40q... is too long: use at most %d bytes", s.prefix, maxPrefix)
	case strings.ContainsAny(s.prefix, "{}"):
		return fmt.Errorf("chainbudget: budgetredis: the prefix %q has a brace, which decides the slot of a key in a cluster: use none", s.prefix)
	default:
		return nil
	}
}
