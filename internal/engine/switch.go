package engine

import (
	"fmt"
	"time"
)

// SwitchState is what was switched at run time.
type SwitchState uint8

// The states.
const (
	SwitchCatalog  SwitchState = iota // nothing: the catalog decides
	SwitchDisabled                    // no retries, whatever the catalog says
	SwitchEnabled                     // retries, whatever the catalog says
)

var switchWords = [...]string{"catalog", "disabled", "enabled"}

// String returns the state's word.
func (w SwitchState) String() string { return switchWords[w] }

// ParseSwitchState returns the state of a word.
func ParseSwitchState(word string) (SwitchState, bool) {
	for i, w := range switchWords {
		if w == word {
			return SwitchState(i), true
		}
	}
	return 0, false
}

// Switch is whether a dependency's retries are on, and who says so.
type Switch struct {
	Disabled bool        // by what is in force
	Catalog  bool        // disabled by the catalog
	Runtime  SwitchState // what was switched in this process
	Since    time.Time   // when; zero = never
}

// switched is one turn of the switch at run time.
type switched struct {
	state SwitchState
	since time.Time
}

// switches are what was switched at run time, over what the catalog says. They are of this process, and end with it. The
// SDK's lock guards them.
type switches struct {
	all  switched
	each map[string]switched
}

func (w *switches) of(dependency string) switched {
	if one, ok := w.each[dependency]; ok {
		return one
	}
	return w.all
}

// disabled says whether retries to a dependency are off when the catalog says byCatalog.
func (w *switches) disabled(dependency string, byCatalog bool) bool {
	switch w.of(dependency).state {
	case SwitchDisabled:
		return true
	case SwitchEnabled:
		return false
	default:
		return byCatalog
	}
}

// AllDependencies is the name that stands for all, those to come included.
const AllDependencies = "all"

// Turn switches the retries to one dependency, or to [AllDependencies], until it is turned again or the process ends: a change
// of the catalog does not undo it. What is turned for all ends what was turned for one. Calls that wait to retry see it at
// once. A name that neither code nor the catalog knows is an error.
func (s *SDK) Turn(dependency string, to SwitchState) error {
	if err := s.turn(dependency, to); err != nil {
		return err
	}
	s.info("chainbudget: retries were switched at run time", "dependency", dependency, "retries", to.String())
	return nil
}

func (s *SDK) turn(dependency string, to SwitchState) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	turned := switched{to, time.Now()}
	known := s.deps[dependency] != nil || s.generation.Load().catalog.Dependencies[dependency] != nil
	switch {
	case known: // also one that is called "all": it is the user's word
		if s.switches.each == nil {
			s.switches.each = make(map[string]switched)
		}
		s.switches.each[dependency] = turned
	case dependency == AllDependencies:
		s.switches = switches{all: turned}
	default:
		return fmt.Errorf("chainbudget: there is no dependency %.64q: name one that the service calls, or %q", dependency, AllDependencies)
	}
	for _, d := range s.deps {
		d.disabled.Store(s.switches.disabled(d.name, d.policy.Load().disabled))
	}
	s.announce()
	return nil
}

// Switch returns whether the dependency's retries are on.
func (d *Dependency) Switch() Switch {
	d.sdk.mu.Lock()
	defer d.sdk.mu.Unlock()
	w := d.sdk.switches.of(d.name)
	return Switch{Disabled: d.disabled.Load(), Catalog: d.policy.Load().disabled, Runtime: w.state, Since: w.since}
}

// news returns a channel that is closed when another catalog, or another switch, is in force. Whoever waits reads it before
// looking at what is in force.
func (s *SDK) news() <-chan struct{} { return *s.next.Load() }

// announce wakes whoever waits for news. The lock is held.
func (s *SDK) announce() {
	fresh := make(chan struct{})
	close(*s.next.Swap(&fresh))
}
