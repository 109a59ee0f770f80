package wire

import (
	"net/http"
	"strings"
)

// CORS lets pages of other origins call a sandbox, as E2B does: a token opens it, never a
// cookie. It answers a preflight.
func CORS(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers",
		"Cache-Control, X-Content-Type-Options, Connect-Content-Encoding, Connect-Protocol-Version")
	if r.Method != http.MethodOptions {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "*, Authorization")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// HostPort stands for the port in the host that a program inside sees.
const HostPort = "${PORT}"

// IsHost reports whether a text can be a Host of requests, or is empty.
func IsHost(s string) bool {
	return len(s) <= 255 && !strings.ContainsFunc(strings.ReplaceAll(s, HostPort, ""), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-.:[]_", r))
	})
}
