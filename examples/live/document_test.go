package live_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/examples/page"
)

const document = "../../docs/live-page.md"

// TestDocument_shows_the_code of this package.
func TestDocument_shows_the_code(t *testing.T) {
	page.Read(t, document).Quotes(t, 1, "admin.go")
}

// TestDocument_names_every_field of the JSON.
func TestDocument_names_every_field(t *testing.T) {
	text, err := os.ReadFile(document)
	must(t, err)
	s := newStorm(t)
	resp, err := http.Get(s.admin + "/debug/chainbudget")
	must(t, err)
	must(t, resp.Body.Close())
	for range 30 {
		s.send()
	}
	resp, err = http.Get(s.admin + "/debug/chainbudget?format=json")
	must(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(t, err)
	var answer any
	must(t, json.Unmarshal(data, &answer))
	seen := 0
	var look func(value any)
	look = func(value any) {
		switch v := value.(type) {
		case []any:
			for _, one := range v {
				look(one)
			}
		case map[string]any:
			for name, one := range v {
				seen++
				if !strings.Contains(string(text), "`"+name+"`") {
					t.Errorf("%s does not name the field %s", document, name)
				}
				switch name {
				case "totals", "minted_by_source", "claims_sent_by_owner", "owners", "entries": // words and names, or Totals' own
				case "history":
					look(one.(map[string]any)["all"])
				default:
					look(one)
				}
			}
		}
	}
	look(answer)
	if seen < 100 {
		t.Errorf("there were only %d fields", seen)
	}
}
