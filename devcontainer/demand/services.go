package demand

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cloister/devcontainer/jsonc"
)

// ComposeInput is a compose file to be judged.
type ComposeInput struct {
	Input
	// Dir is the folder that its paths begin at, on this machine.
	Dir string
}

// Compose judges a compose file: what its services ask for is refused where no cloister has
// it, key by key. What is left is understood; no service is started by this room.
func Compose(in ComposeInput) ([]Finding, error) {
	j := &judge{Input: in.Input}
	if in.Config.Kind != jsonc.Object {
		return nil, &jsonc.Error{File: in.Name, Line: in.Config.Line, Column: in.Config.Column,
			Msg: "it must be a mapping"}
	}
	for _, m := range in.Config.Members {
		switch m.Name {
		case "services":
			if m.Value.Kind != jsonc.Object {
				return nil, j.shape(m, object)
			}
			for _, s := range m.Value.Members {
				if s.Value.Kind != jsonc.Object && s.Value.Kind != jsonc.Null {
					return nil, &jsonc.Error{File: in.Name, Line: s.Line, Column: s.Column,
						Msg: fmt.Sprintf("services.%s is %s, and must be a mapping", s.Name, s.Value.Kind)}
				}
				j.service(in, s)
			}
		case "volumes", "networks", "secrets", "configs":
			j.resources(in, m)
		case "version", "name":
			j.of(m, Kept, "for the engine's own tool", "")
		case "include":
			j.of(m, Refused, "no other file is followed", "name it in dockerComposeFile")
		default:
			j.otherKey(m.Name, m)
		}
	}
	return j.out.Findings, nil
}

// otherKey is one that no rule knows.
func (j *judge) otherKey(key string, m jsonc.Member) {
	if strings.HasPrefix(m.Name, "x-") {
		return // for its readers alone
	}
	j.find(key, m.Line, m.Column, m.Value.Brief(), Refused, "it is on no list of what a service may have", "")
}

// Reasons that several keys have.
const (
	ownFilter   = "a cloister's filter of system calls and its confinement are its own"
	servicePort = "a service's port is reached inside; on this machine a person opens it"
	anotherWay  = "it would be another way to this machine, or past the guardian"
	byName      = "a variable of this machine reaches the inside only by a person's word"
)

// service judges the keys of one.
func (j *judge) service(in ComposeInput, s jsonc.Member) {
	at := "services." + s.Name
	j.find(at, s.Line, s.Column, s.Value.Brief(), Honoured, "the agent's, or a cloister of its own beside it", "")
	for _, m := range s.Value.Members {
		key := at + "." + m.Name
		if why := forbidden[m.Name]; why != "" {
			if m.Value.Kind == jsonc.Bool && !m.Value.Bool {
				j.find(key, m.Line, m.Column, m.Value.Brief(), Kept, "no cloister has it", "")
				continue
			}
			for n, v := range items(m.Value) {
				name := key
				if m.Value.Kind == jsonc.Array {
					name = indexed(key, n)
				}
				j.item(name, v, Refused, why, "")
			}
			continue
		}
		switch m.Name {
		case "volumes":
			for n, v := range items(m.Value) {
				o, reason, hint := j.serviceMount(in, v)
				if outer := outerMount(items(m.Value), v); o != Refused && outer != "" {
					o, reason, hint = Refused, "it is within the mount at "+outer+", whose content could lead it elsewhere", ""
				}
				j.item(indexed(key, n), v, o, reason, hint)
			}
		case "tmpfs":
			for n, v := range items(m.Value) {
				target, _, _ := strings.Cut(v.Text, ":")
				j.place(indexed(key, n), v, target)
			}
		case "secrets", "configs":
			for n, v := range items(m.Value) {
				if target, ok := v.Get("target"); ok && path.IsAbs(target.Text) || strings.Contains(target.Text, "..") {
					j.place(indexed(key, n), v, target.Text)
				}
			}
		case "build":
			j.serviceBuild(in, key, m.Value)
		case "network_mode", "pid", "ipc", "uts", "userns_mode", "cgroup":
			j.namespace(key, m)
		case "security_opt":
			for n, v := range items(m.Value) {
				if !strings.HasPrefix(v.Text, "no-new-privileges") {
					j.item(indexed(key, n), v, Refused, ownFilter, "")
				}
			}
		case "environment":
			j.serviceEnvironment(key, m.Value)
		case "env_file":
			for n, v := range items(m.Value) {
				j.projectFile(in, indexed(key, n), pathOf(v), v)
			}
		case "ports":
			for n, v := range items(m.Value) {
				j.item(indexed(key, n), v, Changed, servicePort, "open it: -p PORT")
			}
		case "deploy":
			j.deploy(key, m.Value)
		case "post_start", "pre_stop":
			for n, v := range items(m.Value) {
				if p, ok := v.Get("privileged"); ok && (p.Kind != jsonc.Bool || p.Bool) {
					j.item(indexed(key, n)+".privileged", p, Refused, "it would have every power over this machine", "")
				}
			}
		case "restart":
			if m.Value.Text != "no" && (m.Value.Kind != jsonc.Bool || m.Value.Bool) {
				j.find(key, m.Line, m.Column, m.Value.Brief(), Changed,
					"one that ends is not started again; its end is reported", "")
			}
		case "user":
			j.find(key, m.Line, m.Column, m.Value.Brief(), Changed,
				"a service has the agent's number of a user, and no other", "")
		default:
			if !slices.Contains(understood, m.Name) {
				j.otherKey(key, m)
			}
		}
	}
}

// forbidden are keys of which nothing is left, whatever their value, but for false.
var forbidden = map[string]string{
	"privileged":          "it would have every power over this machine",
	"cap_add":             "nothing inside has a capability of the kernel's",
	"devices":             "no cloister has a device of this machine",
	"device_cgroup_rules": "no cloister has a device of this machine",
	"gpus":                "no cloister has a device of this machine",
	"blkio_config":        "it names devices of this machine",
	"sysctls":             "settings of the kernel are the cloister's own",
	"cgroup_parent":       "a cloister's control groups are its own",
	"runtime":             "what runs a container is this machine's to say",
	"volumes_from":        "folders of other containers are none of the project's",
	"external_links":      "other containers are none of the project's",
	"extra_hosts":         "names lead where the guardian says",
	"dns":                 "names lead where the guardian says",
	"dns_search":          "names lead where the guardian says",
	"dns_opt":             "names lead where the guardian says",
	"extends":             "no other file is followed",
	"use_api_socket":      "the engine's socket is this machine's root",
	"provider":            "it is a program of this machine",
	"credential_spec":     "it is a credential of this machine",
	"logging":             "what is written goes to the cloister's log, and nowhere else",
	"group_add":           "nothing inside is in a group of this machine",
	"isolation":           "how the enclosure is built is a person's to say",
	"models":              "no model is started",
	"label_file":          "no other file is followed",
	"storage_opt":         "how the enclosure is built is a person's to say",
	"oom_score_adj":       "limits are the cloister's own",
	"oom_kill_disable":    "limits are the cloister's own",
}

// understood are keys that ask for nothing beyond a cloister's own.
var understood = []string{
	"image", "command", "entrypoint", "working_dir", "hostname", "domainname", "container_name", "healthcheck",
	"depends_on", "init", "tty", "stdin_open", "read_only", "shm_size", "ulimits", "mem_limit", "mem_reservation",
	"memswap_limit", "mem_swappiness", "cpus", "cpu_shares", "cpu_quota", "cpu_period",
	"cpu_count", "cpu_percent", "cpuset",
	"pids_limit", "cap_drop", "labels", "annotations", "expose", "networks", "links", "profiles", "platform",
	"pull_policy", "pull_refresh_after", "scale", "stop_signal", "stop_grace_period", "mac_address", "attach", "develop",
}

// namespace judges what a service would share.
func (j *judge) namespace(key string, m jsonc.Member) {
	v := m.Value.Text
	switch {
	case m.Name == "network_mode" && (v == "none" || strings.HasPrefix(v, "service:") || v == "bridge"):
		j.find(key, m.Line, m.Column, v, Changed, "the network is the cloister's own", "")
	case m.Name == "ipc" && (v == "private" || v == "none"), m.Name == "cgroup" && v == "private":
	default:
		why := "it would be shared with this machine, or with what is not the project's"
		if m.Name == "network_mode" {
			why = "the network is the guardian's"
		}
		j.find(key, m.Line, m.Column, m.Value.Brief(), Refused, why, "")
	}
}

// outerMount is the target of another mount that one lies within; empty for none. A folder in
// memory is empty at each start, and leads nowhere.
func outerMount(list []jsonc.Value, v jsonc.Value) string {
	target := path.Clean(mountWords(v)["target"])
	for _, o := range list {
		if f := mountWords(o); f["type"] != "tmpfs" && path.Clean(f["target"]) != target && below(target, f["target"]) {
			return path.Clean(f["target"])
		}
	}
	return ""
}

// mountWords are those of a mount in compose's short or long form.
func mountWords(v jsonc.Value) map[string]string {
	f := map[string]string{}
	if v.Kind == jsonc.Object {
		for _, m := range v.Members {
			f[m.Name] = m.Value.Text
		}
	} else {
		parts := strings.SplitN(v.Text, ":", 3)
		f["type"], f["target"] = "volume", parts[len(parts)-1]
		if len(parts) > 1 {
			f["source"], f["target"] = parts[0], parts[1]
		}
		if s := f["source"]; s != "" && strings.ContainsAny(s[:1], "/.~$") {
			f["type"] = "bind"
		}
	}
	return f
}

var (
	defaulted = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*:?[-+][^{}$]*\}`)
	})
	variableName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?`)
	})
)

// namesOf are the names of a list, or the keys of an object.
func namesOf(v jsonc.Value) []string {
	var out []string
	for _, m := range v.Members {
		out = append(out, m.Name)
	}
	for _, i := range v.Items {
		out = append(out, i.Text)
	}
	return out
}

// ReferredTo are the files of the project that a compose file names.
func ReferredTo(config jsonc.Value) []string {
	var out []string
	services, _ := config.Get("services")
	for _, s := range services.Members {
		env, _ := s.Value.Get("env_file")
		for _, v := range items(env) {
			out = append(out, pathOf(v))
		}
		build, _ := s.Value.Get("build")
		context, _ := build.Get("context")
		if build.Kind == jsonc.String {
			context = build
		}
		file := "Dockerfile"
		if d, ok := build.Get("dockerfile"); ok {
			file = d.Text
		}
		if build.Kind != jsonc.Null {
			out = append(out, path.Join(context.Text, file), path.Join(context.Text, ".dockerignore"))
		}
	}
	for _, kind := range []string{"secrets", "configs"} {
		list, _ := config.Get(kind)
		for _, r := range list.Members {
			if f, ok := r.Value.Get("file"); ok {
				out = append(out, f.Text)
			}
		}
	}
	return slices.DeleteFunc(out, func(p string) bool { return p == "" || strings.ContainsAny(p, "$~:") })
}
