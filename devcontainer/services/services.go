// Package services makes of judged compose files what each service is started with.
//
// The promise: it is given what a judge left of the files, and takes only the keys that a
// service beside an agent can have; a value of the wrong shape, a variable without a value
// and a name of nothing are errors with their place. It starts nothing, reads no file and
// knows no machine.
//
// Most readers want [Of].
package services

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/devcontainer/jsonc"
)

// Service is one of a compose file, less what was refused.
type Service struct {
	Name         string
	File         string
	Line, Column int

	Image string
	Build *Build
	// Entrypoint and Command take the place of the image's; nil leaves it.
	Entrypoint, Command []string
	Dir                 string
	Env                 []string // NAME=VALUE, in order; those of EnvFiles come before
	EnvFiles            []string // from the project's top
	Mounts              []Mount
	Health              *Health // nil: none is named; without a test: switched off
	After               []Dependency
	Names               []string // by which others reach it
	Networks            []string // empty: none
	With                string   // the service whose network is its own, too
	Ports               []uint16
	Memory              int64
	CPUs                float64
	Pids                int64
	Profiles            []string
}

// Build is how its image is built: paths from the project's top.
type Build struct {
	Context, Dockerfile string
	Inline              string
	Arguments           map[string]string
	Target              string
}

// The kinds of mounts.
const (
	OfVolume  = "volume"
	OfTmpfs   = "tmpfs"
	OfProject = "project"
)

// Mount is a place in a service.
type Mount struct {
	Kind   string
	Target string
	// Source is a volume's name, empty for one without; a project's path, from its top.
	Source   string
	ReadOnly bool
}

// Health is how it is known that a service can be used.
type Health struct {
	Test                          []string // empty: none is made
	Interval, Timeout, StartDelay time.Duration
	Retries                       int
}

// The conditions of a dependency.
const (
	Started   = "service_started"
	Healthy   = "service_healthy"
	Completed = "service_completed_successfully"
)

// Dependency is a service that another waits for.
type Dependency struct {
	Service   string
	Condition string
	Optional  bool
}

// Input is what services are made of.
type Input struct {
	// Config is what was left of the files, joined by [Join].
	Config jsonc.Value
	// File tells the file of a service's name.
	File func(service string) string
	// Variable is a variable of this machine, as far as a person gave it.
	Variable func(name string) (string, bool)
	// Project is the project's top, and Dir the folder that paths begin at, from there.
	Project, Dir string
}

// Of gives the services, in the order of the files.
func Of(in Input) ([]Service, error) {
	list, _ := in.Config.Get("services")
	own := map[string]string{} // files of secrets and configs
	for _, kind := range []string{"secrets", "configs"} {
		all, _ := in.Config.Get(kind)
		for _, m := range all.Members {
			if f, ok := m.Value.Get("file"); ok {
				own[kind+"."+m.Name] = f.Text
			}
		}
	}
	var out []Service
	for _, m := range list.Members {
		r := reader{Input: in, file: in.File(m.Name), files: own}
		s, err := r.service(m)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// reader reads one service.
type reader struct {
	Input
	file  string
	files map[string]string
}

func (r *reader) bad(v jsonc.Value, format string, args ...any) error {
	return &jsonc.Error{File: r.file, Line: v.Line, Column: v.Column, Msg: fmt.Sprintf(format, args...)}
}

func (r *reader) service(m jsonc.Member) (Service, error) {
	s := Service{Name: m.Name, File: r.file, Line: m.Line, Column: m.Column, Networks: []string{"default"},
		Names: []string{m.Name}}
	if !plainName(m.Name) {
		at := jsonc.Value{Line: m.Line, Column: m.Column}
		return s, r.bad(at, "services.%s: a service's name is letters, digits, _, . and -", m.Name)
	}
	for _, k := range m.Value.Members {
		v, err := r.expanded(k.Value)
		if err == nil {
			err = r.key(&s, k.Name, v)
		}
		if err != nil {
			return s, fmt.Errorf("%w (services.%s.%s)", err, m.Name, k.Name)
		}
	}
	return s, nil
}

// key reads one key of a service. What has no part in a cloister is passed over: the judge
// said so.
func (r *reader) key(s *Service, name string, v jsonc.Value) (err error) {
	switch name {
	case "image":
		s.Image, err = r.text(v)
	case "build":
		s.Build, err = r.build(v)
	case "command":
		s.Command, err = r.line(v)
	case "entrypoint":
		s.Entrypoint, err = r.line(v)
	case "working_dir":
		s.Dir, err = r.text(v)
	case "environment":
		s.Env, err = r.pairs(v)
	case "env_file":
		for _, i := range items(v) {
			if p, ok := i.Get("path"); ok {
				i = p
			}
			s.EnvFiles = append(s.EnvFiles, r.place(i.Text))
		}
	case "volumes":
		err = r.mounts(s, v)
	case "tmpfs":
		for _, i := range items(v) {
			target, _, _ := strings.Cut(i.Text, ":")
			s.Mounts = append(s.Mounts, Mount{Kind: OfTmpfs, Target: path.Clean(target)})
		}
	case "secrets", "configs":
		err = r.given(s, name, v)
	case "healthcheck":
		s.Health, err = r.health(v)
	case "depends_on":
		s.After = dependencies(v)
	case "networks":
		s.Networks = nil
		for _, n := range v.Items {
			s.Networks = append(s.Networks, n.Text)
		}
		for _, n := range v.Members {
			s.Networks = append(s.Networks, n.Name)
			aliases, _ := n.Value.Get("aliases")
			for _, a := range aliases.Items {
				s.Names = append(s.Names, a.Text)
			}
		}
	case "network_mode":
		if with, ok := strings.CutPrefix(v.Text, "service:"); ok {
			s.With, s.Networks = with, nil
		} else if v.Text == "none" {
			s.Networks = nil
		}
	case "hostname", "container_name":
		s.Names = append(s.Names, v.Text)
	case "expose", "ports":
		err = r.ports(s, v)
	case "mem_limit":
		s.Memory, err = r.size(v)
	case "cpus":
		s.CPUs, err = strconv.ParseFloat(brief(v), 64)
	case "pids_limit":
		s.Pids, err = strconv.ParseInt(brief(v), 10, 64)
	case "deploy":
		err = r.limits(s, v)
	case "profiles":
		for _, i := range items(v) {
			s.Profiles = append(s.Profiles, i.Text)
		}
	}
	if err == nil {
		s.Names = slices.DeleteFunc(s.Names, func(n string) bool { return !plainName(n) || reservedName(n) })
		slices.Sort(s.Names)
		s.Names = slices.Compact(s.Names)
	}
	return err
}

// plainName reports whether a name can stand in a list of hosts.
func plainName(n string) bool {
	return n != "" && len(n) <= 63 && !strings.ContainsFunc(n, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	})
}

// reservedName reports whether a name means something already: the loopback, an address,
// or, with a dot, a host of the internet that requests are judged by.
func reservedName(n string) bool {
	return strings.EqualFold(n, "localhost") || strings.Contains(n, ".") || strings.Trim(n, "0123456789") == ""
}

func (r *reader) build(v jsonc.Value) (*Build, error) {
	b := &Build{Context: r.place("."), Arguments: map[string]string{}}
	file := "Dockerfile"
	if v.Kind == jsonc.String {
		b.Context = r.place(v.Text)
	}
	for _, m := range v.Members {
		switch m.Name {
		case "context":
			b.Context = r.place(m.Value.Text)
		case "dockerfile":
			file = m.Value.Text
		case "dockerfile_inline":
			b.Inline = m.Value.Text
		case "target":
			b.Target = m.Value.Text
		case "args":
			list, err := r.pairs(m.Value)
			if err != nil {
				return nil, err
			}
			for _, p := range list {
				name, value, _ := strings.Cut(p, "=")
				b.Arguments[name] = value
			}
		}
	}
	b.Dockerfile = path.Join(b.Context, file)
	return b, nil
}

// ports are those of the inside: 5432, 8080:80, 127.0.0.1:8080:80/tcp, {target: 80}.
func (r *reader) ports(s *Service, v jsonc.Value) error {
	for _, i := range items(v) {
		text := brief(i)
		if target, ok := i.Get("target"); ok {
			text = brief(target)
		}
		text, protocol, _ := strings.Cut(text, "/")
		if protocol != "" && protocol != "tcp" {
			continue // between cloisters there is TCP alone
		}
		text = text[strings.LastIndexByte(text, ':')+1:]
		first, last, ranged := strings.Cut(text, "-")
		if !ranged {
			last = first
		}
		a, err := strconv.ParseUint(first, 10, 16)
		b, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil || a == 0 || b < a || b-a > 100 {
			return r.bad(i, "%q is no port", brief(i))
		}
		for p := a; p <= b; p++ {
			if !slices.Contains(s.Ports, uint16(p)) {
				s.Ports = append(s.Ports, uint16(p))
			}
		}
	}
	return nil
}

// limits are those of deploy.resources.limits.
func (r *reader) limits(s *Service, v jsonc.Value) (err error) {
	resources, _ := v.Get("resources")
	limits, _ := resources.Get("limits")
	for _, m := range limits.Members {
		switch m.Name {
		case "memory":
			s.Memory, err = r.size(m.Value)
		case "cpus":
			s.CPUs, err = strconv.ParseFloat(brief(m.Value), 64)
		case "pids":
			s.Pids, err = strconv.ParseInt(brief(m.Value), 10, 64)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) health(v jsonc.Value) (*Health, error) {
	h := &Health{Interval: 30 * time.Second, Timeout: 30 * time.Second, Retries: 3}
	if off, ok := v.Get("disable"); ok && off.Bool {
		return h, nil
	}
	for _, m := range v.Members {
		var err error
		switch m.Name {
		case "test":
			h.Test, err = r.test(m.Value)
		case "interval":
			h.Interval, err = r.duration(m.Value)
		case "timeout":
			h.Timeout, err = r.duration(m.Value)
		case "start_period":
			h.StartDelay, err = r.duration(m.Value)
		case "retries":
			h.Retries, err = strconv.Atoi(brief(m.Value))
		}
		if err != nil {
			return nil, r.bad(m.Value, "%s: %v", m.Name, err)
		}
	}
	return h, nil
}

// test is the command by which a service says that it is well.
func (r *reader) test(v jsonc.Value) ([]string, error) {
	if v.Kind == jsonc.String {
		return []string{"/bin/sh", "-c", v.Text}, nil
	}
	list, err := r.line(v)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	switch list[0] {
	case "NONE":
		return nil, nil
	case "CMD":
		return list[1:], nil
	case "CMD-SHELL":
		return []string{"/bin/sh", "-c", strings.Join(list[1:], " ")}, nil
	}
	return nil, r.bad(v, "a test begins with CMD, CMD-SHELL or NONE")
}

func dependencies(v jsonc.Value) []Dependency {
	var out []Dependency
	for _, i := range v.Items {
		out = append(out, Dependency{Service: i.Text, Condition: Started})
	}
	for _, m := range v.Members {
		d := Dependency{Service: m.Name, Condition: Started}
		if c, ok := m.Value.Get("condition"); ok {
			d.Condition = c.Text
		}
		if q, ok := m.Value.Get("required"); ok {
			d.Optional = q.Kind == jsonc.Bool && !q.Bool
		}
		out = append(out, d)
	}
	return out
}
