package pull

import (
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// netrc is where a cloister has its logins, by host (session/logins.go). Their passwords are
// placeholders.
const netrc = "/etc/netrc"

// logins is a file of that kind, of which a registry gets its own login alone.
type logins string

// Resolve finds the login of a registry; without one nothing is sent.
func (l logins) Resolve(r authn.Resource) (authn.Authenticator, error) {
	text, err := os.ReadFile(string(l))
	if err != nil {
		return authn.Anonymous, nil // a cloister without logins has no such file
	}
	words := strings.Fields(string(text))
	for len(words) >= 6 {
		one := words[:6]
		words = words[6:]
		if one[0] == "machine" && one[1] == r.RegistryStr() && one[2] == "login" && one[4] == "password" {
			return &authn.Basic{Username: one[3], Password: one[5]}, nil
		}
	}
	return authn.Anonymous, nil
}
