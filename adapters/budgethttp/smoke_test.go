package budgethttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/chainbudget"
	"github.com/chainbudget/chainbudget-go/profiles"
)

func chain(t *testing.T, d int, prof profiles.Name) int64 {
	var hits atomic.Int64
	leafSDK, _ := chainbudget.New("leaf")
	leaf := httptest.NewServer(budgethttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		w.WriteHeader(503)
	}), leafSDK))
	defer leaf.Close()
	url := leaf.URL
	var sdks []*chainbudget.SDK
	for i := d; i >= 1; i-- {
		name := fmt.Sprintf("hop%d", i)
		sdk, err := chainbudget.New(name)
		if err != nil {
			t.Fatal(err)
		}
		sdks = append(sdks, sdk)
		dep, err := sdk.Dependency(fmt.Sprintf("hop%d", i+1), prof)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: budgethttp.NewTransport(nil, dep)}
		next := url
		var opts []budgethttp.HandlerOption
		if i == 1 {
			opts = append(opts, budgethttp.Entry())
		}
		s := httptest.NewServer(budgethttp.NewHandler(budgethttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			req, _ := http.NewRequestWithContext(r.Context(), "GET", next, nil)
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode >= 500 {
				return budgethttp.Denied(resp)
			}
			return nil
		}), sdk, opts...))
		defer s.Close()
		url = s.URL
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for _, s := range sdks {
		t.Logf("%+v", s.Totals())
	}
	return hits.Load()
}

func TestSmoke(t *testing.T) {
	for d := 1; d <= 4; d++ {
		t.Logf("d=%d hits=%d", d, chain(t, d, profiles.ReadHeavy))
	}
}
