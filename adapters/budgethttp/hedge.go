package budgethttp

import (
	"io"
	"net/http"
	"sync"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// leg is one attempt of a call that hedges: an exchange of its own, with a request that nobody else touches. An attempt
// that has lost may still be running when the call has returned and the caller uses its request again.
type leg struct {
	exchange
	body    io.ReadCloser
	resp    *http.Response
	failure error
}

// Leg implements [engine.Racer].
func (l *leg) Leg() *engine.Call { return &l.Call }

// Run implements [engine.Racer].
func (l *leg) Run() { l.resp, l.failure = l.try(l.Now(), l.body) }

// Discard implements [engine.Racer].
func (l *leg) Discard() { closeReader(l.body) }

// hedge makes the admitted attempt, and others beside it while no answer comes.
func (x *exchange) hedge(body io.ReadCloser) (*http.Response, error) {
	var bodies sync.Mutex
	latest := x.leg(body, &bodies)
	l := x.Race(latest, func() (engine.Racer, error) {
		bodies.Lock()
		body, err := x.rewind()
		bodies.Unlock()
		if err != nil {
			return nil, err
		}
		if peer := latest.first.watch.Peer(); peer != "" {
			x.TalkedTo(peer) // so that the next one can go elsewhere
		}
		latest = x.leg(body, &bodies)
		return latest, nil
	}).(*leg)
	x.current, x.early = l.current, l.early
	return l.resp, l.failure
}

// leg returns the exchange of one attempt. bodies is held while the caller's GetBody runs, which need not be ready for
// several calls at once.
func (x *exchange) leg(body io.ReadCloser, bodies *sync.Mutex) *leg {
	l := &leg{body: body}
	l.base, l.external, l.early = x.base, x.external, x.early
	l.req = x.req.WithContext(x.req.Context())
	url := *x.req.URL
	l.req.URL = &url
	l.req.Header = x.req.Header.Clone()
	if get := x.req.GetBody; get != nil {
		l.req.GetBody = func() (io.ReadCloser, error) {
			bodies.Lock()
			defer bodies.Unlock()
			return get()
		}
	}
	return l
}
