package live

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"github.com/chainbudget/chainbudget-go/chainbudget"
)

// Admin returns what a service serves on a port where only operators come: the live page for whoever reaches that port,
// and the switch for those who know the password.
func Admin(sdk *chainbudget.SDK, password string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/debug/chainbudget", sdk.DebugHandler())
	mux.Handle("/debug/chainbudget/switch", authorized(password, sdk.SwitchHandler()))
	return mux
}

// authorized stands for the authorization that a company has. This one asks for a password; without one nobody passes.
func authorized(password string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, given, _ := r.BasicAuth()
		if got := sha256.Sum256([]byte(given)); password == "" || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="retries"`)
			http.Error(w, "the switch is for operators", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
