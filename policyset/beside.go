package policyset

import (
	"encoding/json"

	"cloister/config"
)

// Beside names what changed that the policy's digest does not hold. Where a line stands is
// no part of its JSON: one that moved is no change.
func Beside(before, next *config.Config) []string {
	var out []string
	for _, part := range []struct {
		what string
		a, b any
	}{
		{"where secrets may go", before.Secrets, next.Secrets},
		{"the logins that cloisters get", before.Logins, next.Logins},
		{"which commands may run on the host", before.Hostexec, next.Hostexec},
	} {
		was, err := json.Marshal(part.a)
		is, also := json.Marshal(part.b)
		if err != nil || also != nil || string(was) != string(is) {
			out = append(out, part.what+": changed")
		}
	}
	return out
}
