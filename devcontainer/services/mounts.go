package services

import (
	"path"
	"slices"
	"strings"

	"cloister/devcontainer/jsonc"
)

func (r *reader) mounts(s *Service, v jsonc.Value) error {
	if err := r.list(v); err != nil {
		return err
	}
	for _, i := range v.Items {
		m, err := r.mount(i)
		if err != nil {
			return err
		}
		if m.Kind == OfVolume && (strings.HasPrefix(m.Source, ".") || strings.Contains(m.Source, "/")) {
			return r.bad(i, "a volume's name is letters, digits, _, . and -")
		}
		if !path.IsAbs(m.Target) || path.Clean(m.Target) == "/" {
			return r.bad(i, "a mount's target is an absolute path in the service")
		}
		m.Target = path.Clean(m.Target)
		s.Mounts = slices.DeleteFunc(s.Mounts, func(o Mount) bool { return o.Target == m.Target })
		s.Mounts = append(s.Mounts, m)
	}
	return nil
}

// list refuses what is no list. Two files' lists stand one after the other, each item as it
// was judged; two mappings would come to one that was never judged.
func (r *reader) list(v jsonc.Value) error {
	if v.Kind != jsonc.Array && v.Kind != jsonc.Null {
		return r.bad(v, "it is %s, and must be a list", v.Kind)
	}
	return nil
}

// mount reads compose's short or long form, as the judge did.
func (r *reader) mount(v jsonc.Value) (Mount, error) {
	m := Mount{Kind: OfVolume}
	if v.Kind == jsonc.Object {
		kind, _ := v.Get("type")
		source, _ := v.Get("source")
		target, _ := v.Get("target")
		only, _ := v.Get("read_only")
		m.Kind, m.Source, m.Target, m.ReadOnly = kind.Text, source.Text, target.Text, only.Bool
		if m.Kind == "bind" {
			m.Kind, m.Source = OfProject, r.place(source.Text)
		}
		return m, nil
	}
	text, err := r.text(v)
	if err != nil {
		return m, err
	}
	parts := strings.SplitN(text, ":", 3)
	m.Target = parts[0]
	if len(parts) > 1 {
		m.Source, m.Target = parts[0], parts[1]
	}
	if len(parts) > 2 {
		m.ReadOnly = slices.Contains(strings.Split(parts[2], ","), "ro")
	}
	if m.Source != "" && strings.ContainsAny(m.Source[:1], "/.") {
		m.Kind, m.Source = OfProject, r.place(m.Source)
	}
	return m, nil
}

// given are secrets and configs: files of the project at a place of their own.
func (r *reader) given(s *Service, kind string, v jsonc.Value) error {
	if err := r.list(v); err != nil {
		return err
	}
	for _, i := range v.Items {
		name, target := i.Text, ""
		if i.Kind == jsonc.Object {
			source, _ := i.Get("source")
			to, _ := i.Get("target")
			name, target = source.Text, to.Text
		}
		file, ok := r.files[kind+"."+name]
		if !ok {
			return r.bad(i, "no %s of the name %q is a file of the project", strings.TrimSuffix(kind, "s"), name)
		}
		base := map[string]string{"secrets": "/run/secrets", "configs": "/"}[kind]
		if target == "" {
			if !plainName(name) || name[0] == '.' {
				return r.bad(i, "%q is no name of a file", name)
			}
			target = name
		}
		if !path.IsAbs(target) {
			target = path.Join(base, target)
		}
		s.Mounts = append(s.Mounts, Mount{Kind: OfProject, Source: r.place(file), Target: path.Clean(target), ReadOnly: true})
	}
	return nil
}

// place is a path of the files, from the project's top.
func (r *reader) place(named string) string {
	if path.IsAbs(named) {
		return strings.TrimPrefix(strings.TrimPrefix(path.Clean(named), r.Project), "/")
	}
	return path.Join(r.Dir, named)
}
