package config_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/config"
	"cloister/internal/source"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/jsonschema-go/jsonschema"
)

// problems flattens what Parse joined into FILE:LINE:COLUMN: MESSAGE (HINT).
func problems(err error) []string {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // the tree itself is read here
		var out []string
		for _, e := range joined.Unwrap() {
			out = append(out, problems(e)...)
		}
		return out
	}
	var e *source.Problem
	if errors.As(err, &e) && e.Hint != "" {
		return []string{e.Error() + " (" + e.Hint + ")"}
	}
	return []string{err.Error()}
}

const full = `version: 1
defaults: {isolation: native, mode: shadow, workspace: live, devcontainer: auto}
proxy:
  unlisted_domain_behavior: deny
  approval_timeout: 90s
  presets: [docs]
  allow:
    - domain: api.example.com
    - domain: "*.example.org"
      ports: [443, 8443]
    - cidr: 203.0.113.0/24
      ports: [5432]
  ask:   [{domain: "*.example.net"}]
  deny:  [{domain: gist.github.com}]
  hosts: {API.example.com: "127.0.0.1:8443"}
  upstream_ca: [/etc/ssl/corp-ca.pem]
hostexec:
  auto_approve: [{pattern: "^docker ps.*$"}]
filesystem: {expose: ["~/.nvm", "/data:rw"], refs: [/src/lib], protect: ["Makefile"], hide: [".env*"]}
resources: {memory: 8GiB, cpus: 0.5, pids: 512}
devcontainer: {features: [registry.example.com/team/*, registry.example.com/one]}
`

// limits is more of proxy, for a file of its own.
const limits = `
proxy:
  rewrite: [{domain: api.example.com, methods: [GET], set: {X-Team: blue}, remove: [Cookie]}]
  rate_limit: {requests_per_minute: 600, names_per_minute: 20}
  max_request_bytes: 100MiB
  upload_limit: {session: 1GiB, host: 10MB}
`

func TestParseLimits(t *testing.T) {
	got, err := config.Parse("config.yaml", []byte(limits))
	if err != nil {
		t.Fatal(err)
	}
	p := got.Proxy
	want := config.Rewrite{
		Domain: "api.example.com", Methods: []string{"GET"}, Set: map[string]string{"X-Team": "blue"}, Remove: []string{"Cookie"},
		Place: source.Position{File: "config.yaml", Line: 3, Column: 13},
	}
	if diff := cmp.Diff([]config.Rewrite{want}, p.Rewrite); diff != "" {
		t.Error(diff)
	}
	if p.RateLimit != (config.RateLimit{RequestsPerMinute: 600, ConcurrentRequests: 1000, NamesPerMinute: 20}) || p.MaxRequestBytes != 100<<20 || p.UploadLimit != (config.UploadLimit{Session: 1 << 30, Host: 10e6}) {
		t.Errorf("%+v", p)
	}
	for text, want := range map[string]string{
		"proxy: {rate_limit: {requests_per_minute: 0}}":        "none at all",
		"proxy: {rate_limit: {request_per_minute: 1}}":         "unknown key",
		"proxy: {upload_limit: {host: 0}}":                     "upload_limit.host",
		"proxy: {rewrite: [{set: {A: b}}]}":                    "exactly one of domain",
		"proxy: {rewrite: [{domain: a.test, methods: [a]}]}":   "is no method",
		"proxy: {allow: [{domain: a.test, methods: [FETCH]}]}": "no program sends the method FETCH",
		"proxy: {allow: [{domain: localhost, ports: [80]}]}":   "localhost is the cloister's own loopback",
		"proxy: {ask: [{domain: db.localhost}]}":               "db.localhost is the cloister's own loopback",
		"proxy: {rewrite: [{domain: a.test}]}":                 "sets and removes nothing",
		"proxy: {rewrite: [{domain: a.test, sets: {A: b}}]}":   "unknown key",
		"devcontainer: {features: [\"*\"]}":                    "is no source of features",
		"devcontainer: {features: [a.test/b:1]}":               "is no source of features",
		"devcontainer: {features: [\"a.test/*\"]}":             "is no source of features",
		"defaults: {devcontainer: /etc}":                       "outside the project",
		"proxy: {max_request_bytes: many}":                     "max_request_bytes",
	} {
		if _, err := config.Parse("config.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestParseEveryKey(t *testing.T) {
	got, err := config.Parse("config.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Config{
		Version:  1,
		Defaults: config.Defaults{Isolation: "native", Agent: "claude", Mode: "shadow", Workspace: "live", Devcontainer: "auto"},
		Proxy: config.Proxy{
			Unlisted:        config.UnlistedDeny,
			ApprovalTimeout: config.Duration(90 * time.Second),
			Presets:         []string{"docs"},
			Allow: []config.Rule{
				{Domain: "api.example.com", Place: source.Position{File: "config.yaml", Line: 8, Column: 7}},
				{Domain: "*.example.org", Ports: []uint16{443, 8443}, Place: source.Position{File: "config.yaml", Line: 9, Column: 7}},
				{CIDR: "203.0.113.0/24", Ports: []uint16{5432}, Place: source.Position{File: "config.yaml", Line: 11, Column: 7}},
			},
			Ask:        []config.Rule{{Domain: "*.example.net", Place: source.Position{File: "config.yaml", Line: 13, Column: 11}}},
			Deny:       []config.Rule{{Domain: "gist.github.com", Place: source.Position{File: "config.yaml", Line: 14, Column: 11}}},
			Hosts:      map[string]string{"api.example.com": "127.0.0.1:8443"},
			UpstreamCA: []string{"/etc/ssl/corp-ca.pem"},
			RateLimit:  config.RateLimit{ConcurrentRequests: 1000, NamesPerMinute: 100},
		},
		Hostexec: config.Hostexec{AutoApprove: []config.CommandRule{
			{Pattern: "^docker ps.*$", Place: source.Position{File: "config.yaml", Line: 18, Column: 18}},
		}, Limits: config.Default().Hostexec.Limits},
		Filesystem: config.Filesystem{
			Expose: []string{"~/.nvm", "/data:rw"}, Refs: []string{"/src/lib"},
			Protect: []string{"Makefile"}, Hide: []string{".env*"},
		},
		Resources:    config.Resources{Memory: 8 << 30, CPUs: 0.5, PIDs: 512},
		Devcontainer: config.Devcontainer{Features: []string{"registry.example.com/team/*", "registry.example.com/one"}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(config.Config{})); diff != "" {
		t.Error(diff)
	}
}

func TestFilesOfTheOriginalLoad(t *testing.T) {
	got, err := config.Parse("config.yaml", []byte(`proxy:
  allow:
    - domain: golang.org
    - pattern: "*.example.com"
  deny:
    - pattern: "*.zip"
  unlisted_domain_behavior: request_approval
  approval_timeout: "60s"
hostexec:
  auto_approve:
    - pattern: "^docker compose ps$"
  manual_approve:
    - pattern: "^gh pr (view|list)( .+)?$"
`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Proxy.Allow[1].Domain != "*.example.com" || got.Proxy.Allow[1].Pattern != "" || got.Proxy.Unlisted != config.UnlistedAsk {
		t.Errorf("got %+v", got.Proxy)
	}
	if h := got.Hostexec; h.AutoApprove[0].Pattern != "^docker compose ps$" || h.ManualApprove[0].Place.Line != 13 || !h.Any() {
		t.Errorf("got %+v", h)
	}
}

func TestNothingMeansDefaults(t *testing.T) {
	for name, text := range map[string]string{
		"no bytes":               "",
		"a BOM alone":            "\ufeff",
		"comments":               "# nothing here\n\n# yet\n",
		"a null document":        "---\nnull\n",
		"sections without keys":  "defaults:\nproxy:\n  allow:\nresources:\n",
		"a BOM before a version": "\ufeffversion: 1\n",
		"CRLF":                   "version: 1\r\ndefaults:\r\n  mode: enforce\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.Parse("config.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(config.Default(), got, cmpopts.IgnoreUnexported(config.Config{}), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"an unknown key, with the nearest", "proxy:\n  alow: []\n", []string{
			`c:2:3: unknown key "alow" in proxy (did you mean allow?)`,
		}},
		{"an unknown key with nothing near", "telemetry: on\n", []string{
			`c:1:1: unknown key "telemetry" at the top (at the top the keys are version, defaults, image, proxy, secrets, logins, mcp, hostexec, filesystem, resources, state, audit, notify, devcontainer, agents)`,
		}},
		{"a method in lower case", "proxy:\n  allow:\n    - domain: a.example\n      methods: [get]\n", []string{`c:4:17: proxy.allow[0]: "get" is no method (write GET)`}},
		{"paths that no path is", "proxy: {deny: [{domain: a.example, paths: [repos, /a/../b]}]}\n", []string{
			`c:1:44: proxy.deny[0]: path "repos": a path begins with a slash (such as "/repos/acme/**")`,
			`c:1:51: proxy.deny[0]: path "/a/../b": dot segments are resolved before paths are compared: leave them out (such as "/repos/acme/**")`,
		}},
		{"a rule about no request", "proxy: {allow: [{domain: a.example, methods: []}]}\n", []string{`c:1:46: proxy.allow[0]: methods names nothing (leave it out for every request)`}},
		{"another word for tls", "proxy: {allow: [{domain: a.example, tls: tunel}]}\n", []string{`c:1:42: proxy.allow[0].tls: "tunel" is not a value of this key (did you mean tunnel?)`}},
		{"several at once, in order", "defaults:\n  mode: enforced\n  isolation: [native]\nresources:\n  pids: many\n  memory: lots\n", []string{
			`c:2:9: defaults.mode: "enforced" is not a value of this key (did you mean enforce?)`,
			`c:3:14: defaults.isolation: a list where text is expected`,
			`c:5:9: resources.pids: text where a whole number is expected`,
			`c:6:11: resources.memory: "lots" is not a size such as 8GiB, 512MiB or 500MB`,
		}},
		{"a level that is not built", "defaults: {isolation: machine}\n", []string{
			`c:1:23: defaults.isolation: "machine" is not a value of this key (write one of: auto, native, user, docker, gvisor, microvm, kubernetes)`,
		}},
		{"a key twice", "version: 1\nversion: 1\n", []string{`c:2:1: not YAML: mapping key "version" already defined at [1:1]`}},
		{"a tab", "proxy:\n\tallow: []\n", []string{`c:2:1: not YAML: found character '	' that cannot start any token (indent with spaces; YAML allows no tab there)`}},
		{"an open bracket", "proxy: {allow: [\n", []string{"c:1:16: not YAML: sequence end token ']' not found"}},
		{"a list as the file", "- a\n", []string{"c:1:1: the file: a list where keys and values are expected"}},
		{"two documents", "version: 1\n---\nversion: 1\n", []string{"c:3:8: a second document begins here (keep one document in a file)"}},
		{"an anchor", "proxy:\n  presets: &p [docs]\n", []string{"c:2:12: anchors, aliases, tags and directives are not used here (write the value out)"}},
		{"a NUL", "version: 1\nx: \x00\n", []string{"c:2:4: control character 0x00 (save the file as plain UTF-8 text)"}},
		{"not UTF-8", "version: 1 # \xff\n", []string{"c:1:14: not valid UTF-8 (save the file as plain UTF-8 text)"}},
		{"another version", "version: 2\n", []string{"c:1:10: version: this cloister reads version 1, not 2 (write version: 1)"}},
		{"a preset that is none", "proxy: {presets: [doc]}\n", []string{`c:1:19: proxy.presets: there is no preset "doc" (did you mean docs?)`}},
		{"a rule of two kinds", "proxy: {allow: [{domain: a.example, cidr: 10.0.0.0/8}]}\n", []string{"c:1:17: proxy.allow[0]: a rule has exactly one of domain, pattern and cidr"}},
		{"an empty rule", "proxy:\n  deny:\n    - ports: [443]\n", []string{"c:3:7: proxy.deny[0]: a rule has exactly one of domain, pattern and cidr"}},
		{"limits that are words", "resources:\n  cpus: many\n  pids: few\n", []string{
			"c:2:9: resources.cpus: text where a number is expected", "c:3:9: resources.pids: text where a whole number is expected",
		}},
		{"a rule that is a word", "proxy:\n  deny:\n    - evil.example\n", []string{"c:3:7: proxy.deny[0]: text where keys and values are expected (write {domain: evil.example})"}},
		{"one where a list belongs", "proxy:\n  presets: ai-apis\n  allow: {domain: a.example}\n  deny: [{domain: b.example, ports: 443, paths: /v1/**}]\n", []string{
			"c:2:12: proxy.presets: text where a list is expected (write [ai-apis])",
			"c:3:10: proxy.allow: keys and values where a list is expected (write [{...}], or begin it with a hyphen)",
			"c:4:37: proxy.deny[0].ports: a number where a list is expected (write [443])",
			`c:4:49: proxy.deny[0].paths: text where a list is expected (write ["/v1/**"])`,
		}},
		{"a port of zero", "proxy: {allow: [{domain: a.example, ports: [0]}]}\n", []string{"c:1:45: proxy.allow[0]: port 0 is no port"}},
		{"a port too large", "proxy: {allow: [{domain: a.example, ports: [70000]}]}\n", []string{"c:1:45: proxy.allow[0].ports[0]: 70000 is larger than 65535"}},
		{"an octal port", "proxy: {allow: [{domain: a.example, ports: [0443]}]}\n", []string{`c:1:45: proxy.allow[0].ports[0]: "0443" is not a plain positive whole number`}},
		{"no ports", "proxy: {allow: [{domain: a.example, ports: []}]}\n", []string{"c:1:44: proxy.allow[0]: an empty list of ports matches nothing (leave ports out for 443 and 80)"}},
		{"a number as a domain", "proxy: {allow: [{domain: 12}]}\n", []string{
			`c:1:26: proxy.allow[0].domain: a number where text is expected (put it in quotes: "12")`,
		}},
		{"a loose cidr", "proxy: {allow: [{cidr: 10.1.2.3/8}]}\n", []string{"c:1:24: proxy.allow[0]: 10.1.2.3/8 has bits set outside its range (write 10.0.0.0/8)"}},
		{"a host without a port", "proxy: {hosts: {a.example: 127.0.0.1}}\n", []string{`c:1:28: proxy.hosts: "127.0.0.1" is not an address with a port (write it as 127.0.0.1:8443 or [::1]:8443)`}},
		{"a duration without a unit", "proxy: {approval_timeout: 60}\n", []string{`c:1:27: proxy.approval_timeout: "60" is not a duration such as 60s, 5m or 1h30m`}},
		{"a negative duration", "proxy: {approval_timeout: -5s}\n", []string{"c:1:27: proxy.approval_timeout: a duration of -5s is not positive"}},
		{"a pattern that is none", "hostexec: {deny: [{pattern: \"(\"}]}\n", []string{"c:1:29: hostexec.deny[0]: error parsing regexp: missing closing ): `(`"}},
		{"a relative host path", "filesystem: {refs: [lib], expose: [\"~bob/x\", \"/x:rx\"]}\n", []string{
			`c:1:21: filesystem.refs[0]: "lib" is not an absolute path (write the whole path, or ~/… for one in your home)`,
			`c:1:36: filesystem.expose[0]: "~bob/x" is not an absolute path (only ~/… is understood, not another person's home)`,
			`c:1:46: expose "/x:rx": write PATH, PATH:ro or PATH:rw`,
		}},
		{"a path out of the project", "filesystem: {hide: [\"a/../../b\", /etc, \".\"]}\n", []string{
			`c:1:21: filesystem.hide[0]: "a/../../b" leads out of the project`,
			`c:1:34: filesystem.hide[1]: "/etc" is not a path in the project (write it relative to the project's top folder)`,
			`c:1:40: filesystem.hide[2]: "." is the whole project`,
		}},
		{"a path that is not kept as it is meant", "filesystem: {hide: [\"!a\", a/../b, .git/], protect: [\"*.{mk,inc}\"]}\n", []string{
			`c:1:21: filesystem.hide[0]: "!a" takes back what no line before it names (write it behind the one that it takes something back of)`,
			`c:1:27: filesystem.hide[1]: "a/../b" leads out of the project`,
			`c:1:35: filesystem.hide[2]: git needs the folder .git, which cannot be hidden (--workspace none shows no project at all; a file in it can be named)`,
			`c:1:53: filesystem.protect[0]: "*.{mk,inc}": braces stand for themselves, as in .gitignore (write a line for each, or [{] for the character)`,
		}},
		{"no room for a host command", "hostexec: {limits: {pids: 0, time: 5}}\n", []string{
			`c:1:27: hostexec.limits.pids: none at all`, `c:1:36: hostexec.limits.time: "5" is not a duration such as 60s, 5m or 1h30m`,
		}},
		{"no room to run", "resources: {cpus: 0, pids: 1}\n", []string{
			"c:1:19: resources.cpus: less than a hundredth of a processor",
			"c:1:28: resources.pids: a shell with one command needs two",
		}},
		{"a key without its value", "defaults:\n  mode:\n", []string{"c:2:9: defaults.mode: nothing where text is expected (give it a value, or take the key away for the default)"}},
		{"lists of what is no text", "proxy: {presets: [[]], upstream_ca: [1]}\nfilesystem: {expose: [/a:rw], refs: [true], hide: [null]}\n", []string{
			"c:1:19: proxy.presets[0]: a list where text is expected",
			`c:1:38: proxy.upstream_ca[0]: a number where text is expected (put it in quotes: "1")`,
			"c:2:23: filesystem.expose[0]: keys and values where text is expected (put it in quotes if it is one text with a colon)",
			`c:2:38: filesystem.refs[0]: true or false where text is expected (put it in quotes: "true")`,
			"c:2:52: filesystem.hide[0]: nothing where text is expected (give it a value, or take the key away for the default)",
		}},
		{"too deep", "proxy: {allow: " + strings.Repeat("[", 64) + "\n", []string{"c:1:47: nested more than 32 deep"}},
		{"too large", strings.Repeat("#\n", config.MaxFile/2+1), []string{"c: larger than 1048576 bytes"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Parse("c", []byte(tt.text))
			if diff := cmp.Diff(tt.want, problems(err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestALongListOfProblemsIsCut(t *testing.T) {
	_, err := config.Parse("c", []byte("proxy:\n"+strings.Repeat("  ", 1)+"presets: ["+strings.Repeat("x,", 30)+"]\n"))
	got := problems(err)
	if len(got) != 21 || got[20] != "c: 10 more problems" {
		t.Errorf("%d problems, the last: %s", len(got), got[len(got)-1])
	}
}

// A file within the size limit must not keep a reader for longer than a blink:
// the guardian parses what a reload finds.
func TestHostileFilesAreReadQuickly(t *testing.T) {
	for _, unit := range []string{"[", "{a: ", "- ", "? ", "&a ", "*a ", "a:\n", " - a\n", "\"", "|\n", "{", "a: [b]\n", "@"} {
		t.Run(unit, func(t *testing.T) {
			began := spent(t)
			_, err := config.Parse("c", []byte(strings.Repeat(unit, config.MaxFile/4/len(unit))))
			if err == nil {
				t.Error("read without an error")
			}
			if d := spent(t) - began; d > 10*time.Second {
				t.Errorf("took %s of a processor", d)
			}
		})
	}
}

// spent is this process's time of a processor, whatever else the machine does.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestLoad(t *testing.T) {
	write := func(t *testing.T, dir, name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Run("a missing folder means the defaults", func(t *testing.T) {
		c, s, err := config.Load(filepath.Join(t.TempDir(), "none"))
		if err != nil || s.Found || c.Version != 1 {
			t.Errorf("got %v, %v, %v", c, s, err)
		}
	})
	t.Run("the file and the policies, by name", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "mit Leerzeichen – ü")
		file := write(t, dir, "config.yaml", "resources: {pids: 99}\n")
		b := write(t, dir, "policy/b.cedar", "two")
		a := write(t, dir, "policy/a.cedar", "one")
		write(t, dir, "policy/notes.txt", "no policy")
		c, s, err := config.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := config.Sources{File: file, Found: true, Cedar: []config.CedarFile{{Name: a, Text: []byte("one")}, {Name: b, Text: []byte("two")}}}
		if diff := cmp.Diff(want, s); diff != "" || c.Resources.PIDs != 99 {
			t.Errorf("pids %d, %s", c.Resources.PIDs, diff)
		}
	})
	t.Run("a pipe does not hang the reader", func(t *testing.T) {
		dir := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(dir, "config.yaml"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := config.Load(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a file that anybody may write", func(t *testing.T) {
		dir := t.TempDir()
		file := write(t, dir, "config.yaml", "")
		if err := os.Chmod(file, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, _, err := config.Load(dir); err == nil || !strings.Contains(err.Error(), "everybody") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a folder in its place", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "config.yaml"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, _, err := config.Load(dir); err == nil {
			t.Error("a folder passed for a file")
		}
	})
	t.Run("a link that leads nowhere is not a missing file", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Symlink("nowhere", filepath.Join(dir, "config.yaml")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := config.Load(dir); err == nil {
			t.Error("read nothing and said nothing")
		}
	})
}

func TestExplain(t *testing.T) {
	c, err := config.Parse("c", []byte("defaults:\n  mode: shadow\nproxy:\n  presets: []\n  allow:\n    - domain: a.example\n      ports: [22]\n  hosts:\n    a.example: 127.0.0.1:1\nresources: {memory: 1024MiB}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Value{
		{Key: "version", Value: "1"},
		{Key: "defaults.isolation", Value: "auto"},
		{Key: "defaults.agent", Value: "claude"},
		{Key: "defaults.mode", Value: "shadow", File: "c", Line: 2},
		{Key: "defaults.workspace", Value: "live"},
		{Key: "defaults.devcontainer"},
		{Key: "image"},
		{Key: "proxy.unlisted_domain_behavior", Value: "ask"},
		{Key: "proxy.approval_timeout", Value: "1m"},
		{Key: "proxy.presets", Value: "[]", File: "c", Line: 4},
		{Key: "proxy.allow[0]", Value: "a.example ports 22", File: "c", Line: 6},
		{Key: "proxy.ask", Value: "[]"},
		{Key: "proxy.deny", Value: "[]"},
		{Key: "proxy.rewrite", Value: "[]"},
		{Key: "proxy.hosts.a.example", Value: "127.0.0.1:1", File: "c", Line: 9},
		{Key: "proxy.upstream_ca", Value: "[]"},
		{Key: "proxy.rate_limit.requests_per_minute", Value: "unlimited"},
		{Key: "proxy.rate_limit.concurrent_requests", Value: "1000"},
		{Key: "proxy.rate_limit.names_per_minute", Value: "100"},
		{Key: "proxy.max_request_bytes", Value: "unlimited"},
		{Key: "proxy.upload_limit.session", Value: "unlimited"},
		{Key: "proxy.upload_limit.host", Value: "unlimited"},
		{Key: "secrets", Value: "[]"}, {Key: "logins", Value: "[]"},
		{Key: "mcp.servers", Value: "[]"},
		{Key: "hostexec.auto_approve", Value: "[]"},
		{Key: "hostexec.manual_approve", Value: "[]"},
		{Key: "hostexec.deny", Value: "[]"},
		{Key: "hostexec.shims", Value: "[]"},
		{Key: "hostexec.limits.time", Value: "30m"},
		{Key: "hostexec.limits.cpu_time", Value: "2h"},
		{Key: "hostexec.limits.memory", Value: "three quarters of the machine's"},
		{Key: "hostexec.limits.pids", Value: "4096"},
		{Key: "filesystem.expose", Value: "[]"},
		{Key: "filesystem.refs", Value: "[]"},
		{Key: "filesystem.protect", Value: "[]"},
		{Key: "filesystem.hide", Value: "[]"},
		{Key: "resources.memory", Value: "1GiB", File: "c", Line: 10},
		{Key: "resources.cpus", Value: "unlimited"},
		{Key: "resources.pids", Value: "4096"},
		{Key: "state.quota", Value: "unlimited"}, {Key: "state.project_quota", Value: "unlimited"},
		{Key: "state.recipients", Value: "[]"}, {Key: "state.encrypt_memory", Value: "false"},
		{Key: "audit.anchor_file"}, {Key: "audit.anchor_command", Value: "[]"},
		{Key: "notify.command", Value: "[]"}, {Key: "notify.webhook"},
		{Key: "devcontainer.features[0]", Value: "ghcr.io/devcontainers/features/*"},
		{Key: "agents", Value: "{}"},
	}
	if diff := cmp.Diff(want, c.Explain()); diff != "" {
		t.Error(diff)
	}
}

func TestPresets(t *testing.T) {
	if diff := cmp.Diff([]string{"ai-apis", "debian", "docs", "gcs-bucket", "git-fetch", "github-org", "npm-scope", "package-registries", "s3-bucket", "source-hosts"}, config.PresetNames()); diff != "" {
		t.Fatal(diff)
	}
	for _, name := range []string{"ai-apis", "docs", "package-registries", "source-hosts"} {
		p, err := config.LoadPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Description == "" || len(p.Allow) == 0 || p.Allow[0].Place.File != "presets/"+name+".yaml" || p.Allow[0].Place.Line == 0 {
			t.Errorf("preset %s: %+v", name, p)
		}
		seen := map[string]bool{}
		for _, r := range p.Allow {
			if seen[r.Domain] {
				t.Errorf("preset %s names %s twice", name, r.Domain)
			}
			seen[r.Domain] = true
			if r.Ports != nil || r.CIDR != "" {
				t.Errorf("preset %s: %s: a preset opens web ports of names only", name, r)
			}
		}
	}
	if _, err := config.LoadPreset("../presets/docs"); err == nil {
		t.Error("a path passed for a preset's name")
	}
}

// A preset for one tenant is named with it, and cannot be talked into more.
func TestTenantPresets(t *testing.T) {
	for _, name := range []string{"github-org:acme", "s3-bucket:my.bucket-1", "gcs-bucket:my-bucket", "npm-scope:@acme", "git-fetch:git.example.com", "git-fetch:git.example.com/acme/tools"} {
		p, err := config.LoadPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		_, tenant, _ := strings.Cut(name, ":")
		tenant, _, _ = strings.Cut(strings.TrimPrefix(tenant, "@"), "/")
		for _, r := range p.Allow {
			if text := r.String(); !strings.Contains(text, tenant) || strings.ContainsAny(text, "<>") || r.Place.Line == 0 {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
	for text, want := range map[string]string{
		"github-org":           "is for one tenant (write github-org:NAME)",
		"github-org:":          "cannot be for",
		"github-org:acme/**":   "cannot be for",
		"github-org:*":         "cannot be for",
		"github-org:-a":        "cannot be for",
		"s3-bucket:a/../b":     "cannot be for",
		"s3-bucket:evil.test/": "cannot be for",
		"npm-scope:acme":       "write npm-scope:@SCOPE",
		"git-fetch:h.test/..":  "cannot be for",
		"git-fetch:h.test/a b": "cannot be for",
		"docs:x":               "takes nothing behind a colon",
		"github-orgs:acme":     "did you mean github-org?",
		"nothing-like-it":      "github-org:NAME",
		`git-fetch:h.test\n  - {domain: evil.test}`: "cannot be for",
	} {
		_, err := config.Parse("c", []byte("proxy: {presets: [\""+text+"\"]}"))
		hints := ""
		if e, ok := errors.AsType[*source.Problem](err); ok {
			hints = e.Msg + " (" + e.Hint + ")"
		}
		if !strings.Contains(hints, want) {
			t.Errorf("%s: %v, %s", text, err, hints)
		}
	}
}

// The schema and the reader must agree about what a person may write.
func TestSchemaAgrees(t *testing.T) {
	var s jsonschema.Schema
	if err := json.Unmarshal(config.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, json string
		ok         bool
	}{
		{"every section", `{"version":1,"defaults":{"mode":"shadow"},"proxy":{"allow":[{"domain":"a.example","ports":[443]}],"approval_timeout":"60s","hosts":{"a":"127.0.0.1:1"}},"resources":{"memory":"8GiB","cpus":0.5}}`, true},
		{"nothing", `{}`, true},
		{"a section that is empty", `{"proxy":null}`, true},
		{"an unknown key", `{"proxy":{"alow":[]}}`, false},
		{"a wrong word", `{"defaults":{"mode":"off"}}`, false},
		{"a wrong type", `{"resources":{"pids":"many"}}`, false},
		{"a wrong size", `{"resources":{"memory":"lots"}}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var v any
			if err := json.Unmarshal([]byte(tt.json), &v); err != nil {
				t.Fatal(err)
			}
			if err := resolved.Validate(v); (err == nil) != tt.ok {
				t.Errorf("the schema says %v", err)
			}
			if _, err := config.Parse("c", []byte(tt.json)); (err == nil) != tt.ok {
				t.Errorf("the reader says %v", err)
			}
		})
	}
}

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		text string
		want config.Size // 0: refused
	}{
		{"8GiB", 8 << 30}, {"1.5GiB", 3 << 29}, {"512m", 512 << 20}, {"8g", 8 << 30}, {"500MB", 500e6}, {"4096", 4096},
		{"1 KiB", 1024}, {"10kB", 10_000}, {"7b", 7},
		{"", 0}, {"0", 0}, {"GiB", 0}, {"-1GiB", 0}, {"1e9", 0}, {"0x10", 0}, {"inf", 0}, {"1_000", 0}, {"9999999TiB", 0}, {"1.2.3", 0}, {"8 G i B", 0},
	} {
		t.Run(tt.text, func(t *testing.T) {
			got, err := config.ParseSize(tt.text)
			if got != tt.want || (err == nil) != (tt.want != 0) {
				t.Errorf("got %d, %v, want %d", got, err, tt.want)
			}
		})
	}
}

func TestParsePolicyTests(t *testing.T) {
	got, err := config.ParsePolicyTests("t", []byte("tests:\n  - {name: the API, connect: api.example.com, want: allow}\n  - {connect: \"127.0.0.1:22\", want: deny}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []config.PolicyTest{
		{Name: "the API", Connect: "api.example.com", Want: "allow"},
		{Name: "127.0.0.1:22", Connect: "127.0.0.1:22", Want: "deny"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(config.PolicyTest{}, "Place")); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"no tests", "", []string{"t: holds no tests"}},
		{"an empty list", "tests: []\n", []string{"t: holds no tests"}},
		{"a wrong word", "tests: [{connect: a, want: permit}]\n", []string{`t:1:28: tests[0].want: "permit" is not a value of this key (write one of: allow, ask, deny)`}},
		{"parts missing", "tests:\n  - name: x\n", []string{"t:2:5: tests[0]: a test has connect or request", "t:2:5: tests[0]: want is missing (write want: allow, ask or deny)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.ParsePolicyTests("t", []byte(tt.text))
			if diff := cmp.Diff(tt.want, problems(err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(full)
	f.Add("proxy: {allow: [{domain: \"*.a.example\", ports: [1]}]}")
	f.Add("\ufeff? a\n: b\n---\n")
	f.Add("a: |\n  b\nc: >-\n d\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("c", []byte(text))
		if err != nil {
			for _, p := range problems(err) {
				if strings.ContainsAny(p, "\n\x00") {
					t.Errorf("an error is not one line: %q", p)
				}
			}
			return
		}
		if c.Version != 1 || c.Resources.PIDs < 2 {
			t.Errorf("read as %+v", c)
		}
		c.Explain()
	})
}

// A project may say which repositories, and not whose key opens them.
func TestProjectNamesNoKey(t *testing.T) {
	const text = "version: 1\nproxy: {allow: [{domain: a.example, protocol: ssh, repositories: [\"a/*\"]%s}]}\n"
	if _, err := config.ParseProject("p", []byte(strings.Replace(text, "%s", "", 1))); err != nil {
		t.Error(err)
	}
	_, err := config.ParseProject("p", []byte(strings.Replace(text, "%s", ", identity: agent", 1)))
	if err == nil || !strings.Contains(err.Error(), "p:2:85: proxy.allow[0]: a project does not say which of your keys logs in") {
		t.Errorf("%v", err)
	}
}
