package subject

import (
	"context"
	"net/http"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// catalog has one profile for each kind of operation. plain is what the other libraries are set to as well: three
// attempts, a breaker, a retry budget. The breaker of failing counts every attempt and cannot open: a million do not fit
// its window.
const catalog = `version: 1
chain: {budget: 3, max_budget: 10}
profiles:
  plain: {extends: read-heavy, retry: {max_attempts: 3, attempt_timeout: 0s}}
  limited: {extends: plain, retry: {attempt_timeout: 1s}}
  no-breaker: {extends: plain, breaker: disabled}
  retrying:
    extends: plain
    budget: {ratio: 100%}
    breaker: {failure_ratio: 90%}
    availability_floor: 0%
  failing: {extends: retrying, breaker: {min_requests: 1000000, window: 1s}}
  endless: {extends: plain, retry: {max_attempts: 99}, budget: disabled, breaker: disabled, availability_floor: 0%}
  broken: {extends: plain, breaker: {min_requests: 1, open_for: 1h}}
`

// emptyChain is a catalog whose chains begin without a token.
const emptyChain = `version: 1
chain: {budget: 0}
profiles:
  endless: {extends: read-heavy, budget: disabled, breaker: disabled, availability_floor: 0%}
  failing:
    extends: read-heavy
    retry: {max_attempts: 3, attempt_timeout: 0s}
    budget: {ratio: 100%}
    breaker: {min_requests: 1000000, window: 1s}
    availability_floor: 0%
`

// newSDK returns an SDK that differs from what chainbudget.New makes in one thing: no backoff lasts any time.
func newSDK(yaml string) *engine.SDK {
	loaded, err := profiles.Load([]byte(yaml), "catalog.yaml")
	if err != nil {
		panic(err) // the text above is wrong
	}
	sdk := new(engine.SDK)
	sdk.Init(engine.Config{Service: "checkout", Catalog: loaded, NoSleep: true})
	return sdk
}

func dependency(sdk *engine.SDK, profile profiles.Name) *engine.Dependency {
	return named(sdk, "payments", profile)
}

func named(sdk *engine.SDK, name string, profile profiles.Name) *engine.Dependency {
	d, _, err := sdk.Dependency(name, profile)
	if err != nil {
		panic(err) // the catalog above lacks the profile
	}
	return d
}

// inRequest returns the context of a request that an entry's handler is serving until the stage ends. Its purse holds
// what the catalog mints.
func (s *stage) inRequest(sdk *engine.SDK) context.Context {
	started := make(chan context.Context)
	release, ended := make(chan struct{}), make(chan struct{})
	serve := func(_ http.ResponseWriter, r *http.Request) {
		started <- r.Context()
		<-release
	}
	handler := budgethttp.NewHandler(http.HandlerFunc(serve), (*chainbudget.SDK)(sdk), budgethttp.Entry())
	r := serverRequest(s.serverContext(), http.Header{})
	go func() {
		defer close(ended)
		handler.ServeHTTP(newResponse(), r)
	}()
	s.atEnd(func() {
		close(release)
		<-ended
	})
	return <-started
}

// serverContext returns a context as net/http gives one to a handler: it can be canceled.
func (s *stage) serverContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	s.atEnd(cancel)
	return ctx
}
