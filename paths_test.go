package house_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloister/config"
)

// A configuredPath is a key that names a file or folder of this machine. Whoever reads it asks
// host/resolve whose word the path is: what a payload could have written, or led elsewhere, is
// not obeyed. reader names the files that do, and call how they ask. Where also is not nil, no
// other file mentions the key but those, which pass its text on.
type configuredPath struct {
	call, reader string
	also         []string
}

// configuredPaths are by the type and field of package config.
var configuredPaths = map[string]configuredPath{
	"Proxy.UpstreamCA":    {"host.Settings(", "session/launch/plan.go policyset/roots.go", []string{"config/check.go"}},
	"Audit.AnchorFile":    {"host.Written(", "cmd/cloister/records/verify.go", []string{"config/check.go"}},
	"Audit.AnchorCommand": {"a.Program(", "cmd/cloister/records/verify.go", []string{"config/check.go"}},
	"Rule.Identity":       {"host.Settings(", "secret/sshkey/sshkey.go", nil},
	"Filesystem.Expose":   {"leads(o, e.Path)", "workspace/named.go", nil},
	"Filesystem.Refs":     {"leads(o, r)", "workspace/named.go", nil},
	"Config.Image":        {"r.Find(", "sandbox/image/store.go", nil},
	"MCPServer.Command":   {"host.Program(", "guardian/mcpbridge.go", nil},
	"Notify.Command":      {"host.Program(", "guardian/notify/notify.go", nil},
	"CommandRule.Program": {".Program(", "hostexec/prepare_linux.go", nil},
}

// configuredWords are the other keys that hold text: names of hosts, of variables, of rules and
// the like, patterns, and paths within a project or a request, which no mount or program is
// found by.
const configuredWords = `Agent.Args Agent.Env CommandRule.Args CommandRule.Flags CommandRule.Pattern Config.Logins
	Defaults.Agent Defaults.Devcontainer Devcontainer.Features Filesystem.Hide Filesystem.Protect Hostexec.Shims
	MCPServer.AllowTools MCPServer.AskTools MCPServer.DenyTools MCPServer.Env MCPServer.Name MCPServer.Prompts
	MCPServer.Resources MCPServer.URL Notify.Webhook Proxy.Hosts Proxy.Presets Rewrite.Domain Rewrite.Headers Rewrite.Methods
	Rewrite.Paths Rewrite.Query Rewrite.Remove Rewrite.Set Rule.CIDR Rule.Commands Rule.Databases Rule.Domain Rule.Git
	Rule.Headers Rule.HostKeys Rule.Methods Rule.Paths Rule.Pattern Rule.Query Rule.Repositories Rule.Users Secret.Env
	Secret.Format Secret.Header Secret.Hosts Secret.Methods Secret.Name Secret.Paths Secret.Query Secret.Regions
	Secret.Services State.Recipients`

// Each key of the configuration that holds text is a path, whose reader asks the resolver, or
// none. A new one is listed before it is obeyed.
func TestConfiguredPathsGoByTheResolver(t *testing.T) {
	words := strings.Fields(configuredWords)
	keys := textKeys(reflect.TypeFor[config.Config](), map[reflect.Type]bool{})
	if len(keys) < 50 {
		t.Fatalf("found only %q", keys)
	}
	for _, key := range keys {
		if _, path := configuredPaths[key]; path == slices.Contains(words, key) {
			t.Errorf("config: %s: list it in configuredPaths with who reads it, or in configuredWords", key)
		}
	}
	for _, word := range words {
		if !slices.Contains(keys, word) {
			t.Errorf("configuredWords lists %s, which is no key any more: strike it", word)
		}
	}
	for key, p := range configuredPaths {
		if !slices.Contains(keys, key) {
			t.Errorf("configuredPaths lists %s, which is no key any more: strike it", key)
		}
		readers := strings.Fields(p.reader)
		for _, reader := range readers {
			text, err := os.ReadFile(filepath.FromSlash(reader))
			if err != nil || !strings.Contains(string(text), p.call) {
				t.Errorf("%s: %s does not ask by %s: %v", key, reader, p.call, err)
			}
		}
		if p.also != nil {
			_, field, _ := strings.Cut(key, ".")
			onlyIn(t, regexp.MustCompile(`\.`+field+`\b`), append(readers, p.also...), key+" is read by "+p.reader)
		}
	}
}

// textKeys are the fields of a configuration that hold text, with those of what is in it.
func textKeys(of reflect.Type, done map[reflect.Type]bool) []string {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || done[of] || of.PkgPath() != module+"/config" {
		return nil
	}
	done[of] = true
	var out []string
	for f := range of.Fields() {
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		in := f.Type
		for in.Kind() == reflect.Slice || in.Kind() == reflect.Map || in.Kind() == reflect.Pointer {
			in = in.Elem()
		}
		if in == reflect.TypeFor[string]() {
			out = append(out, of.Name()+"."+f.Name)
		}
		out = append(out, textKeys(f.Type, done)...)
	}
	return out
}

// onlyIn holds a pattern to some files.
func onlyIn(t *testing.T, pattern *regexp.Regexp, may []string, rule string) {
	t.Helper()
	for _, f := range files(t) {
		if f.test || slices.Contains(may, f.name) || slices.Contains([]string{"bench", "escape", "script"}, roomOf(f.dir)) {
			continue
		}
		text, err := os.ReadFile(filepath.FromSlash(f.name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if pattern.MatchString(line) && !strings.HasPrefix(strings.TrimSpace(line), "//") {
				t.Errorf("%s: %s: %s", f.name, strings.TrimSpace(line), rule)
			}
		}
	}
}

// typedPaths are the flags that name a file or folder, by the file of their command, with how
// the path is resolved: what a person types may lead through a link that a payload made.
var typedPaths = map[string]string{
	"carry.go project":          "FindProject",
	"pods.go gate":              "an image in a registry, no file",
	"pods.go image":             "an image in a registry, no file",
	"pods.go gate-image":        "TypedNew",
	"devcontainers.go project":  "FindProject",
	"up.go config":              "below the project's own folder, by os.Root",
	"init.go project":           "FindProject",
	"machines.go kernel":        "Trusted (machines_linux.go)",
	"machines.go modules":       "Trusted (machines_linux.go)",
	"run.go devcontainer":       "below the project's own folder, by os.Root",
	"run.go expose":             "workspace.Plan asks the resolver (named.go)",
	"run.go image":              "the store asks the resolver (store.go)",
	"run.go policy":             "launch asks the resolver (plan.go)",
	"run.go project":            "FindProject",
	"run.go ref":                "workspace.Plan asks the resolver (named.go)",
	"run.go report":             "a new file in the folder that was opened, and through no link (report.go)",
	"set.go file":               "Typed",
	"templates.go forbid":       "Typed",
	"replicas.go snapshot-keys": "a server's own file, of the operator: refused where others can read it, and shown to no session",
	"serve.go tls-cert":         "sent to whoever connects, and shown to no session",
	"serve.go tls-key":          "has to be the certificate's own",
	"setup.go from":             "Trusted, file by file (setup/gvisor_linux.go)",
	"srt.go settings":           "Typed",
	"verify.go anchors":         "TypedNew, and through no last link (audit.ReadAnchors)",
	"verify.go file":            "TypedNew, and through no last link (audit.AppendAnchor)",
	"worktree.go project":       "FindProject",
}

func TestTypedPathsGoByTheResolver(t *testing.T) {
	flag := regexp.MustCompile(`Flags\(\)\.\w+\([^"]*"([\w-]+)",|\bfl\.\w+\([^"]*"([\w-]+)",`)
	path := regexp.MustCompile("`[^`]*\\b(FILE|DIR|FOLDER|PATH|ARCHIVE|SOCKET|IMAGE)\\b[^`]*`|\"project\", \"C\"")
	seen := map[string]bool{}
	for _, f := range files(t) {
		if f.test || f.dir != "cmd/cloister" && !strings.HasPrefix(f.dir, "cmd/cloister/") {
			continue
		}
		text, err := os.ReadFile(filepath.FromSlash(f.name))
		if err != nil {
			t.Fatal(err)
		}
		// A call that goes on in the next line is one.
		for line := range strings.Lines(strings.ReplaceAll(string(text), ",\n\t\t", ", ")) {
			found := flag.FindStringSubmatch(line)
			if found == nil || !path.MatchString(line) {
				continue
			}
			key := filepath.Base(f.name) + " " + found[1] + found[2]
			if seen[key] = true; typedPaths[key] == "" {
				t.Errorf("%s: say in typedPaths how the path of the flag is resolved", key)
			}
		}
	}
	for key := range typedPaths {
		if !seen[key] {
			t.Errorf("typedPaths lists %q, which is no flag any more: strike it", key)
		}
	}
	// A project is found by the resolver, or where it was found before.
	onlyIn(t, regexp.MustCompile(`\bworkspace\.Find\(`), []string{
		"cmd/cloister/cli/project.go",      // behind the resolver
		"cmd/cloister/shim.go",             // the worktree that was just made
		"session/changes.go",               // the note of a session, which Cloister wrote
		"session/kept/kept.go",             // the project of a workspace, held to those that are known
		"workspace/obeyed/obeyed.go",       // the same project
		"workspace/worktrees/worktrees.go", // a worktree of Cloister's own
		"sandbox/sandboxtest/more.go",      // tests
		"sandbox/sandboxtest/sandboxtest.go",
	}, "a project is found by FindProject, which asks host/resolve")
}
