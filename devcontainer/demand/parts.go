package demand

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"cloister/agent"
	"cloister/devcontainer/features"
	"cloister/devcontainer/jsonc"
)

// dockerfile judges a key by which an image is built.
func dockerfile(j *judge, m jsonc.Member) any {
	j.of(m, Honoured, builtHere, "")
	return m.Value.Any()
}

const (
	builtHere = "built by the engine, its network the guardian's"
	// InstalledHere is what becomes of a feature.
	InstalledHere = "installed by the engine in a build, its network the guardian's"
)

// build judges the keys of build.
func build(j *judge, m jsonc.Member) any {
	kept := map[string]any{}
	for _, b := range m.Value.Members {
		key := "build." + b.Name
		switch b.Name {
		case "dockerfile", "context", "target":
			j.item(key, b.Value, Honoured, builtHere, "")
			kept[b.Name] = b.Value.Any()
		case "args":
			kept[b.Name] = buildArguments(j, key, b.Value)
		case "cacheFrom":
			j.item(key, b.Value, Refused, "no cache of somebody else's is used", "")
		case "options":
			for n, v := range items(b.Value) {
				j.item(indexed(key, n), v, Refused, "the flags of a build are the cloister's own", "")
			}
		default:
			j.find(key, b.Line, b.Column, b.Value.Brief(), Kept, "unknown here; it changes nothing", "")
			kept[b.Name] = b.Value.Any()
		}
	}
	return kept
}

// buildArguments judges the arguments of a Dockerfile. Those of the build's own are refused.
func buildArguments(j *judge, key string, v jsonc.Value) map[string]any {
	kept := map[string]any{}
	for _, a := range v.Members {
		at := key + "." + a.Name
		switch why := j.reserved(a.Name); {
		case why != "":
			j.find(at, a.Line, a.Column, a.Value.Brief(), Refused, why, "")
		case a.Value.Kind != jsonc.String:
			j.find(at, a.Line, a.Column, a.Value.Brief(), Refused, "an argument's value is a text", "")
		default:
			j.find(at, a.Line, a.Column, a.Value.Brief(), Honoured, "an argument of the Dockerfile", "")
			kept[a.Name] = a.Value.Any()
		}
	}
	return kept
}

func featureList(j *judge, m jsonc.Member) any {
	kept := map[string]any{}
	for _, f := range m.Value.Members {
		key := "features." + f.Name
		if why := FeatureID(f.Name); why != "" {
			j.find(key, f.Line, f.Column, f.Value.Brief(), Refused, why, "copy its folder beside the devcontainer: ./NAME")
			continue
		}
		o, reason, hint := Honoured, InstalledHere, ""
		if !strings.HasPrefix(f.Name, "./") {
			o, reason, hint = j.registered(f.Name)
		}
		j.find(key, f.Line, f.Column, f.Value.Brief(), o, reason, hint)
		if o != Refused {
			kept[f.Name] = f.Value.Any()
		}
	}
	return kept
}

// registered judges a feature of a registry by what is known of its source.
func (j *judge) registered(id string) (Outcome, string, string) {
	if j.Registered == nil {
		return Refused, "no source of features is known here", ""
	}
	return j.Registered(id)
}

// FeatureID says why a feature's name is refused; empty where it is not.
func FeatureID(id string) string {
	switch {
	case strings.HasPrefix(id, "./") && !strings.Contains(id, "/../") && !strings.HasSuffix(id, "/.."):
		return ""
	case strings.HasPrefix(id, "/"), strings.HasPrefix(id, "."), strings.Contains(id, "/../"):
		return "a feature lies in the devcontainer's own folder, or in a registry"
	case strings.Contains(id, "://"):
		return "an address has no digest by which it could be pinned"
	}
	if _, err := features.ParseRef(id); err != nil {
		return "a feature of a registry is written REGISTRY/PATH:VERSION, in lower case"
	}
	return ""
}

// agents are beginnings of variables by which an agent finds its service, or its rules.
var agents = sync.OnceValue(func() []string { return append(agent.AllVariables(), "CLOISTER") })

// reserved says why a variable is not a repository's to set; empty where it is.
func (j *judge) reserved(name string) string { return Variable(name, j.Reserved) }

// Variable says why a variable is not a repository's to set; empty where it is. Own are
// further ones of the cloister's.
func Variable(name string, own []string) string {
	for _, own := range append(slices.Clone(own), "HOME", "USER", "LOGNAME", "SHELL", "CLOISTER") {
		if strings.EqualFold(name, own) {
			return name + " inside is the cloister's own"
		}
	}
	lower := strings.ToLower(name)
	if strings.HasSuffix(lower, "_proxy") {
		return "the way out is the guardian's"
	}
	for _, a := range agents() {
		if strings.HasPrefix(strings.ToUpper(name), a) {
			return "where an agent's words go, and what it may do, is no repository's to say"
		}
	}
	// A name is written into definitions of images too, where a space or a new line ends it.
	if name == "" || strings.ContainsAny(name, "=\"'\\$`#") || strings.ContainsFunc(name, notPlain) {
		return "it is no variable's name"
	}
	return ""
}

// notPlain reports whether a character is none of a plain word's.
func notPlain(r rune) bool { return r <= ' ' || r > '~' }

func environment(j *judge, m jsonc.Member) any {
	kept := map[string]any{}
	for _, e := range m.Value.Members {
		key := m.Name + "." + e.Name
		if why := j.reserved(e.Name); why != "" {
			j.find(key, e.Line, e.Column, e.Value.Brief(), Refused, why, "set it yourself: -e "+e.Name+"=VALUE")
			continue
		}
		if e.Value.Kind != jsonc.String && e.Value.Kind != jsonc.Null {
			j.find(key, e.Line, e.Column, e.Value.Brief(), Refused, "a variable's value is a text", "")
			continue
		}
		j.find(key, e.Line, e.Column, e.Value.Brief(), Honoured, "a variable inside", "")
		kept[e.Name] = e.Value.Any()
	}
	return kept
}

func lifecycle(reason string) rule {
	return func(j *judge, m jsonc.Member) any {
		j.of(m, Honoured, reason, "")
		return m.Value.Any()
	}
}

// initialize is a command that the reference runs on the host.
func initialize(j *judge, m jsonc.Member) any {
	j.of(m, Refused, "nothing of a repository runs on this machine; it is asked for as a host command",
		"to have it approved while a start waits: cloister approvals watch")
	return m.Value.Any()
}

func forwardPorts(j *judge, m jsonc.Member) any {
	kept := []any{}
	for n, v := range m.Value.Items {
		key := indexed(m.Name, n)
		port := v.Text
		if v.Kind == jsonc.Number {
			port = v.Number.String()
		}
		host, number, named := strings.Cut(port, ":")
		if !named {
			host, number = "localhost", port
		}
		p, err := strconv.ParseUint(number, 10, 16)
		switch {
		case err != nil || p == 0:
			j.item(key, v, Refused, "it is no port", "")
			continue
		case host != "localhost":
			j.item(key, v, Changed, servicePort, "open it: -p PORT")
		case p < 1024:
			j.item(key, v, Refused, "ports below 1024 of this machine are a person's to open", "open it: -p "+number)
			continue
		default:
			j.item(key, v, Honoured, "reachable at 127.0.0.1 of this machine, where it is free", "")
		}
		kept = append(kept, v.Any())
	}
	return kept
}

func appPort(j *judge, m jsonc.Member) any {
	kept := []any{}
	for n, v := range items(m.Value) {
		text := v.Text
		if v.Kind == jsonc.Number {
			text = v.Number.String()
		}
		parts := strings.Split(text, ":")
		inside, err := strconv.ParseUint(parts[len(parts)-1], 10, 16)
		if err != nil || inside < 1024 || len(parts) > 2 {
			j.item(indexed(m.Name, n), v, Refused, "ports below 1024, and addresses of this machine, are a person's to open",
				"open it: -p PORT")
			continue
		}
		j.item(indexed(m.Name, n), v, Changed, "reachable at 127.0.0.1 of this machine, where it is free, and nowhere else",
			"")
		kept = append(kept, v.Any())
	}
	return kept
}

// customizations are other tools', but for our own.
func customizations(j *judge, m jsonc.Member) any {
	for _, c := range m.Value.Members {
		if c.Name == "cloister" && j.Source == File {
			j.find("customizations.cloister", c.Line, c.Column, c.Value.Brief(), Changed,
				"as the repository's .cloister.yaml: only what it takes away applies", "")
			continue
		}
		j.find("customizations."+c.Name, c.Line, c.Column, c.Value.Brief(), Kept, "another tool's", "")
	}
	return m.Value.Any()
}
