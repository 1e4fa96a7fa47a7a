package livepage

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"

	"github.com/chainbudget/chainbudget-go/internal/engine"
)

// NewSwitch returns the switch of an SDK's retries: GET shows the page with its forms, POST turns it. The SDK may be nil or
// zero: then there is nothing to turn.
func NewSwitch(sdk *engine.SDK) http.Handler {
	h := &switchHandler{sdk: sdk, page: New(sdk, true)}
	// A browser that somebody else's page sends here has the user's cookies, but not the user's intention.
	return http.NewCrossOriginProtection().Handler(h)
}

type switchHandler struct {
	sdk  *engine.SDK
	page http.Handler
}

// turn is what a POST asks for.
type turn struct {
	Dependency string `json:"dependency"` // or all
	Retries    string `json:"retries"`    // disabled, enabled or catalog
}

const (
	maxTurn = 4 << 10 // bytes of a POST

	typeForm = "application/x-www-form-urlencoded"
	typeJSON = "application/json"
)

func (h *switchHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		h.page.ServeHTTP(w, r)
		return
	}
	secure(w.Header())
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "chainbudget: the switch is turned with POST", http.StatusMethodNotAllowed)
		return
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	r.Body = http.MaxBytesReader(w, r.Body, maxTurn)
	var asked turn
	switch kind {
	case typeForm:
		if err := r.ParseForm(); err != nil {
			refuse(w, http.StatusBadRequest, "the form cannot be read: "+err.Error())
			return
		}
		asked = turn{r.PostForm.Get("dependency"), r.PostForm.Get("retries")}
	case typeJSON:
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&asked); err != nil {
			refuse(w, http.StatusBadRequest, "the JSON cannot be read: "+err.Error())
			return
		}
		if _, err := d.Token(); err != io.EOF {
			refuse(w, http.StatusBadRequest, "there is something after the JSON")
			return
		}
	default:
		refuse(w, http.StatusUnsupportedMediaType, "send a form, or application/json")
		return
	}
	state, ok := engine.ParseSwitchState(asked.Retries)
	switch {
	case !ok:
		refuse(w, http.StatusBadRequest, "retries is disabled, enabled or catalog")
		return
	case !h.sdk.Usable():
		refuse(w, http.StatusServiceUnavailable, "there is no SDK")
		return
	}
	if err := h.sdk.Turn(meant(h.sdk, asked.Dependency), state); err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if kind == typeJSON {
		w.Header().Set("Content-Type", typeJSON)
		_ = json.NewEncoder(w).Encode(asked) // nobody is left to be told
		return
	}
	// The page itself, under whatever path it is mounted or proxied.
	w.Header().Set("Location", "?")
	w.WriteHeader(http.StatusSeeOther)
}

func refuse(w http.ResponseWriter, status int, why string) {
	http.Error(w, "chainbudget: the switch was not turned: "+why, status)
}
