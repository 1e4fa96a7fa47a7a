package subject

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/chainbudget/chainbudget-go/profiles"
)

// limit is the longest that an attempt may take, where it has a limit.
const limit = time.Second

// client returns a subject that sends GETs. Each worker has a callee and a request of its own.
func client(path, who string, watches bool, open func(*stage) layer) Subject {
	return Subject{Path: path, Who: who, open: func() *stage {
		s := new(stage)
		l := open(s)
		s.worker = func() Op {
			rt, ctx := l.wrap(&callee{tally: s.tally(), watches: watches}), l.context()
			return func() error { return get(ctx, rt, nil) }
		}
		return s
	}}
}

func bare(s *stage) layer { return s.bare() }

func sdk(profile profiles.Name) func(*stage) layer {
	return func(s *stage) layer { return s.sdk(profile) }
}

func failsafeOn(t terms) func(*stage) layer { return func(s *stage) layer { return s.failsafe(t) } }

func retryableOn(t terms) func(*stage) layer { return func(s *stage) layer { return s.retryable(t) } }

func byHandOn(t terms) func(*stage) layer { return func(s *stage) layer { return s.byHand(t) } }

// otelBeside is otelhttp with one baggage member, as an instrumented service has it.
func otelBeside(s *stage) layer { return s.otel(parseBaggage(oneMember)) }

// transports are first attempts that succeed.
func transports() []Subject {
	const first, watched, limited = "transport/first_attempt", "transport/first_attempt/done_asked", "transport/first_attempt/timeout"
	const metered = "transport/first_attempt/metrics"
	return []Subject{
		client(first, SDK, false, sdk("plain")),
		client(first, NoBreaker, false, sdk("no-breaker")),
		client(first, Bare, false, bare),
		client(first, Failsafe, false, failsafeOn(terms{})),
		client(first, RetryableHTTP, false, retryableOn(terms{})),
		client(first, OTelHTTP, false, otelBeside),
		client(first, ByHand, false, byHandOn(terms{})),

		client(watched, SDK, true, sdk("plain")),
		client(watched, Bare, true, bare),
		client(watched, Failsafe, true, failsafeOn(terms{})),

		client(limited, SDK, false, sdk("limited")),
		client(limited, Bare, false, bare),
		client(limited, Failsafe, false, failsafeOn(terms{limit: limit})),

		client(metered, SDK, false, func(s *stage) layer { return s.metered("plain") }),
		client(metered, NoMetrics, false, sdk("plain")),
		client(metered, Bare, false, bare),
	}
}

// uploads send a replayable body of 1 MiB that the callee reads once, which is the least that sending it can cost.
func uploads() []Subject {
	upload := func(who string, open func(*stage) layer) Subject {
		return Subject{Path: "transport/put_1mib", Who: who, open: func() *stage {
			s := new(stage)
			l := open(s)
			payload := make([]byte, 1<<20)
			s.worker = func() Op {
				rt, ctx := l.wrap(&callee{tally: s.tally(), reads: make([]byte, 32<<10)}), l.context()
				return func() error { return put(ctx, rt, payload) }
			}
			return s
		}}
	}
	return []Subject{
		upload(SDK, sdk("plain")),
		upload(Bare, bare),
		upload(Failsafe, failsafeOn(terms{})),
		upload(RetryableHTTP, retryableOn(terms{})),
		upload(ByHand, byHandOn(terms{})),
		upload(OTelHTTP, otelBeside),
	}
}

func put(ctx context.Context, rt http.RoundTripper, payload []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, target, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	return send(rt, req, http.StatusOK)
}

// Lent returns how many tokens the given number of first attempts carried, in one request.
func Lent(attempts int) (int64, error) {
	s := new(stage)
	defer (&Run{stage: s}).Close()
	sdk := newSDK(catalog)
	rt, ctx := newTransport(&callee{tally: s.tally()}, dependency(sdk, "plain")), s.inRequest(sdk)
	for range attempts {
		if err := get(ctx, rt, nil); err != nil {
			return 0, err
		}
	}
	return sdk.Totals().Dependencies["payments"].Lent, nil
}
