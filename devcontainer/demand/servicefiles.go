package demand

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"cloister/devcontainer/jsonc"
)

// serviceMount judges one mount.
func (j *judge) serviceMount(in ComposeInput, v jsonc.Value) (Outcome, string, string) {
	f := mountWords(v)
	source := f["source"]
	if why := j.laidOver(f["target"]); why != "" && f["type"] != "bind" {
		return Refused, why, ""
	}
	switch f["type"] {
	case "volume":
		if source != "" && !volumeName(source) {
			return Refused, "a volume's name is letters, digits, _, . and -", ""
		}
		return Changed, "a volume is kept for this project alone", ""
	case "tmpfs":
		return Kept, "a folder in memory", ""
	case "bind":
		if strings.ContainsAny(source, "$~") {
			return Refused, "its source depends on this machine", "write the project's folder: ./FOLDER"
		}
		if !path.IsAbs(source) {
			source = path.Join(in.Dir, source)
		}
		if why := j.laidOver(f["target"]); why != "" && path.Clean(source) != path.Clean(f["target"]) {
			return Refused, why, ""
		}
		o, reason, hint := j.bind(path.Clean(source), f["target"])
		if o == Changed {
			reason = "the agent's leads to the project; another service gets a copy of the start's"
		}
		return o, reason, hint
	}
	return Refused, fmt.Sprintf("a mount of type %q is none that a cloister has", f["type"]), ""
}

// place judges where in a service something is laid.
func (j *judge) place(key string, v jsonc.Value, target string) {
	if why := j.laidOver(target); why != "" {
		j.item(key, v, Refused, why, "")
	}
}

// ownFiles are those of a cloister in /etc, where images have their settings otherwise.
var ownFiles = []string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd", "/etc/group", "/etc/ssl"}

// laidOver says why nothing of a service's is put at a place: unlike an agent's, its /run and
// what its image has below /etc are its own.
func (j *judge) laidOver(target string) string {
	if !path.IsAbs(target) || strings.Contains(target, "$") {
		return "its target is no absolute path"
	}
	target = path.Clean(target)
	if below(target, "/run") || below(target, "/var/run") {
		return ""
	}
	if below(target, "/etc") && target != "/etc" {
		if slices.ContainsFunc(ownFiles, func(own string) bool { return below(target, own) }) {
			return "/etc inside has files of the cloister's own"
		}
		return ""
	}
	return j.covers(target)
}

// serviceBuild judges how the image of a service is built.
func (j *judge) serviceBuild(in ComposeInput, key string, v jsonc.Value) {
	if v.Kind == jsonc.String {
		j.projectFile(in, key, v.Text, v)
		return
	}
	for _, m := range v.Members {
		at := key + "." + m.Name
		switch m.Name {
		case "context":
			j.projectFile(in, at, m.Value.Text, m.Value)
		case "dockerfile":
			context, _ := v.Get("context")
			j.projectFile(in, at, path.Join(context.Text, m.Value.Text), m.Value)
		case "args":
			for _, name := range namesOf(m.Value) {
				name, _, set := strings.Cut(name, "=")
				if why := j.reserved(name); why != "" {
					j.find(at+"."+name, m.Line, m.Column, "", Refused, why, "")
				} else if v, _ := m.Value.Get(name); !set && v.Kind == jsonc.Null {
					j.find(at+"."+name, m.Line, m.Column, "", Refused, byName, "give it a value")
				}
			}
		case "dockerfile_inline", "target", "labels", "tags", "platforms", "shm_size", "pull", "no_cache":
		default:
			j.find(at, m.Line, m.Column, m.Value.Brief(), Refused, "the flags of a build are the cloister's own", "")
		}
	}
}

// projectFile judges a path that must be in the project.
func (j *judge) projectFile(in ComposeInput, key, named string, v jsonc.Value) {
	at := named
	if !path.IsAbs(at) {
		at = path.Join(in.Dir, at)
	}
	switch {
	case strings.ContainsAny(named, "$~"):
		j.item(key, v, Refused, "its place depends on this machine", "")
	case strings.Contains(named, "://") || strings.HasPrefix(named, "git@"):
		j.item(key, v, Refused, "an address is fetched by nobody", "")
	case !below(at, j.Project):
		j.item(key, v, Refused, "it is outside the project", "")
	}
}

// pathOf is the path of an env_file, in either form.
func pathOf(v jsonc.Value) string {
	if p, ok := v.Get("path"); ok {
		return p.Text
	}
	return v.Text
}
