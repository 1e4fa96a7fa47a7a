package chainbudget

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// SDK is one service's use of the chain budget. Make one in main with [New] and pass it on; there is no global one. A nil
// or zero SDK has no dependencies and no numbers, and adapters let everything pass that is given one. All methods may be
// called by many goroutines at once.
type SDK engine.SDK

// modeVariable is the environment variable that overrides the mode of everything, for the on-call engineer: bypass,
// observe, budget or enforce.
const modeVariable = "CHAINBUDGET_MODE"

// Option configures [New].
type Option struct {
	apply func(*settings)
}

type settings struct {
	catalogFile string
	fromFS      bool
	catalogFS   fs.FS
	catalogPath string
	strict      bool
	observe     func(Event)
}

// WithStrict makes an error of what is a warning in production, for CI and tests: a catalog that does not load leaves
// no SDK, and code that names another profile than the catalog pins gets no dependency.
func WithStrict() Option {
	return Option{func(s *settings) { s.strict = true }}
}

// WithObserver calls observe once for every final retry decision, on the goroutine that decided and outside all locks.
// It must return quickly and may be called by many goroutines at once.
func WithObserver(observe func(Event)) Option {
	return Option{func(s *settings) { s.observe = observe }}
}

// New makes the SDK of the service of that name. With a missing or invalid catalog, or a bad CHAINBUDGET_MODE, it
// returns an error that lists every problem and an SDK that works on the embedded catalog, so that main decides: a bad
// file must not become a crash loop. Under [WithStrict] it returns only the error.
//
// Warnings go to slog.Default, each cause once. OpenTelemetry's global meter provider observes the numbers, see
// [SDK.Instrument]. Call [SDK.Close] in the end.
func New(service string, options ...Option) (*SDK, error) {
	var set settings
	for _, o := range options {
		if o.apply != nil {
			o.apply(&set)
		}
	}
	var problems []error
	if service == "" {
		problems = append(problems, errors.New("chainbudget: the service has no name: give New the name that the catalog uses"))
	}
	catalog, bad := set.catalog()
	if bad != nil {
		problems = append(problems, bad)
	}
	mode := profiles.ModeInherit
	if word := os.Getenv(modeVariable); word != "" {
		m, ok := profiles.ParseMode(word)
		if !ok {
			problems = append(problems, fmt.Errorf("chainbudget: %s=%.40q is not a mode: use bypass, observe, budget or enforce",
				modeVariable, word))
		}
		mode = m
	}
	if len(problems) > 0 && set.strict {
		return nil, errors.Join(problems...)
	}
	config := engine.Config{Service: service, Catalog: catalog, CatalogErr: bad, Mode: mode, ModeFrom: modeVariable + " in the environment", Strict: set.strict, Warn: slog.Warn, Info: slog.Info, Debug: slog.DebugContext}
	if set.observe != nil {
		config.Observe = func(e *engine.Event) { set.observe(Event(*e)) }
	}
	sdk := new(SDK)
	sdk.engine().Init(config)
	sdk.engine().WarnOfOversights()
	if set.catalogFile != "" {
		sdk.engine().Follow(set.catalogFile)
	}
	sdk.observeGlobally()
	return sdk, errors.Join(problems...)
}

var errNoSDK = errors.New("chainbudget: there is no SDK: make one with New, and look at the error that came with it")

var errNoName = errors.New("chainbudget: the dependency has no name: give Dependency the name that the catalog uses")

func (s *SDK) engine() *engine.SDK { return (*engine.SDK)(s) }

// Dependency returns the dependency of that name, with the profile that the catalog pins for it or else the one named
// here. The same name always gives the same dependency.
//
// An empty name is an error. A profile name that the catalog does not know is a *[profiles.UnknownProfileError] listing those that exist; a
// dependency named with two profiles and no pin is an error naming both. Either comes with a dependency that works: one
// attempt, breaker and ownership only, or the profile that was named first. Under [WithStrict] there is only the error,
// and a profile other than the pinned one is an error too.
func (s *SDK) Dependency(name string, profile profiles.Name) (*Dependency, error) {
	e := s.engine()
	if !e.Usable() {
		return nil, errNoSDK
	}
	d, effective, err := e.Dependency(name, profile)
	if name == "" {
		err = errors.Join(errNoName, err)
	}
	if err == nil && effective.Differs {
		if e.Strict() {
			err = engine.PinError(effective)
		} else {
			e.WarnOfPin(effective)
		}
	}
	if err != nil && e.Strict() {
		return nil, err
	}
	return (*Dependency)(d), err
}

// Close ends the SDK's use: it no longer follows the catalog's file, no meter observes it any more, and it saves what it has
// learned if [SDK.KeepEdges] was given a file. Calls under way finish. No goroutine of the SDK is left then. Closing again
// does nothing.
func (s *SDK) Close() error {
	if !s.engine().Usable() {
		return nil
	}
	return s.engine().Close()
}

// Dependency is a named thing that a service calls, with exactly one profile. A nil *Dependency lets everything pass
// as if the SDK were not there. All methods may be called by many goroutines at once.
type Dependency engine.Dependency

func (d *Dependency) engine() *engine.Dependency { return (*engine.Dependency)(d) }

// Name returns the dependency's name, "" for nil.
func (d *Dependency) Name() string {
	if d == nil {
		return ""
	}
	return d.engine().Name()
}

// Profile returns the profile in force; for nil the zero profile, which makes one attempt. It is shared and must not be
// changed.
func (d *Dependency) Profile() *profiles.Profile {
	if d == nil {
		return new(profiles.Profile)
	}
	return d.engine().Policy().Profile()
}

// Explain says what holds for the dependency by the newest catalog, and where each value comes from: its file and place,
// the built-in profile, the schema, the code, or the environment where CHAINBUDGET_MODE forces the mode. It is for
// people, not for the request path. For nil there is nothing to say.
func (d *Dependency) Explain() profiles.Explanation {
	if d == nil {
		return profiles.Explanation{}
	}
	return d.engine().Explain()
}
