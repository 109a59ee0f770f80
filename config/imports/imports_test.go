package imports_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/config"
	"cloister/config/imports"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		from             string
		holds, lacks     []string // of config.yaml
		told             []string // KEY HOW
		fails            string
	}{
		{
			name: "srt", file: "srt-settings.json", from: "settings of srt",
			text: `{"network": {"allowedDomains": ["api.example.com:443", "*.example.org"], "deniedDomains": ["bad.example.org"], "allowUnixSockets": ["/run/x"]},
				"filesystem": {"denyRead": [".env", "~/.ssh"], "allowWrite": [".", "/srv/data"], "denyWrite": ["Makefile"]}, "allowPty": true}`,
			holds: []string{"unlisted_domain_behavior: deny", "presets: []", `{domain: "api.example.com", ports: [443]}`, `{domain: "*.example.org"}`,
				`{domain: "bad.example.org"}`, `- ".env"`, `- "/srv/data:rw"`, `- "Makefile"`},
			told: []string{"network.allowedDomains api.example.com:443 taken", "network.allowedDomains *.example.org changed", "network.allowUnixSockets no equal",
				"filesystem.denyRead ~/.ssh taken", "filesystem.allowWrite . changed", "allowPty no equal"},
		},
		{name: "srt, a list is missing", file: "s.json", text: `{"network": {}, "filesystem": {}}`, fails: "network.allowedDomains is missing"},
		{name: "srt, too broad", file: "s.json", text: `{"network": {"allowedDomains": ["*.com"], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}`, fails: "too broad"},
		{
			name: "srt, every name is denied", file: "s.json", from: "settings of srt",
			text:  `{"network": {"allowedDomains": ["api.example.com"], "deniedDomains": ["*"]}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}`,
			lacks: []string{"api.example.com"},
			told:  []string{"network.deniedDomains * taken", `allowed {domain: "api.example.com"} changed`},
		},
		{
			name: "srt, ports of every name are denied", file: "s.json", from: "settings of srt",
			text: `{"network": {"allowedDomains": ["a.example", "b.example:22", "c.example:8443"], "deniedDomains": ["*:22", "*:80"]},
				"filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}`,
			holds: []string{`{domain: "a.example", ports: [443]}`, `{domain: "c.example", ports: [8443]}`},
			lacks: []string{"b.example", `{domain: "a.example"}`},
			told:  []string{"network.deniedDomains *:22 taken", `allowed {domain: "b.example", ports: [22]} changed`},
		},
		{name: "srt, no port", file: "s.json", fails: `has no port`,
			text: `{"network": {"allowedDomains": [], "deniedDomains": ["*:x"]}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}`},
		{
			name: "leash, as its own policies are written", file: "p.cedar", from: "Leash's Cedar",
			text: `permit (principal, action == Action::"NetworkConnect", resource) when { resource in [ Host::"api.example.com", Host::"*.example.org" ] };
				permit (principal, action == Action::"NetworkConnect", resource) when { resource == Host::"one.example" };
				forbid (principal, action == Action::"NetworkConnect", resource) when { resource in [ Host::"bad.example.org" ] };
				permit (principal, action == Action::"NetworkConnect", resource) when { resource in [ Host::"no.example" ] && context.port == 1 };
				permit (principal, action == Action::"NetworkConnect", resource) unless { resource in [ Host::"not.example" ] };
				permit (principal, action == Action::"NetworkConnect", resource) when { principal in [ Host::"who.example" ] };`,
			holds: []string{`{domain: "api.example.com"}`, `{domain: "*.example.org"}`, `{domain: "one.example"}`, `{domain: "bad.example.org"}`},
			lacks: []string{"no.example", "not.example", "who.example"},
			told:  []string{"statement 4 (permit NetworkConnect) no equal", "statement 5 (permit NetworkConnect) no equal"},
		},
		{
			name: "claude, its other spellings", file: "settings.json", from: "Claude Code's settings",
			text:  `{"sandbox": {"excludedCommands": ["docker:*", "nix"], "filesystem": {"allowWrite": ["//srv/build"]}}}`,
			holds: []string{`"^docker( .*)?$"`, `"^nix( .*)?$"`, `- "/srv/build:rw"`},
		},
		{
			name: "leash forbids all", file: "p.cedar", from: "Leash's Cedar",
			text: `permit (principal, action == Action::"NetworkConnect", resource == Host::"api.example.com");
				forbid (principal, action == Action::"NetworkConnect", resource == Host::"*");`,
			lacks: []string{"api.example.com"},
		},
		{
			name: "the original, with what is none of its own", file: "config.yaml", from: "the original Cloister",
			text:  "proxy:\n  unlisted_domain_behavior: whatever\n  approval_timeout: |\n    5m\n    allow: [{domain: evil.example}]\n",
			holds: []string{"behavior: deny"},
			lacks: []string{"evil", "approval_timeout"},
			told:  []string{"proxy.unlisted_domain_behavior changed", "proxy.approval_timeout no equal"},
		},
		{
			name: "claude", file: "settings.json", from: "Claude Code's settings",
			text: `{"model": "x", "sandbox": {"enabled": true, "excludedCommands": ["docker *"], "network": {"allowedDomains": ["api.example.com"]}},
				"permissions": {"allow": ["WebFetch(domain:docs.example.com)", "Bash(npm:*)"], "deny": ["Read(./.env)", "Edit(./go.sum)"]}}`,
			holds: []string{`{domain: "api.example.com"}`, `{domain: "docs.example.com"}`, `- ".env"`, `- "go.sum"`, `"^docker( .*)?$"`},
			told: []string{"model no equal", "sandbox.enabled taken", "sandbox.excludedCommands docker * changed", "permissions.allow Bash(npm:*) no equal",
				"permissions.deny Read(./.env) taken"},
		},
		{
			name: "leash", file: "p.cedar", from: "Leash's Cedar",
			text: `permit (principal, action == Action::"NetworkConnect", resource == Host::"api.example.com");
				permit (principal, action == Action::"NetworkConnect", resource == Host::"*.example.org:8443");
				forbid (principal, action == Action::"NetworkConnect", resource == Host::"bad.example.org");
				permit (principal, action == Action::"NetworkConnect", resource == Host::"x.example.org") when { context.hostname == "y" };
				permit (principal, action == Action::"FileOpen", resource == Dir::"/workspace/");`,
			holds: []string{`{domain: "api.example.com"}`, `{domain: "*.example.org", ports: [8443]}`, `{domain: "bad.example.org"}`},
			lacks: []string{"x.example.org", "workspace"},
			told:  []string{"statement 4 (permit NetworkConnect) no equal", "statement 5 (permit FileOpen) no equal"},
		},
		{name: "no cedar", file: "p.cedar", text: "permit (", fails: "no valid Cedar"},
		{
			name: "sbx", file: "policy.sh", from: "commands of Docker's sbx",
			text: "sbx policy set-default deny-all\nsbx policy allow network \"api.example.com:443,**.example.org\"\nsbx policy allow network '*.one.example'\n" +
				"docker sandbox network proxy box --block-host bad.example.org \\\n  --allow-cidr 10.0.0.0/8\n",
			holds: []string{`{domain: "api.example.com", ports: [443]}`, `{domain: "*.example.org"}`, `{domain: "bad.example.org"}`, "behavior: deny"},
			lacks: []string{"one.example", "10.0.0.0"},
			told:  []string{"sbx policy set-default deny-all taken", "sbx policy allow network *.one.example no equal"},
		},
		{
			name: "the original", file: "config.yaml", from: "the original Cloister",
			text: "proxy:\n  listen: ':3128'\n  unlisted_domain_behavior: reject\n  approval_timeout: 30s\n  rate_limit: 120\n  allow:\n    - domain: api.example.com\n    - pattern: '*.example.org'\n" +
				"hostexec:\n  auto_approve:\n    - pattern: '^docker ps$'\nagents:\n  claude: {token: secret-value}\n",
			holds: []string{"behavior: deny", "approval_timeout: 30s", "requests_per_minute: 120", `{domain: "*.example.org"}`, `"^docker ps$"`},
			lacks: []string{"secret-value"},
			told:  []string{"proxy.listen no equal", "proxy.rate_limit changed", "agents no equal"},
		},
		{name: "another version", file: "config.yaml", text: "version: 7\nproxy: {}\n", fails: "version 7: "},
		{name: "another version of JSON", file: "x.json", text: `{"version": 9}`, fails: "version 9: "},
		{name: "anything", file: "x.txt", text: "hello", fails: "none that is known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := imports.Read(file)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), "\n") {
					t.Errorf("it fails with %v, want %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := config.Parse("config.yaml", []byte(r.Text)); err != nil {
				t.Errorf("what it wrote does not load: %v\n%s", err, r.Text)
			}
			for _, want := range c.holds {
				if !strings.Contains(r.Text, want) {
					t.Errorf("it lacks %q:\n%s", want, r.Text)
				}
			}
			for _, bad := range c.lacks {
				if strings.Contains(r.Text, bad) {
					t.Errorf("it has %q:\n%s", bad, r.Text)
				}
			}
			told := ""
			for _, x := range r.Told {
				told += x.Key + " " + x.How + "\n"
			}
			for _, want := range c.told {
				if !strings.Contains(told, want+"\n") {
					t.Errorf("it does not tell %q:\n%s", want, told)
				}
			}
			if r.From != c.from {
				t.Errorf("it is from %q", r.From)
			}
		})
	}
	if _, err := imports.Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"network": {}, "filesystem": {}}`, "sbx policy allow network x", "proxy: {allow: [{domain: a}]}", `permit (principal, action, resource);`} {
		f.Add("a.json", seed)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		for _, ext := range []string{".json", ".yaml", ".cedar", ".txt"} {
			file := filepath.Join(t.TempDir(), "f"+ext)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := imports.Read(file)
			if err == nil && r.Text == "" {
				t.Error("it read nothing, without an error")
			}
		}
	})
}
