package chain

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/examples/storm/loopback"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// SDK gives the whole chain one budget of so many tokens, and every hop a profile that allows that many attempts. Its
// catalog is written into dir. With shared, a dependency's own budget of 10 % is on as well; without, breaker, floor and
// that budget are off, so that the chain's budget and ownership are all that acts.
func SDK(dir string, budget, attempts int, shared bool) (Policy, error) {
	p := Policy{
		Name: "this SDK", Note: fmt.Sprintf("one chain budget of %d, up to %d attempts next to the cause", budget, attempts),
		Roots: 100,
	}
	bucket := "disabled"
	if shared {
		p.Name, p.Note, p.Roots = "this SDK, 10 % budget", p.Note+", for at most 10 % of the requests", rootsOfShares
		bucket = "{ratio: 10%, fund: requests, burst: 1}"
	}
	catalog := filepath.Join(dir, fmt.Sprintf("chain-%d-%d-%t.yaml", budget, attempts, shared))
	text := fmt.Sprintf(catalogText, budget, attempts, bucket)
	if err := os.WriteFile(catalog, []byte(text), 0o600); err != nil {
		return Policy{}, fmt.Errorf("write the chain's catalog: %w", err)
	}
	p.service = func(n *node, index int, next string) (http.Handler, caller, error) {
		return budgeted(catalog, n, index, next)
	}
	return p, nil
}

const catalogText = `version: 1
chain: {budget: %d}
profiles:
  hop:
    retry: {max_attempts: %d, attempt_timeout: 10s}
    backoff: {base: 1ms, cap: 1ms, throttled_base: 1ms}
    budget: %s
    breaker: disabled
    availability_floor: 0%%
`

const hopProfile profiles.Name = "hop"

// budgeted makes a service that uses the SDK: a handler around its own, a transport under its client.
func budgeted(catalog string, n *node, index int, next string) (http.Handler, caller, error) {
	sdk, err := chainbudget.New("service-"+Name(index), chainbudget.WithCatalogFile(catalog), chainbudget.WithStrict())
	if err != nil {
		return nil, nil, err
	}
	var role []budgethttp.HandlerOption
	if index == 0 {
		role = append(role, budgethttp.Entry())
	}
	c := &budgetedCaller{url: next, sdk: sdk, base: loopback.NewBase(1)}
	if next != "" {
		dep, err := sdk.Dependency("service-"+Name(index+1), hopProfile)
		if err != nil {
			return nil, nil, err
		}
		c.client = http.Client{Transport: budgethttp.NewTransport(c.base, dep)}
	}
	handler := budgethttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		n.requests.Add(1)
		if next != "" {
			if _, err := c.call(r); err != nil {
				return err
			}
		}
		if n.fails {
			return errDown
		}
		return nil
	})
	return budgethttp.NewHandler(handler, sdk, role...), c, nil
}

// down is a service's own failure. It wraps no failed call, so the service is its owner.
type down struct{}

var errDown down

func (down) Error() string   { return "this service is down" }
func (down) HTTPStatus() int { return http.StatusServiceUnavailable }

type budgetedCaller struct {
	url    string
	sdk    *chainbudget.SDK
	base   *http.Transport
	client http.Client
}

func (c *budgetedCaller) call(inbound *http.Request) (ok bool, err error) {
	req, err := http.NewRequestWithContext(inbound.Context(), http.MethodGet, c.url, nil)
	if err != nil {
		return false, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return false, err
	}
	loopback.Discard(resp)
	if denied := budgethttp.Denied(resp); denied != nil {
		return false, denied
	}
	return true, nil
}

func (c *budgetedCaller) close() error {
	c.base.CloseIdleConnections()
	return c.sdk.Close()
}
