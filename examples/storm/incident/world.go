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
	name    string
	catalog string  // file; empty = no SDK
	watcher Watcher // nil = nobody watches

	ledger *ledger
	grab   *service
	goes   *service // the service called Go
	grabAt string
	goAt   string
	close  []func() error // in reverse order
}

// idlePerServer is more than the requests that are ever open at once between two of the servers.
const idlePerServer = 1024

// newWorld starts the servers of a run. Without a catalog nobody has an SDK.
func newWorld(s Settings, name, catalog string) (w *world, err error) {
	w = &world{name: name, catalog: catalog, watcher: s.Watcher, ledger: newLedger(s, time.Time{}), grab: &service{name: "grab"}, goes: &service{name: "go"}}
	w.close = append(w.close, func() error { w.ledger.close(); return nil })
	defer func() {
		if err != nil {
			_ = w.shut()
		}
	}()

	var ledgerHandler http.Handler = w.ledger
	if catalog != "" {
		sdk, err := w.sdk("ledger")
		if err != nil {
			return w, err
		}
		ledgerHandler = budgethttp.NewHandler(w.ledger, sdk)
	}
	ledgerAt, err := w.serve(ledgerHandler)
	if err != nil {
		return w, err
	}
	for i, s := range []*service{w.grab, w.goes} {
		s.counts.Name = s.name
		s.breaker = name == After || s == w.goes
		base := loopback.NewBase(idlePerServer)
		w.close = append(w.close, func() error { base.CloseIdleConnections(); return nil })
		if name == After {
			// Each team names what it finds right; the catalog decides.
			s.handler, err = w.after(s, ledgerAt, base, []profiles.Name{profiles.ReadHeavy, profiles.LatencyCritical}[i])
		} else {
			s.handler, err = w.before(s, ledgerAt, base, []policy{grabBefore, goBefore}[i])
		}
		if err != nil {
			return w, err
		}
	}
	if w.grabAt, err = w.serve(w.grab); err != nil {
		return w, err
	}
	w.goAt, err = w.serve(w.goes)
	return w, err
}

// begin sets the moment that all times are counted from. No request may have come.
func (w *world) begin(start time.Time) {
	w.ledger.start, w.grab.start, w.goes.start = start, start, start
}

// sdk makes the SDK of a service, which ends with the world.
func (w *world) sdk(service string, options ...chainbudget.Option) (*chainbudget.SDK, error) {
	sdk, err := chainbudget.New(service, append(options, chainbudget.WithCatalogFile(w.catalog))...)
	if err != nil {
		return nil, err
	}
	w.close = append(w.close, sdk.Close)
	if w.watcher != nil {
		end, err := w.watcher.Watch(w.name, service, sdk)
		if err != nil {
			return nil, err
		}
		w.close = append(w.close, end)
	}
	return sdk, nil
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
