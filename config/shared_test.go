package config_test

import (
	"strings"
	"testing"

	"cloister/config"
	"cloister/internal/authority"
	"cloister/internal/tenants"
)

// Each host that a preset names is shared.
func TestPresetsAreShared(t *testing.T) {
	for _, name := range config.PresetNames() {
		tenant := map[string]string{"s3-bucket": ":acme-files", "gcs-bucket": ":acme-files", "github-org": ":acme", "npm-scope": ":@acme", "git-fetch": ":git.example.com"}
		p, err := config.LoadPreset(name + tenant[name])
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Allow {
			if name == "git-fetch" {
				continue // it names the person's own
			}
			if pattern, err := authority.ParsePattern(r.Domain); err != nil || tenants.Met(pattern) == "" && !tenants.Share(strings.TrimPrefix(r.Domain, "*.")) {
				t.Errorf("%s: %s is not in internal/tenants/hosts.txt (%v)", name, r.Domain, err)
			}
		}
	}
}
