package chainbudget_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/internal/edges"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// shop is a service with one route, which calls a dependency in every request.
type shop struct {
	t    *testing.T
	sdk  *chainbudget.SDK
	page http.Handler

	dep              *chainbudget.Dependency
	depFails, fails  bool   // in the present request
	explained        string // what the SDK said of it before the answer went out
	unreadableMemory error
}

func newShop(t *testing.T, edgesFile string) *shop {
	t.Helper()
	s := &shop{t: t}
	catalog := fstest.MapFS{"catalog.yaml": {Data: []byte("version: 1\nchain: {learn: enforce}\nprofiles: {once: {extends: no-retry, breaker: disabled}}\n")}}
	var err error
	s.sdk, err = chainbudget.New("shop", chainbudget.WithCatalogFS(catalog, "catalog.yaml"))
	require.NoError(t, err)
	s.unreadableMemory = s.sdk.KeepEdges(edgesFile)
	s.dep, err = s.sdk.Dependency("ads", "once")
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page/{id}", func(w http.ResponseWriter, r *http.Request) {
		err := chainbudget.Do(r.Context(), s.dep, func(context.Context) error {
			if s.depFails {
				return errors.New("no ads")
			}
			return nil
		}, chainbudget.Idempotent())
		assert.Equal(t, s.depFails, err != nil)
		s.explained = ownership.Explain(r.Context())
		if s.fails {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	s.page = budgethttp.NewHandler(mux, s.sdk, budgethttp.Entry())
	return s
}

// serve serves n requests in which the dependency fails or not, and the shop itself.
func (s *shop) serve(n int, depFails, fails bool) {
	s.depFails, s.fails = depFails, fails
	for range n {
		s.page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/page/7", nil))
	}
}

// class is what the shop says when the dependency fails: its word for the edge, or "unknown". The request that finds it out
// fails too or does not, and teaches that.
func (s *shop) class(fails bool) string {
	s.t.Helper()
	s.serve(1, true, fails)
	for _, word := range []string{"fail_close", "fail_open", "unknown"} {
		if strings.Contains(s.explained, word) {
			return word
		}
	}
	s.t.Errorf("the shop explains %q", s.explained)
	return ""
}

func TestKeepEdges_survives_a_restart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "edges.json")
	s := newShop(t, path)
	require.NoError(t, s.unreadableMemory, "no file yet is no error")
	s.serve(200, false, false)
	s.serve(17, true, true)
	require.Equal(t, "fail_close", s.class(true))
	require.NoFileExists(t, path, "it is written from time to time, not at each request")
	require.NoError(t, s.sdk.Close())
	require.NoError(t, s.sdk.Close(), "closing again does nothing")

	again := newShop(t, path)
	require.NoError(t, again.unreadableMemory)
	assert.Equal(t, "fail_close", again.class(true), "at the first request")
	assert.Contains(t, again.explained, "GET /page/{id}", "the route, not the path")
	require.NoError(t, again.sdk.Close())

	fresh := newShop(t, filepath.Join(t.TempDir(), "edges.json"))
	assert.Equal(t, "unknown", fresh.class(true))
	require.NoError(t, fresh.sdk.Close())
}

// Two instances that saw half each: their files merged are what one would have that saw all.
func TestKeepEdges_of_two_instances_merged(t *testing.T) {
	dir := t.TempDir()
	paths := map[string]string{}
	for name, failures := range map[string]int{"left": 9, "right": 11, "whole": 20} {
		paths[name] = filepath.Join(dir, name+".json")
		s := newShop(t, paths[name])
		s.serve(10*failures, false, false)
		s.serve(failures, true, true)
		s.serve(failures, false, true) // its own
		require.NoError(t, s.sdk.Close())
	}
	load := func(name string) edges.Memory {
		m, err := edges.Load(paths[name])
		require.NoError(t, err)
		require.NotEmpty(t, m.Operations)
		return m
	}
	merged := edges.Merge(load("left"), load("right"))
	assert.Equal(t, load("whole"), merged)
	text, err := merged.Encode()
	require.NoError(t, err)
	path := filepath.Join(dir, "merged.json")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	for name, class := range map[string]string{"left": "unknown", "right": "unknown", "whole": "fail_close", "merged": "fail_close"} {
		s := newShop(t, filepath.Join(dir, name+".json"))
		require.NoError(t, s.unreadableMemory)
		assert.Equal(t, class, s.class(true), name)
	}
}

func TestKeepEdges_that_is_not_readable(t *testing.T) {
	for name, text := range map[string]string{
		"half_written": `{"version": 1, "operations": [{"name": "GET /pa`,
		"older":        `{"version": 0, "operations": []}`,
		"newer":        `{"version": 2, "operations": [], "more": 1}`,
		"empty":        ``,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "edges.json")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			s := newShop(t, path)
			require.ErrorContains(t, s.unreadableMemory, path)
			assert.ErrorContains(t, s.unreadableMemory, "start empty", "it says how to mend it")
			require.NoError(t, s.sdk.Close())
			left, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, text, string(left), "nothing was learned: nothing is written over it")

			s = newShop(t, path)
			assert.Equal(t, "unknown", s.class(true), "it starts empty")
			s.serve(20, true, true)
			require.NoError(t, s.sdk.Close())
			s = newShop(t, path)
			assert.NoError(t, s.unreadableMemory)
			assert.Equal(t, "fail_close", s.class(true), "and keeps what it learned then")
		})
	}
}

func TestKeepEdges_is_saved_every_minute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "edges.json")
		failed := func() float64 {
			m, err := edges.Load(path)
			require.NoError(t, err)
			if len(m.Operations) == 0 {
				return 0
			}
			return m.Operations[0].Edges[0].Failed
		}
		s := newShop(t, path)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.NoFileExists(t, path, "there is nothing to save yet")
		s.serve(3, true, true)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		assert.Zero(t, failed())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, 3., failed())
		s.serve(2, true, true)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 5., failed())
		s.serve(1, true, true)
		require.NoError(t, s.sdk.Close())
		assert.Equal(t, 6., failed(), "closing saves too")
		s.serve(1, true, true)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 6., failed(), "nothing is saved after that")
	})
}

// A file that cannot be written is a warning, once, and an error of Close.
func TestKeepEdges_that_cannot_be_written(t *testing.T) {
	b := logged(t)
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "taken away")
		require.NoError(t, os.Mkdir(folder, 0o700))
		s := newShop(t, filepath.Join(folder, "edges.json"))
		require.NoError(t, s.unreadableMemory)
		require.NoError(t, os.Remove(folder))
		s.serve(1, true, true)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(b.String(), "is not kept"), b.String())
		assert.ErrorContains(t, s.sdk.Close(), "not saved")
	})
}

// A dependency that changes is known for what it is now within 100 of its failures, whatever it was before.
func TestEdges_follow_a_dependency_that_changes(t *testing.T) {
	s := newShop(t, filepath.Join(t.TempDir(), "edges.json"))
	s.serve(1000, true, false)
	require.Equal(t, "fail_open", s.class(false))
	for _, turn := range []struct {
		fails bool
		class string
	}{{true, "fail_close"}, {false, "fail_open"}, {true, "fail_close"}} {
		n := 0
		for ; n < 200; n++ {
			s.serve(1, true, turn.fails)
			if strings.Contains(s.explained, turn.class) {
				break
			}
			s.serve(3, false, n%50 == 0) // between the failures most requests succeed, some fail by themselves
		}
		t.Logf("known as %s after %d failures", turn.class, n)
		assert.LessOrEqual(t, n, 100)
		s.serve(1000, true, turn.fails)
	}
	require.NoError(t, s.sdk.Close())
}
