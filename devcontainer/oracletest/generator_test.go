package oracletest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator makes configurations: shapes of the specification, sound ones alone.
type generator struct{ *rand.Rand }

// member is one key of a generated file.
type member struct {
	key   string
	value func(g *generator) any
}

func one(list ...any) func(*generator) any {
	return func(g *generator) any { return list[g.IntN(len(list))] }
}

// some is a list of up to four of the values.
func some(of func(*generator) any) func(*generator) any {
	return func(g *generator) any {
		out := []any{}
		for range g.IntN(5) {
			out = append(out, of(g))
		}
		return out
	}
}

// object has up to three of the keys.
func object(of func(*generator) any, keys ...string) func(*generator) any {
	return func(g *generator) any {
		out := map[string]any{}
		for range g.IntN(4) {
			out[keys[g.IntN(len(keys))]] = of(g)
		}
		return out
	}
}

// words are texts with variables in them.
func words(g *generator) any {
	parts := []string{
		"plain", " ", "/a/b", "${localEnv:KNOWN}", "${localEnv:MISSING}", "${localEnv:MISSING:default}", "${localEnv:KNOWN:default}", "${localEnv:EMPTY:default}",
		"${localEnv:MISSING:a:b}", "${env:KNOWN}", "${localEnv:DOLLAR}", "${containerEnv:PATH}", "${containerEnv:X:y}", "${localWorkspaceFolder}",
		"${localWorkspaceFolderBasename}", "${containerWorkspaceFolder}", "${containerWorkspaceFolderBasename}", "${devcontainerId}", "${unknown}", "${", "}", "$HOME",
		"${unknown:x}", "é", "\"", "\\", "\n", "//", "/*", "<&>",
	}
	var b strings.Builder
	for range 1 + g.IntN(3) {
		b.WriteString(parts[g.IntN(len(parts))])
	}
	return b.String()
}

func command(g *generator) any {
	switch g.IntN(4) {
	case 0:
		return words(g)
	case 1:
		return some(words)(g)
	case 2:
		return object(func(g *generator) any {
			if g.IntN(2) == 0 {
				return words(g)
			}
			return some(words)(g)
		}, "a", "b", "c")(g)
	}
	return "echo done"
}

func mount(g *generator) any {
	target := one("/data", "/cache", "/keys", "/x/y")(g).(string)
	source := one("vol", "other", "${localWorkspaceFolder}/d", "${localEnv:HOME}/.ssh", "/", "/var/run/docker.sock")(g).(string)
	kind := "volume"
	if strings.ContainsAny(source, "/") {
		kind = "bind"
	}
	if g.IntN(2) == 0 {
		return map[string]any{"type": kind, "source": source, "target": target}
	}
	return fmt.Sprintf("source=%s,target=%s,type=%s", source, target, kind)
}

func port(g *generator) any { return one(3000, 8080, 8080, 22, "db:5432", "localhost:9000", "8081")(g) }

func requirements(g *generator) any {
	out := map[string]any{}
	if g.IntN(2) == 0 {
		out["cpus"] = 1 + g.IntN(8)
	}
	if g.IntN(2) == 0 {
		out["memory"] = one("4gb", "512mb", "1tb", "7kb", "1024", "8GB", "nonsense")(g)
	}
	if g.IntN(2) == 0 {
		out["storage"] = one("32gb", "1tb")(g)
	}
	if g.IntN(3) == 0 {
		out["gpu"] = one(true, false, "optional", map[string]any{"cores": 4, "memory": "8gb"}, map[string]any{"cores": 2})(g)
	}
	return out
}

// merged are keys that a label has too.
func merged() []member {
	env := object(words, "A", "B", "C", "PATH", "https_proxy", "ANTHROPIC_BASE_URL")
	attributes := object(object(one("ignore", "notify", "x"), "label", "onAutoForward"), "3000", "8080", "9000-9010")
	return []member{
		{"onCreateCommand", command}, {"updateContentCommand", command}, {"postCreateCommand", command}, {"postStartCommand", command}, {"postAttachCommand", command},
		{"waitFor", one("onCreateCommand", "postCreateCommand")}, {"init", one(true, false)}, {"privileged", one(true, false)},
		{"capAdd", some(one("SYS_PTRACE", "NET_ADMIN"))}, {"securityOpt", some(one("seccomp=unconfined", "no-new-privileges"))},
		{"containerEnv", env}, {"remoteUser", one("root", "vscode", "node")}, {"containerUser", one("root", "vscode")},
		{"userEnvProbe", one("none", "loginShell")}, {"overrideCommand", one(true, false)}, {"updateRemoteUserUID", one(true, false)},
		{"mounts", some(mount)}, {"portsAttributes", attributes}, {"otherPortsAttributes", object(one("ignore"), "onAutoForward")},
		{"forwardPorts", some(port)}, {"shutdownAction", one("none", "stopContainer")}, {"hostRequirements", requirements},
		{"customizations", object(object(some(one("a.b", "c.d")), "extensions", "settings"), "vscode", "codespaces", "other")},
		{"remoteEnv", object(func(g *generator) any {
			if g.IntN(4) == 0 {
				return nil
			}
			return words(g)
		}, "A", "B", "D")},
	}
}

// file is a devcontainer.json with comments.
func (g *generator) file() string {
	all := append(merged(), []member{
		{"name", words}, {"runArgs", some(one("--privileged", "--network=host", "--init", "--memory=2g", "--env=A=b"))},
		{"workspaceFolder", one("/workspaces/x", "/workspace", "${localWorkspaceFolder}", "/w/${localWorkspaceFolderBasename}")},
		{"initializeCommand", command}, {"appPort", one(3000, "8080:8080", []any{1, "3000"})}, {"unknownKey", words}, {"anotherUnknown", object(words, "x", "y")},
		{"secrets", object(object(words, "description"), "TOKEN")},
	}...)
	keep := []member{{"image", one("debian:12", "registry.example.com/x/y:1")}}
	for _, m := range all {
		if g.IntN(3) == 0 {
			keep = append(keep, m)
		}
	}
	g.Shuffle(len(keep), func(i, j int) { keep[i], keep[j] = keep[j], keep[i] })
	var b strings.Builder
	b.WriteString(one("", "// a comment {\n", "/* one\n more */\n")(g).(string) + "{\n")
	for n, m := range keep {
		value, err := json.Marshal(m.value(g))
		if err != nil {
			panic(err) // it holds nothing that JSON cannot say
		}
		comma := ","
		if n == len(keep)-1 && g.IntN(2) == 0 {
			comma = ""
		}
		fmt.Fprintf(&b, "\t%s%q: %s%s%s\n", one("", "/* \"x\": 1, */ ")(g), m.key, value, comma, one("", " // \"y\": [")(g))
	}
	return b.String() + "}\n" + one("", "// the end")(g).(string)
}

// label is what an image says.
func (g *generator) label() string {
	list := []any{}
	for n := range g.IntN(4) {
		entry := map[string]any{}
		if g.IntN(2) == 0 {
			entry["id"] = fmt.Sprintf("feature-%d", n)
			entry["entrypoint"] = "/usr/local/share/x.sh"
		}
		for _, m := range merged() {
			if g.IntN(6) == 0 {
				entry[m.key] = m.value(g)
			}
		}
		list = append(list, entry)
	}
	var v any = list
	if len(list) == 1 && g.IntN(2) == 0 {
		v = list[0]
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
