package otelprop

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vectorFile is testdata/wire-vectors.json, which implementations in other languages replay too.
type vectorFile struct {
	Request []struct {
		Name      string   `json:"name"`
		Baggage   []string `json:"baggage"`
		Header    []string `json:"chainbudget"`
		MaxBudget int      `json:"max_budget"`
		Want      struct {
			State     string   `json:"state"`
			Grant     uint8    `json:"grant"`
			Limit     uint8    `json:"limit"`
			Hop       uint8    `json:"hop"`
			Nonce     string   `json:"nonce"`
			Entry     string   `json:"entry"`
			Direct    bool     `json:"direct"`
			Caller    string   `json:"caller"`
			Attempt   uint8    `json:"attempt"`
			Profile   string   `json:"profile"`
			Digest    string   `json:"digest"`
			TimeoutMS int      `json:"timeout_ms"`
			Rejects   []string `json:"rejects"`
		} `json:"want"`
	} `json:"request"`
	Response []struct {
		Name      string   `json:"name"`
		Lines     []string `json:"chainbudget_return"`
		SentNonce string   `json:"sent_nonce"`
		Leased    int      `json:"leased"`
		Want      struct {
			Returned uint8    `json:"returned"`
			Retries  uint8    `json:"retries"`
			Claim    string   `json:"claim"`
			Leaf     bool     `json:"leaf"`
			Effects  bool     `json:"effects"`
			Owner    string   `json:"owner"`
			Present  bool     `json:"present"`
			Rejects  []string `json:"rejects"`
		} `json:"want"`
	} `json:"response"`
}

func readVectors(tb testing.TB) vectorFile {
	tb.Helper()
	f, err := os.Open("testdata/wire-vectors.json")
	require.NoError(tb, err)
	defer f.Close()
	d := json.NewDecoder(f)
	var v struct {
		Note string `json:"note"`
		vectorFile
	}
	d.DisallowUnknownFields() // a field that no test looks at is a rule that no test holds
	require.NoError(tb, d.Decode(&v))
	require.GreaterOrEqual(tb, len(v.Request), 43)
	require.GreaterOrEqual(tb, len(v.Response), 21)
	return v.vectorFile
}

// names counts rejects by name, as the vectors list them.
func names(rejects Rejects) map[string]int {
	m := map[string]int{}
	for why, n := range rejects {
		if n > 0 {
			m[Reject(why).String()] = int(n)
		}
	}
	return m
}

func count(words []string) map[string]int {
	m := map[string]int{}
	for _, w := range words {
		m[w]++
	}
	return m
}

func mustNonce(tb testing.TB, s string) Nonce {
	tb.Helper()
	n, ok := parseNonce(s)
	require.True(tb, ok, "nonce %q", s)
	return n
}

func TestVectors_Request(t *testing.T) {
	for _, v := range readVectors(t).Request {
		t.Run(v.Name, func(t *testing.T) {
			got, rejects := ReadRequest(v.Baggage, v.Header, v.MaxBudget)
			want := Request{
				Grant: v.Want.Grant, Limit: v.Want.Limit, Hop: v.Want.Hop, Entry: v.Want.Entry, Direct: v.Want.Direct,
				Caller: v.Want.Caller, Attempt: v.Want.Attempt, Profile: v.Want.Profile, Digest: v.Want.Digest,
				Timeout: time.Duration(v.Want.TimeoutMS) * time.Millisecond,
			}
			if v.Want.Nonce != "" {
				want.Nonce = mustNonce(t, v.Want.Nonce)
			}
			want.State = got.State
			assert.Equal(t, v.Want.State, got.State.String())
			assert.Equal(t, want, got)
			assert.Equal(t, count(v.Want.Rejects), names(rejects))
		})
	}
}

func TestVectors_Return(t *testing.T) {
	for _, v := range readVectors(t).Response {
		t.Run(v.Name, func(t *testing.T) {
			sent := mustNonce(t, v.SentNonce)
			got, ok, rejects := ReadReturn(v.Lines, sent, v.Leased)
			assert.Equal(t, v.Want.Present, ok)
			assert.Equal(t, count(v.Want.Rejects), names(rejects))
			if !v.Want.Present {
				assert.Equal(t, Return{}, got, "what does not count must not be used by mistake")
				return
			}
			assert.Equal(t, v.Want.Claim, got.Claim.String())
			assert.Equal(t, Return{
				Returned: v.Want.Returned, Retries: v.Want.Retries, Claim: got.Claim, Nonce: sent,
				Leaf: v.Want.Leaf, Effects: v.Want.Effects, Owner: v.Want.Owner,
			}, got)
		})
	}
}
