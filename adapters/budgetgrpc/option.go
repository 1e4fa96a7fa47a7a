package budgetgrpc

import (
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/chainbudget/chainbudget-go/internal/engine"
	"github.com/chainbudget/chainbudget-go/internal/rpc"
)

// Option says what is special about a client or a server. The zero value says nothing; several add up.
type Option struct {
	// Entry makes chains begin at the server: it ignores whatever budget, timeout, claim and counter a request brings, mints
	// the catalog's budget (of the route, or of the chain), and sends no return. Use it where the fleet's outside begins.
	// Clients ignore it.
	Entry bool
	// Idempotent lists methods that may run twice, beside those whose idempotency_level says so: full names or patterns as
	// of path.Match, such as "/shop.Catalog/*" or "shop.Catalog/Get*". Servers ignore it.
	Idempotent []string
	// ServiceConfig is a gRPC service config (JSON) that lowers what the profile allows: a method with a retryPolicy gets at
	// most its maxAttempts, and is retried only after its retryableStatusCodes. Backoff and throttling remain the
	// profile's, and so does everything about methods without a retryPolicy. Servers ignore it.
	//
	// A service config, or a pattern, that cannot be read is left out whole and warned of once, with what is wrong, where,
	// and how to mend it. Under chainbudget.WithStrict, grpc.NewClient then fails with the same text.
	ServiceConfig string
}

// settings are options, read.
type settings struct {
	entry      bool
	idempotent []string
	limits     limits
}

// read adds options up. The error lists everything that could not be read; the settings are then without it.
func read(options []Option) (settings, error) {
	var (
		s        settings
		problems []error
	)
	for _, o := range options {
		s.entry = s.entry || o.Entry
		patterns, err := rpc.Patterns(o.Idempotent)
		if err != nil {
			problems = append(problems, err)
		}
		s.idempotent = append(s.idempotent, patterns...)
		if o.ServiceConfig == "" {
			continue
		}
		l, err := readLimits(o.ServiceConfig)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		s.limits = s.limits.with(l)
	}
	return s, errors.Join(problems...)
}

// refuse warns of options that could not be read; where warnings are errors it returns a dial option that makes
// grpc.NewClient fail with the text.
func refuse(sdk *engine.SDK, dependency string, err error) grpc.DialOption {
	if err == nil {
		return nil
	}
	const what = "chainbudget: budgetgrpc.Option cannot be read and is left out"
	sdk.Warn("grpc-option:"+dependency, what, "dependency", dependency, "problems", err.Error())
	if !sdk.Strict() {
		return nil
	}
	// gRPC has no dial option that is an error. Its message about a duration that is none repeats what was written.
	text := fmt.Sprintf("%s: dependency %.64s: %v", what, dependency, err)
	return grpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{}],"timeout":` + jsonString(text) + `}]}`)
}
