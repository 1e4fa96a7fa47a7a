package budgethttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// Two services, each a process of its own with a catalog file of its own, call one ledger: what two teams deploy. They
// are this test's binary, started again.

// callerVariable makes the binary a calling service; its value is a callerPlan.
const callerVariable = "CHAINBUDGET_TEST_CALLER"

type callerPlan struct {
	Service, Catalog, URL string
	InCode                profiles.Name // what its team wrote
}

// callerReport is what the service says of itself, and of each call.
type callerReport struct {
	Profile, Digest, Error string
	Status                 int
}

// runCaller is the main of a calling service: it says what it uses, and makes one call for each line that it reads.
func runCaller(plan string) {
	var p callerPlan
	if err := json.Unmarshal([]byte(plan), &p); err != nil {
		panic(err)
	}
	report := json.NewEncoder(os.Stdout)
	sdk, err := chainbudget.New(p.Service, chainbudget.WithCatalogFile(p.Catalog))
	if err != nil {
		report.Encode(callerReport{Error: err.Error()})
		return
	}
	defer sdk.Close()
	ledger, err := sdk.Dependency("ledger", p.InCode)
	if err != nil {
		report.Encode(callerReport{Error: err.Error()})
		return
	}
	client := &http.Client{Transport: budgethttp.NewTransport(nil, ledger)}
	report.Encode(callerReport{Profile: string(ledger.Profile().Name), Digest: ledger.Profile().Digest()})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var said callerReport
		func() {
			ctx, end := chainbudget.Start(context.Background(), sdk)
			defer end()
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, strings.NewReader("pay"))
			req.Header.Set("Idempotency-Key", lines.Text())
			resp, err := client.Do(req)
			if err != nil {
				said.Error = err.Error()
				return
			}
			said.Status = resp.StatusCode
			resp.Body.Close()
		}()
		said.Profile, said.Digest = string(ledger.Profile().Name), ledger.Profile().Digest()
		report.Encode(said)
	}
}

// process is a calling service that runs.
type process struct {
	t     *testing.T
	in    io.WriteCloser
	out   *json.Decoder
	Hello callerReport
}

func startCaller(t *testing.T, plan callerPlan) *process {
	t.Helper()
	encoded, err := json.Marshal(plan)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), callerVariable+"="+string(encoded))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		assert.NoError(t, cmd.Wait())
	})
	p := &process{t: t, in: in, out: json.NewDecoder(out)}
	p.Hello = p.read()
	require.Empty(t, p.Hello.Error)
	return p
}

func (p *process) read() (r callerReport) {
	p.t.Helper()
	require.NoError(p.t, p.out.Decode(&r))
	return r
}

func (p *process) call(key string) callerReport {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, key)
	require.NoError(p.t, err)
	return p.read()
}

const ledgerCatalog = `
version: 1
profiles:
  payments-write: {extends: write-path, retry: {max_attempts: 2}, backoff: {base: 1ms}}
dependencies:
  ledger: {profile: payments-write, owner: team-ledger}
services:
  ledger-api: {serves: [ledger]}
`

func catalogFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "retry-catalog.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// startLedger serves the ledger, which fails as long as down says.
func startLedger(t *testing.T, down func() bool) (sdk *chainbudget.SDK, url string, requests func(key string) int) {
	t.Helper()
	sdk, err := chainbudget.New("ledger-api", chainbudget.WithCatalogFile(catalogFile(t, ledgerCatalog)))
	require.NoError(t, err)
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("Idempotency-Key")]++
		mu.Unlock()
		if down() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}), sdk))
	t.Cleanup(func() {
		server.Close()
		sdk.Close()
	})
	return sdk, server.URL, func(key string) int {
		mu.Lock()
		defer mu.Unlock()
		return seen[key]
	}
}

// TestGrabAndGo_one_catalog_is_one_profile: whatever the two teams wrote into their code.
func TestGrabAndGo_one_catalog_is_one_profile(t *testing.T) {
	sdk, url, requests := startLedger(t, func() bool { return true })
	shared := catalogFile(t, ledgerCatalog)
	grab := startCaller(t, callerPlan{Service: "grab", Catalog: shared, URL: url, InCode: profiles.ReadHeavy})
	pay := startCaller(t, callerPlan{Service: "go", Catalog: shared, URL: url, InCode: profiles.Background})
	assert.Equal(t, "payments-write", grab.Hello.Profile)
	assert.Equal(t, grab.Hello, pay.Hello)
	assert.Equal(t, http.StatusServiceUnavailable, grab.call("g1").Status)
	assert.Equal(t, http.StatusServiceUnavailable, pay.call("p1").Status)
	assert.Equal(t, []int{2, 2}, []int{requests("g1"), requests("p1")}, "two attempts each, as the pinned profile says")
	assert.Empty(t, sdk.Mismatches())
}

// TestGrabAndGo_edited_copies_are_found by the ledger, each with its first request, by who and how.
func TestGrabAndGo_edited_copies_are_found(t *testing.T) {
	sdk, url, requests := startLedger(t, func() bool { return false })
	good := startCaller(t, callerPlan{Service: "good", Catalog: catalogFile(t, ledgerCatalog), URL: url})
	edited := startCaller(t, callerPlan{Service: "go", URL: url,
		Catalog: catalogFile(t, strings.Replace(ledgerCatalog, "max_attempts: 2", "max_attempts: 6", 1))})
	other := startCaller(t, callerPlan{Service: "grab", URL: url,
		Catalog: catalogFile(t, strings.Replace(ledgerCatalog, "profile: payments-write", "profile: read-heavy", 1))})

	good.call("1")
	require.Empty(t, sdk.Mismatches())
	edited.call("2")
	require.Len(t, sdk.Mismatches(), 1, "one request is enough")
	other.call("3")
	list := sdk.Mismatches()
	require.Len(t, list, 2)
	assert.Equal(t, []int{1, 1, 1}, []int{requests("1"), requests("2"), requests("3")}, "a mismatch fails no request")

	assert.Equal(t, "go", list[0].Caller)
	assert.Equal(t, edited.Hello.Digest, list[0].Digest)
	assert.Equal(t, []string{"payments-write@" + good.Hello.Digest}, list[0].Want, "both values are shown")
	assert.NotEqual(t, good.Hello.Digest, edited.Hello.Digest)
	assert.Contains(t, list[0].String(), "perhaps an edited copy")
	assert.Equal(t, "grab", list[1].Caller)
	assert.Equal(t, profiles.ReadHeavy, list[1].Profile)
	assert.Contains(t, list[1].Differences, "retry.max_attempts: 4, pinned 2")
	assert.EqualValues(t, 2, sdk.Totals().Mismatched)
}
