package tenants_test

import (
	"testing"

	"cloister/internal/authority"
	"cloister/internal/tenants"
)

func TestShare(t *testing.T) {
	for host, want := range map[string]bool{
		"github.com": true, "api.github.com": true, "x.y.githubusercontent.com": true, "acme.s3.eu-west-1.amazonaws.com": true,
		"s3.amazonaws.com": true, "acme.storage.googleapis.com": true, "registry.npmjs.org": true, "me.github.io": true,
		"example.com": false, "pinned.example.net": false, "notgithub.com": false, "com": false, "db.x.us-east-1.rds.amazonaws.com": false,
	} {
		if tenants.Share(host) != want {
			t.Errorf("%s: %v", host, !want)
		}
	}
}

func TestMet(t *testing.T) {
	for pattern, want := range map[string]bool{
		"*.com": true, "*.amazonaws.com": true, "*.s3.amazonaws.com": true, "*.github.com": true, "*.core.windows.net": true,
		"*.example.com": false, "example.com": false, "*.rds.amazonaws.com": false, "registry.npmjs.org": true, "*.github.io": true, "github.io": false,
	} {
		p, err := authority.ParseBroadPattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := tenants.Met(p); (got != "") != want {
			t.Errorf("%s: %q", pattern, got)
		}
	}
}
