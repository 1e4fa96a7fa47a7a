package chainbudget_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/profiles"
)

// teach makes an SDK that keeps its edges in a file see n requests whose only call fails and fails them.
func teach(t *testing.T, path string, n int) *chainbudget.SDK {
	t.Helper()
	sdk, err := chainbudget.New("checkout")
	require.NoError(t, err)
	require.NoError(t, sdk.KeepEdges(path))
	dep, err := sdk.Dependency("payments", profiles.NoRetry)
	require.NoError(t, err)
	down := budgethttp.NewTransport(refusing{}, dep)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cart/{id}", func(w http.ResponseWriter, r *http.Request) {
		req, _ := http.NewRequestWithContext(r.Context(), "GET", "http://payments/", nil)
		if _, err := down.RoundTrip(req); err != nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	h := budgethttp.NewHandler(mux, sdk, budgethttp.Entry())
	for range n {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/cart/7", nil))
	}
	return sdk
}

// refusing is a network on which nothing answers.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, os.ErrDeadlineExceeded }

func TestEdges_are_kept_and_merged(t *testing.T) {
	dir := t.TempDir()
	a, b, fleet := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json"), filepath.Join(dir, "fleet.json")
	want := chainbudget.Edge{Operation: "GET /cart/{id}", Dependency: "payments", Class: "unknown", Requests: 9, Failed: 9, Both: 9}
	first := teach(t, a, 9)
	assert.Equal(t, []chainbudget.Edge{want}, first.Edges())
	require.NoError(t, first.Close())
	require.NoError(t, first.Close())
	require.NoError(t, teach(t, b, 9).Close())

	again := teach(t, a, 0)
	assert.Equal(t, []chainbudget.Edge{want}, again.Edges(), "a restart knows what was known")

	merged := teach(t, fleet, 0)
	require.NoError(t, merged.LearnFrom(a, b))
	require.NoError(t, merged.Close())
	shipped := teach(t, filepath.Join(dir, "new.json"), 0)
	require.NoError(t, shipped.LearnFrom(fleet))
	want.Requests, want.Failed, want.Both, want.Class = 18, 18, 18, "fail_close"
	assert.Equal(t, []chainbudget.Edge{want}, shipped.Edges())

	require.ErrorContains(t, shipped.LearnFrom(fleet, filepath.Join(dir, "none.json")), "none.json")
	assert.Equal(t, []chainbudget.Edge{want}, shipped.Edges(), "all or nothing")
}

func TestEdges_corrupt_file_starts_empty_and_is_not_overwritten_by_nothing(t *testing.T) {
	path := file(t, `{"version": 1, "operations": [{"na`)
	sdk, err := chainbudget.New("checkout")
	require.NoError(t, err)
	require.ErrorContains(t, sdk.KeepEdges(path), "saved edges are not readable")
	assert.Empty(t, sdk.Edges())
	require.NoError(t, sdk.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, `{"version": 1, "operations": [{"na`, string(data))
}

func TestKeepEdges_without_its_folder(t *testing.T) {
	sdk, err := chainbudget.New("checkout")
	require.NoError(t, err)
	folder := filepath.Join(t.TempDir(), "none")
	err = sdk.KeepEdges(filepath.Join(folder, "edges.json"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "make its folder")
	require.NoError(t, sdk.Close())
}

func TestKeepEdges_twice_or_too_late(t *testing.T) {
	sdk, err := chainbudget.New("checkout")
	require.NoError(t, err)
	dir := t.TempDir()
	assert.ErrorContains(t, sdk.KeepEdges(""), "no name")
	require.NoError(t, sdk.KeepEdges(filepath.Join(dir, "a.json")))
	assert.ErrorContains(t, sdk.KeepEdges(filepath.Join(dir, "b.json")), "a.json")
	require.NoError(t, sdk.Close())
	assert.Error(t, sdk.KeepEdges(filepath.Join(dir, "c.json")))
	late, err := chainbudget.New("checkout")
	require.NoError(t, err)
	require.NoError(t, late.Close())
	assert.ErrorContains(t, late.KeepEdges(filepath.Join(dir, "d.json")), "closed")
}
