package profiles

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzEdit changes the sample at one place, as people do: what then loads differs from the sample by exactly what Diff says,
// explains itself, and means the same in JSON, which is YAML too.
func FuzzEdit(f *testing.F) {
	sample, err := os.ReadFile("testdata/sample.yaml")
	if err != nil {
		f.Fatal(err)
	}
	before, err := Load(sample, "sample.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, edit := range []struct{ old, new string }{
		{"10%", "20%"}, {"400ms", "4s"}, {"budget: 3", "budget: 99"}, {"closed", "open"}, {"[429, 502, 503, 504]", "[0o763]"}, {"write-path", "no-retry"},
		{"version: 1", "version: 1 # \u0085"}, {"propagate", "ignore"}, {"team-ledger", "\"\\u00e9\""},
	} {
		if at := bytes.Index(sample, []byte(edit.old)); at >= 0 {
			f.Add(uint16(at), uint16(len(edit.old)), edit.new)
		}
	}
	f.Fuzz(func(t *testing.T, at, length uint16, text string) {
		from := min(int(at), len(sample))
		to := min(from+int(length), len(sample))
		edited := bytes.Join([][]byte{sample[:from], []byte(text), sample[to:]}, nil)
		c, err := Load(edited, "fuzz.yaml")
		if err != nil {
			fuzzError(t, err)
			return
		}
		fuzzCatalog(t, c)
		changes := Diff(before, c)
		if (len(changes) == 0) != (before.Digest() == c.Digest()) {
			t.Fatalf("%d changes, digests %s and %s", len(changes), before.Digest(), c.Digest())
		}
		for _, change := range changes {
			if change.Old == change.New || change.Subject == "" || change.Key == "" {
				t.Fatalf("%+v", change)
			}
		}
		for name := range c.Dependencies {
			e := c.Explain(name, "")
			if text := e.String(); text == "" {
				t.Fatalf("%s explains nothing", name)
			}
		}
		inJSON(t, edited, c)
	})
}

// inJSON loads the same document as JSON.
func inJSON(t *testing.T, document []byte, want *Catalog) {
	var value any
	if yaml.Unmarshal(document, &value) != nil {
		return // an alias that is used too often, for instance
	}
	text, err := json.Marshal(value)
	if err != nil {
		return // a key that is no string
	}
	got, err := Load(text, "fuzz.json")
	if err != nil {
		t.Fatalf("loads as YAML, and not as JSON: %v\n%s", err, text)
	}
	if got.Digest() != want.Digest() || got.canonical() != want.canonical() {
		t.Fatalf("means another thing in JSON:\n%s", text)
	}
}
