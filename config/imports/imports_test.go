package imports_test

import (
	"errors"
	"fmt"
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
		notes            []string // KEY HOW
		fails            string
	}{
		{
			name: "srt", file: "srt-settings.json", from: "settings of srt",
			text: `{"network": {"allowedDomains": ["api.example.com:443", "*.example.org"], "deniedDomains": ["bad.example.org"], "allowUnixSockets": ["/run/x"]},
				"filesystem": {"denyRead": [".env", "~/.ssh"], "allowWrite": [".", "/srv/data"], "denyWrite": ["Makefile"]}, "allowPty": true}`,
			holds: []string{"unlisted_domain_behavior: deny", "presets: []", `{domain: "api.example.com", ports: [443]}`, `{domain: "*.example.org"}`,
				`{domain: "bad.example.org"}`, `- ".env"`, `- "/srv/data:rw"`, `- "Makefile"`},
			notes: []string{"network.allowedDomains api.example.com:443 taken", "network.allowedDomains *.example.org changed", "network.allowUnixSockets no equal",
				"filesystem.denyRead ~/.ssh taken", "filesystem.allowWrite . changed", "allowPty no equal"},
		},
		{name: "srt, a list is missing", file: "s.json", text: `{"network": {}, "filesystem": {}}`, fails: "network.allowedDomains is missing"},
		{name: "srt, too broad", file: "s.json", text: `{"network": {"allowedDomains": ["*.com"], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}`, fails: "too broad"},
		{
			name: "srt, every name is denied", file: "s.json", from: "settings of srt",
			text:  `{"network": {"allowedDomains": ["api.example.com"], "deniedDomains": ["*"]}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}`,
			lacks: []string{"api.example.com"},
			notes: []string{"network.deniedDomains * taken", `allowed {domain: "api.example.com"} changed`},
		},
		{
			name: "srt, ports of every name are denied", file: "s.json", from: "settings of srt",
			text: `{"network": {"allowedDomains": ["a.example", "b.example:22", "c.example:8443"], "deniedDomains": ["*:22", "*:80"]},
				"filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}`,
			holds: []string{`{domain: "a.example", ports: [443]}`, `{domain: "c.example", ports: [8443]}`},
			lacks: []string{"b.example", `{domain: "a.example"}`},
			notes: []string{"network.deniedDomains *:22 taken", `allowed {domain: "b.example", ports: [22]} changed`},
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
			notes: []string{"statement 4 (permit NetworkConnect) no equal", "statement 5 (permit NetworkConnect) no equal"},
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
			notes: []string{"proxy.unlisted_domain_behavior changed", "proxy.approval_timeout no equal"},
		},
		{
			name: "claude", file: "settings.json", from: "Claude Code's settings",
			text: `{"model": "x", "sandbox": {"enabled": true, "excludedCommands": ["docker *"], "network": {"allowedDomains": ["api.example.com"]}},
				"permissions": {"allow": ["WebFetch(domain:docs.example.com)", "Bash(npm:*)"], "deny": ["Read(./.env)", "Edit(./go.sum)"]}}`,
			holds: []string{`{domain: "api.example.com"}`, `{domain: "docs.example.com"}`, `- ".env"`, `- "go.sum"`, `"^docker( .*)?$"`},
			notes: []string{"model no equal", "sandbox.enabled taken", "sandbox.excludedCommands docker * changed", "permissions.allow Bash(npm:*) no equal",
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
			notes: []string{"statement 4 (permit NetworkConnect) no equal", "statement 5 (permit FileOpen) no equal"},
		},
		{name: "no cedar", file: "p.cedar", text: "permit (", fails: "no valid Cedar"},
		{
			name: "sbx", file: "policy.sh", from: "commands of Docker's sbx",
			text: "sbx policy set-default deny-all\nsbx policy allow network \"api.example.com:443,**.example.org\"\nsbx policy allow network '*.one.example'\n" +
				"docker sandbox network proxy box --block-host bad.example.org \\\n  --allow-cidr 10.0.0.0/8\n",
			holds: []string{`{domain: "api.example.com", ports: [443]}`, `{domain: "*.example.org"}`, `{domain: "bad.example.org"}`, "behavior: deny"},
			lacks: []string{"one.example", "10.0.0.0"},
			notes: []string{"sbx policy set-default deny-all taken", "sbx policy allow network *.one.example no equal"},
		},
		{
			name: "the original", file: "config.yaml", from: "the original Cloister",
			text: "proxy:\n  listen: ':3128'\n  unlisted_domain_behavior: reject\n  approval_timeout: 30s\n  rate_limit: 120\n  allow:\n    - domain: api.example.com\n    - pattern: '*.example.org'\n" +
				"hostexec:\n  auto_approve:\n    - pattern: '^docker ps$'\nagents:\n  claude: {token: secret-value}\n",
			holds: []string{"behavior: deny", "approval_timeout: 30s", "requests_per_minute: 120", `{domain: "*.example.org"}`, `"^docker ps$"`},
			lacks: []string{"secret-value"},
			notes: []string{"proxy.listen no equal", "proxy.rate_limit changed", "agents no equal"},
		},
		{
			name: "sbx, as the newer commands are written", file: "policy.sh", from: "commands of Docker's sbx",
			text: "sbx policy init deny-all\nsbx policy allow network -g api.example.com:443\nsbx policy allow network --sandbox one two.example\n" +
				"sbx policy allow network localhost:8080\nsbx policy allow network 10.1.2.3:22\nsbx policy allow network 203.0.113.0/24\n" +
				"sbx policy deny network 10.0.0.0/8,ads.example\nsbx policy ls\n",
			holds: []string{`{domain: "api.example.com", ports: [443]}`, `{cidr: "203.0.113.0/24"}`, `{cidr: "10.0.0.0/8"}`},
			lacks: []string{"two.example", "localhost", "10.1.2.3"},
			notes: []string{"sbx policy init deny-all taken", "sbx policy allow network localhost:8080 no equal",
				"sbx policy allow network 10.1.2.3:22 10.1.2.3:22 no equal", "sbx policy allow network 203.0.113.0/24 changed",
				"sbx policy deny network 10.0.0.0/8,ads.example ads.example taken", "sbx policy ls no equal"},
		},
		{
			name: "srt, whole, as its README has it", file: "s.json", from: "settings of srt",
			text: `{"network": {"allowedDomains": ["a.example", "*.b.example"], "deniedDomains": ["bad.example"], "allowUnixSockets": ["/var/run/docker.sock"], "allowLocalBinding": false},
				"filesystem": {"denyRead": ["~/.ssh"], "allowRead": [], "allowWrite": [".", "src/", "/tmp"], "denyWrite": [".env"]},
				"ignoreViolations": {"*": ["/usr/bin"]}, "enableWeakerNestedSandbox": false, "enableWeakerNetworkIsolation": false, "allowAppleEvents": false}`,
			notes: []string{"network.deniedDomains bad.example taken", "filesystem.allowRead taken", "filesystem.allowWrite /tmp changed",
				"ignoreViolations no equal", "allowAppleEvents no equal", "enableWeakerNestedSandbox no equal"},
		},
		{name: "srt, a half", file: "s.json", text: `{"filesystem": {"allowWrite": ["."]}}`, fails: "network.allowedDomains is missing"},
		{
			name: "the original's agent", file: "config.yaml", from: "the original Cloister",
			text:  "defaults: {agent: codex, shell: zsh}\nproxy: {allow: [{domain: a.example}]}\n",
			holds: []string{`defaults: {agent: "codex"}`},
			notes: []string{"defaults.agent taken", "defaults.shell no equal"},
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
			notes := ""
			for _, x := range r.Notes {
				notes += x.Key + " " + x.How + "\n"
			}
			for _, want := range c.notes {
				if !strings.Contains(notes, want+"\n") {
					t.Errorf("it does not tell %q:\n%s", want, notes)
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

// TestOriginalFolder takes what the original's window was answered for all projects.
func TestOriginalFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.yaml":                 "proxy: {allow: [{domain: a.example}]}\n",
		"decisions/global.yaml":       "proxy: {allow: [{pattern: '*.b.example'}], deny: [{domain: bad.example}]}\n",
		"projects/one.yaml":           "proxy: {allow: [{domain: c.example}]}\n",
		"tokens/secret":               "x",
		"decisions/projects/one.yaml": "proxy: {allow: [{domain: q.example}]}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := imports.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{`"a.example"`: true, `"*.b.example"`: true, `"bad.example"`: true, "c.example": false, "q.example": false} {
		if strings.Contains(r.Text, text) != want {
			t.Errorf("%s in what was written: %t\n%s", text, !want, r.Text)
		}
	}
	notes := fmt.Sprint(r.Notes)
	for _, want := range []string{"{projects/one.yaml no equal", "{decisions/projects/one.yaml no equal", "{decisions/global.yaml: proxy.deny bad.example taken"} {
		if !strings.Contains(notes, want) {
			t.Errorf("it does not tell %q: %s", want, notes)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "decisions/global.yaml"), []byte("proxy: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := imports.Read(dir); err == nil || !strings.Contains(err.Error(), "decisions/global.yaml is no valid YAML") {
		t.Errorf("of a broken file it says %v", err)
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
