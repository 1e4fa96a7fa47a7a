package polyglot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainbudget/chainbudget-go/adapters/budgethttp"
	"github.com/chainbudget/chainbudget-go/ownership"
)

// language is one in which docs/other-languages.md has a hop.
type language struct {
	name, block    string // of the program, and of the document's blocks
	codec, service string // names of the files
	vectors        []string
}

var languages = []language{
	{"node", "js", "chainbudget.js", "service.js", []string{"node/vectors.js", "chainbudget.js"}},
	{"python3", "python", "chainbudget.py", "service.py", []string{"python/vectors.py", "."}},
}

// write puts the document's blocks of a language into a folder, as the files that they are.
func (l language) write(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "other-languages.md"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for kind, name := range map[string]string{"codec": l.codec, "service": l.service} {
		_, rest, found := strings.Cut(string(text), "\n```"+l.block+" "+kind+"\n")
		code, _, closed := strings.Cut(rest, "\n```")
		if !found || !closed {
			t.Fatalf("docs/other-languages.md has no block %q", l.block+" "+kind)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(code+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

const vectorsFile = "../../otelprop/testdata/wire-vectors.json"

// A codec need not count rejections or know the header's parameters; all else is the vectors'.
var optional = map[string]bool{"rejects": true, "caller": true, "attempt": true, "profile": true, "digest": true, "timeout_ms": true, "present": true}

var claims = map[string]string{"n": "none", "c": "claimed", "u": "unclaimed", "s": "stop"}

func TestOtherLanguagesReadTheVectors(t *testing.T) {
	type vector struct {
		Name string
		Want map[string]any
	}
	var vectors struct{ Request, Response []vector }
	data, err := os.ReadFile(vectorsFile)
	if err == nil {
		err = json.Unmarshal(data, &vectors)
	}
	if err != nil || len(vectors.Request) == 0 || len(vectors.Response) == 0 {
		t.Fatalf("%d and %d vectors, %v", len(vectors.Request), len(vectors.Response), err)
	}
	wants := append(vectors.Request, vectors.Response...)
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			if !haveProgram(t, l.name) {
				return
			}
			out, err := exec.Command(l.name, l.vectors[0], filepath.Join(l.write(t), l.vectors[1]), vectorsFile).Output()
			if err != nil {
				if exit, ok := errors.AsType[*exec.ExitError](err); ok {
					t.Logf("%s", exit.Stderr)
				}
				t.Fatal(err)
			}
			lines := bufio.NewScanner(bytes.NewReader(out))
			n := 0
			for ; lines.Scan(); n++ {
				var line struct {
					Name string
					Got  map[string]any
				}
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil || n >= len(wants) || line.Name != wants[n].Name {
					t.Fatalf("line %d is %s: %v", n, lines.Bytes(), err)
				}
				want := wants[n].Want
				if n >= len(vectors.Request) {
					if present := want["present"] == true; present != (line.Got != nil) {
						t.Errorf("%s: %v, want present %t", line.Name, line.Got, present)
						continue
					}
					if line.Got == nil {
						continue
					}
					line.Got["claim"] = claims[line.Got["claim"].(string)]
				}
				delete(line.Got, "foreign")
				for key, value := range line.Got {
					wanted, ok := want[key]
					if !ok { // a want without a field means empty, 0 or false
						wanted = map[bool]any{true: "", false: 0.0}[key == "nonce" || key == "entry" || key == "owner"]
						if _, isBool := value.(bool); isBool {
							wanted = false
						}
					}
					if value != wanted {
						t.Errorf("%s: %s is %v, want %v", line.Name, key, value, wanted)
					}
				}
				for key := range want {
					if _, ok := line.Got[key]; !ok && !optional[key] {
						t.Errorf("%s: the codec says nothing about %s", line.Name, key)
					}
				}
			}
			if n != len(wants) {
				t.Errorf("%d vectors were answered, want %d", n, len(wants))
			}
		})
	}
}

// A service made of the document's two files is a full hop: what it got is spent next to the cause, its return is
// believed, and it takes its caller's word and passes on its callee's.
func TestHopsInOtherLanguages(t *testing.T) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			if !haveProgram(t, l.name) {
				return
			}
			folder := l.write(t)

			t.Run("callee_fails", func(t *testing.T) {
				leafURL, leaf := newFailing(t, "leaf")
				hop := listen(t, folder, nil, l.name, l.service, leafURL)
				entryURL, _, entry := newCaller(t, "shop", "pricing", hop, budgethttp.Entry())
				if status := ask(t, entryURL); status != http.StatusServiceUnavailable {
					t.Errorf("status %d", status)
				}
				// The leaf never retried, so its failure is claimed; the hop retries it with both tokens and then says so.
				var grants []int
				for _, h := range leaf.all() {
					w := wire(h)
					grants = append(grants, int(w.Grant))
					if !w.Direct || w.Caller != "pricing" || w.Entry != "shop" || w.Hop != 2 || w.Limit != 3 {
						t.Errorf("the leaf got %v", h)
					}
				}
				if len(grants) != 3 || grants[0] != 2 || grants[1] != 1 || grants[2] != 0 {
					t.Errorf("the leaf got grants %v, want 2, 1 and 0", grants)
				}
				if got := entry.SDK.Totals(); got.Lost != 0 || of(entry, "pricing").Attempts != 1 {
					t.Errorf("%d tokens lost, %d attempts; want a return that says unclaimed, and no retry", got.Lost, of(entry, "pricing").Attempts)
				}
				for _, event := range entry.Events() {
					if event.Claim != ownership.ClaimUnclaimed || event.Owner != "leaf" {
						t.Errorf("the entry sees claim %v of %q, want unclaimed of leaf", event.Claim, event.Owner)
					}
				}
			})
			t.Run("callee_works", func(t *testing.T) {
				leafURL, leaf := serve(t, budgethttp.NewHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), newSDK(t, "leaf").SDK))
				hop := listen(t, folder, nil, l.name, l.service, leafURL)
				entryURL, _, entry := newCaller(t, "shop", "pricing", hop, budgethttp.Entry())
				if status := ask(t, entryURL); status != http.StatusOK {
					t.Errorf("status %d", status)
				}
				if d := of(entry, "pricing"); d.Lent != 2 || d.Home != 2 || len(leaf.all()) != 1 {
					t.Errorf("lent %d, home %d, %d requests at the leaf; want 2, 2 and 1", d.Lent, d.Home, len(leaf.all()))
				}
			})
			t.Run("callee_below_has_retried", func(t *testing.T) {
				leafURL, leaf := newFailing(t, "leaf")
				middleURL, middle, _ := newCaller(t, "middle", "leaf", leafURL)
				hop := listen(t, folder, nil, l.name, l.service, middleURL)
				entryURL, _, entry := newCaller(t, "shop", "pricing", hop, budgethttp.Entry())
				ask(t, entryURL)
				if len(middle.all()) != 1 || len(leaf.all()) != 3 || of(entry, "pricing").Attempts != 1 {
					t.Errorf("%d requests at the middle, %d at the leaf, %d attempts of the entry; want 1, 3 and 1: the retries are made next to the cause",
						len(middle.all()), len(leaf.all()), of(entry, "pricing").Attempts)
				}
			})
		})
	}
}
