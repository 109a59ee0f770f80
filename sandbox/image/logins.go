package image

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// logins are files in the format of docker's config.json. Of them only what stands there is
// taken: credsStore and credHelpers name programs.
type logins []string

// Resolve finds the login of a registry; without one nothing is sent.
func (l logins) Resolve(r authn.Resource) (authn.Authenticator, error) {
	names := []string{r.RegistryStr(), "https://" + r.RegistryStr(), "http://" + r.RegistryStr()}
	if r.RegistryStr() == "index.docker.io" {
		names = append(names, authn.DefaultAuthKey, "docker.io", "https://index.docker.io/v1")
	}
	for _, file := range l {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // who has no such file is logged in nowhere
		}
		var kept struct {
			Auths map[string]struct {
				Auth, Username, Password, IdentityToken string
			}
		}
		if json.Unmarshal(text, &kept) != nil {
			continue // an engine's file, and the engine's to explain
		}
		for _, name := range names {
			one, ok := kept.Auths[name]
			if !ok {
				continue
			}
			user, password := one.Username, one.Password
			if plain, err := base64.StdEncoding.DecodeString(one.Auth); err == nil && one.Auth != "" {
				user, password, _ = strings.Cut(strings.TrimRight(string(plain), "\x00"), ":")
			}
			if user == "" && one.IdentityToken == "" {
				continue // a helper has it
			}
			return authn.FromConfig(authn.AuthConfig{Username: user, Password: password, IdentityToken: one.IdentityToken}), nil
		}
	}
	return authn.Anonymous, nil
}
