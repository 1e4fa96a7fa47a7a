package incident

import (
	"net/http"
	"time"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/examples/storm/loopback"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// world is one ledger with its two services, each behind a server of its own.
type world struct {
	ledger *ledger
	grab   *service
	goes   *service // the service called Go
	grabAt string
	goAt   string
	close  []func() error // in reverse order
}

// idlePerServer is more than the requests that are ever open at once between two of the servers.
const idlePerServer = 1024

// newWorld starts the servers. With a catalog the services use the SDK, without they use their own policies.
func newWorld(s Settings, start time.Time, catalog string) (w *world, err error) {
	w = &world{ledger: newLedger(s, start), grab: newService("grab", start), goes: newService("go", start)}
	w.close = append(w.close, func() error { w.ledger.close(); return nil })
	defer func() {
		if err != nil {
			_ = w.shut()
		}
	}()

	var ledgerHandler http.Handler = w.ledger
	if catalog != "" {
		sdk, err := chainbudget.New("ledger", chainbudget.WithCatalogFile(catalog))
		if err != nil {
			return w, err
		}
		w.close = append(w.close, sdk.Close)
		ledgerHandler = budgethttp.NewHandler(w.ledger, sdk)
	}
	ledgerAt, err := w.serve(ledgerHandler)
	if err != nil {
		return w, err
	}
	bases := [2]*http.Transport{loopback.NewBase(idlePerServer), loopback.NewBase(idlePerServer)}
	for _, base := range bases {
		w.close = append(w.close, func() error { base.CloseIdleConnections(); return nil })
	}
	if catalog == "" {
		w.grab.handler = grabBefore(w.grab, &http.Client{Transport: bases[0]}, ledgerAt)
		w.goes.breaker = true
		w.goes.handler = goBefore(w.goes, &http.Client{Transport: bases[1]}, ledgerAt)
	} else {
		for i, s := range []*service{w.grab, w.goes} {
			// Each team names what it finds right; the catalog decides.
			named := []profiles.Name{profiles.ReadHeavy, profiles.LatencyCritical}[i]
			handler, sdk, err := after(s, catalog, ledgerAt, bases[i], named)
			if err != nil {
				return w, err
			}
			s.handler, s.breaker = handler, true
			w.close = append(w.close, sdk.Close)
		}
	}
	if w.grabAt, err = w.serve(w.grab); err != nil {
		return w, err
	}
	w.goAt, err = w.serve(w.goes)
	return w, err
}

func newService(name string, start time.Time) *service {
	return &service{name: name, start: start, counts: ServiceCounts{Name: name}}
}

func (w *world) serve(h http.Handler) (url string, err error) {
	server, err := loopback.Serve(h)
	if err != nil {
		return "", err
	}
	w.close = append(w.close, server.Close)
	return server.URL, nil
}

// shut ends everything, the servers that users talk to first.
func (w *world) shut() (err error) {
	for i := len(w.close) - 1; i >= 0; i-- {
		if cerr := w.close[i](); cerr != nil && err == nil {
			err = cerr
		}
	}
	w.close = nil
	return err
}
