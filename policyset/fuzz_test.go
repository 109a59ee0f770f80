package policyset_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/host/resolve"
	"cloister/internal/authority"
	"cloister/policy"
	"cloister/policyset"
)

// twoNames is a configuration with some of each.
const twoNames = `version: 1
proxy:
  unlisted_domain_behavior: deny
  presets: []
  allow: [{domain: good.example}]
  ask: [{domain: maybe.example}]
  deny: [{domain: bad.example}]
`

// FuzzLoad: any two files in the configuration folder either load, and then
// judge every destination without a broken policy that allows, or are refused
// in words that name a file.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(twoNames), []byte(`forbid (principal, action == Action::"NetworkConnect", resource) when { resource in [Host::"*.bad.example"] };`))
	f.Add([]byte("version: 1\nproxy: {presets: [docs, ai-apis], unlisted_domain_behavior: ask, hosts: {good.example: \"127.0.0.1:1\"}}\n"), []byte(`@id("a") permit (principal == Session::"s", action, resource == Host::"good.example:8443") unless { context.port < 10 };`))
	f.Add([]byte("proxy:\n  allow: [{pattern: \"*.x.example\"}, {cidr: 203.0.113.0/24, ports: [0]}]\n"), []byte(`@ask permit (principal, action, resource) when { context has ip && context.ip.isInRange(ip("10.0.0.0/8")) };`))
	f.Add([]byte(""), []byte(""))
	f.Add([]byte(twoNames), []byte(`@id("a") permit (principal, action, resource == Host::"a.example"); @ask @id("a") permit (principal, action, resource == Host::"b.example");`))
	f.Fuzz(func(t *testing.T, config, cedar []byte) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "policy"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"config.yaml": config, "policy/user.cedar": cedar} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		loaded, err := policyset.Load(dir, "/home/person", resolve.In(dir, os.Getuid()))
		if err != nil {
			if !strings.Contains(err.Error(), "config.yaml") && !strings.Contains(err.Error(), "user.cedar") {
				t.Errorf("refused without a file: %v", err)
			}
			return
		}
		s := loaded.Snapshot()
		names := map[string]bool{}
		for _, st := range s.Statements() {
			if names[st.Rule] {
				t.Errorf("two statements are called %q", st.Rule)
			}
			names[st.Rule] = true
		}
		for _, dest := range []string{"good.example:443", "a.bad.example:80", "203.0.113.7:22", "[2001:db8::1]:8443"} {
			a, err := authority.ParseHostPort(dest, 443)
			if err != nil {
				t.Fatal(err)
			}
			for _, action := range []policy.Action{policy.NetworkConnect, policy.NetworkResolve} {
				v := policy.Decide(s, policy.Request{Action: action, Authority: a, Session: "s", Project: "/p", Agent: "claude"})
				if v.Diagnostic != "" && v.Effect != policy.Deny && !v.WouldDeny && action == policy.NetworkConnect {
					t.Errorf("%s: allowed by what cannot be evaluated: %+v", dest, v)
				}
				if v.Rule == "" || v.Reason == "" {
					t.Errorf("%s: a verdict without words: %+v", dest, v)
				}
			}
		}
	})
}
