package demand

import (
	"slices"
	"strings"

	"cloister/devcontainer/jsonc"
)

// ungiven reports whether a text needs a variable of this machine: one without a default that
// no person gave.
func (j *judge) ungiven(text string) bool {
	text = defaulted().ReplaceAllString(strings.ReplaceAll(text, "$$", ""), "")
	text = variableName().ReplaceAllStringFunc(text, func(whole string) string {
		if j.Given != nil && j.Given(strings.Trim(whole, "${}")) {
			return ""
		}
		return whole
	})
	return strings.Contains(text, "$")
}

// serviceEnvironment judges the variables of a service: those without a value would be
// this machine's.
func (j *judge) serviceEnvironment(key string, v jsonc.Value) {
	one := func(name string, v jsonc.Value, set bool, text string) {
		if why := j.reserved(name); why != "" {
			j.item(key+"."+name, v, Refused, why, "")
		} else if !set || j.ungiven(text) {
			j.item(key+"."+name, v, Refused, byName, "give it: -e "+name)
		}
	}
	for _, m := range v.Members {
		one(m.Name, m.Value, m.Value.Kind != jsonc.Null, m.Value.Text)
	}
	for _, v := range v.Items {
		name, text, set := strings.Cut(v.Text, "=")
		one(name, v, set, text)
	}
}

// deploy judges where and how a service would be placed: devices are named in it too.
func (j *judge) deploy(key string, v jsonc.Value) {
	for _, m := range v.Members {
		if m.Name != "resources" {
			continue
		}
		for _, r := range m.Value.Members {
			for _, what := range []string{"devices", "generic_resources"} {
				if d, ok := r.Value.Get(what); ok {
					j.item(key+".resources."+r.Name+"."+what, d, Refused, forbidden["devices"], "")
				}
			}
		}
	}
}

// resources judges what services share: volumes, networks, secrets and configs.
func (j *judge) resources(in ComposeInput, top jsonc.Member) {
	for _, r := range top.Value.Members {
		at := top.Name + "." + r.Name
		for _, m := range r.Value.Members {
			key := at + "." + m.Name
			switch m.Name {
			case "external":
				if m.Value.Kind != jsonc.Bool || m.Value.Bool {
					const why = "what is not the project's own is none of its services'"
					j.find(key, m.Line, m.Column, m.Value.Brief(), Refused, why, "")
				}
			case "driver":
				if !slices.Contains([]string{"local", "bridge", "default"}, m.Value.Text) {
					j.find(key, m.Line, m.Column, m.Value.Brief(), Refused, anotherWay, "")
				}
			case "driver_opts", "ipam", "environment", "template_driver":
				j.find(key, m.Line, m.Column, m.Value.Brief(), Refused, anotherWay, "")
			case "file":
				j.projectFile(in, key, m.Value.Text, m.Value)
			case "name", "labels", "internal", "attachable", "enable_ipv6", "enable_ipv4", "content":
			default:
				j.otherKey(key, m)
			}
		}
	}
}
