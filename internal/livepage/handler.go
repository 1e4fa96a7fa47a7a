package livepage

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"encoding/json"
	"html/template"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

//go:embed page.html
var pageText string

//go:embed page.css
var style string

//go:embed page.js
var script string

var page = template.Must(template.New("page").Funcs(functions).Parse(pageText))

// policy lets nothing in that is not in the answer.
var policy = "default-src 'none'; style-src '" + digest(style) + "'; script-src '" + digest(script) +
	"'; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// New returns the page of an SDK, which may be nil or zero. switchable says that the page is served by [NewSwitch] and has
// forms that turn the switch. The SDK begins to remember what the page shows.
func New(sdk *engine.SDK, switchable bool) http.Handler {
	if sdk.Usable() {
		sdk.Watch()
	}
	return &handler{sdk, switchable}
}

type handler struct {
	sdk        *engine.SDK
	switchable bool
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "chainbudget: this page is read with GET", http.StatusMethodNotAllowed)
		return
	}
	query := r.URL.Query()
	ask := question{now: time.Now(), window: windowOf(query.Get("window")), only: meant(h.sdk, query.Get("dependency"))}
	p := read(h.sdk, ask)
	var b bytes.Buffer
	var err error
	if wantsJSON(r) {
		w.Header().Set("Content-Type", "application/json")
		err = json.NewEncoder(&b).Encode(p)
	} else {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		err = page.Execute(&b, newView(p, ask, h.switchable))
	}
	if err != nil { // a template that does not fit its values: tests execute all of it
		http.Error(w, "chainbudget: the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	_, _ = w.Write(b.Bytes()) // nobody is left to be told
}

// secure keeps the answer out of caches, frames and guesses.
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "Accept")
}

// wantsJSON reports whether a request asks for JSON: by the query, or by naming it and not HTML.
func wantsJSON(r *http.Request) bool {
	if format := r.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	wants := false
	for _, line := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(line, ",") {
			switch kind, _, _ := mime.ParseMediaType(one); kind {
			case "application/json":
				wants = true
			case "text/html":
				return false
			}
		}
	}
	return wants
}
