package policyset_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/host/resolve"
	"cloister/host/taint"
	"cloister/policyset"
)

// An authority that a payload could have written, or led elsewhere, signs for no host; one
// of the person's own does.
func TestAuthoritiesOfPayloads(t *testing.T) {
	bundle, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	end := strings.Index(string(bundle), "-----END CERTIFICATE-----\n")
	if err != nil || end < 0 {
		t.Skip("this machine has no bundle of authorities in the usual place")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(top, name) }
	one := bundle[:end+len("-----END CERTIFICATE-----\n")]
	places, err := taint.Read(at("state"))
	if err := errors.Join(err, os.MkdirAll(at("project"), 0o755), os.MkdirAll(at("config"), 0o755),
		os.WriteFile(at("ca.pem"), one, 0o644), os.WriteFile(at("project/ca.pem"), one, 0o644),
		os.Symlink(top, at("project/up")), places.Enter(taint.Place{Kind: taint.Project, Path: at("project")})); err != nil {
		t.Fatal(err)
	}
	host := func() (*resolve.Resolver, error) { return resolve.New(places, os.Getuid()), nil }
	for name, believed := range map[string]bool{"ca.pem": true, "project/ca.pem": false, "project/up/ca.pem": false, "none.pem": false} {
		text := "version: 1\nproxy: {presets: [], upstream_ca: [" + at(name) + "]}\n"
		if err := os.WriteFile(at("config/config.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := policyset.Load(at("config"), "/home/person", host)
		if (err == nil) != believed || believed && set.Roots() == nil {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "config.yaml:2") {
			t.Errorf("%s: it does not say where: %v", name, err)
		}
	}
}
