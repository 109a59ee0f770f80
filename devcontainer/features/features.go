// Package features puts the features of a devcontainer on top of an image: in which order,
// with which variables, as the text of a definition and the files beside it.
//
// The promise: a feature's files are data here, and none of them is run; its script runs
// in a step of a build, whose network is the guardian's. What is not a regular file of
// the feature's own folder is not taken. A feature of a registry is what its digest says,
// read by [Packed.Files] from bytes that were fetched elsewhere. The room fetches nothing.
//
// Most readers want [Definition].
package features

import (
	"archive/tar"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloister/internal/shellword"
)

// File is a file of a feature, by its place in the feature's folder.
type File struct {
	Name       string
	Text       []byte
	Executable bool
}

// Feature is one that is installed.
type Feature struct {
	// ID is what the devcontainer calls it: ./FOLDER, or REGISTRY/PATH:VERSION.
	ID    string
	Files []File
	// Options are what the devcontainer gives it: a version, or an object of options.
	Options any
	// Declared is its devcontainer-feature.json.
	Declared map[string]any
	// Env are the variables that every later step and the cloister have.
	Env map[string]string
}

// Find is the text of one of a feature's files.
func (f *Feature) Find(name string) ([]byte, bool) {
	i := slices.IndexFunc(f.Files, func(one File) bool { return one.Name == name })
	if i < 0 {
		return nil, false
	}
	return f.Files[i].Text, true
}

// Needs are the features that must be there before this one (dependsOn), with options.
func (f *Feature) Needs() map[string]any {
	needs, _ := f.Declared["dependsOn"].(map[string]any)
	return needs
}

// Order is the order of installation, as the specification has it: rounds of those whose
// dependsOn and installsAfter are over; among those, overrideFeatureInstallOrder decides,
// then the name.
func Order(list []Feature, override []string) ([]Feature, error) {
	rest := slices.Clone(list)
	priority := func(f Feature) int {
		i := slices.IndexFunc(override, func(id string) bool { return slices.Contains(f.names(), bare(id)) })
		if i < 0 {
			return 0
		}
		return len(override) - i
	}
	var out []Feature
	for len(rest) > 0 {
		var round []Feature
		for _, f := range rest {
			if !waits(f, rest) {
				round = append(round, f)
			}
		}
		if len(round) == 0 {
			var names []string
			for _, f := range rest {
				names = append(names, f.ID)
			}
			return nil, fmt.Errorf("features wait for each other: %s", strings.Join(names, ", "))
		}
		most := 0
		for _, f := range round {
			most = max(most, priority(f))
		}
		round = slices.DeleteFunc(round, func(f Feature) bool { return priority(f) < most })
		slices.SortFunc(round, func(a, b Feature) int { return strings.Compare(a.ID, b.ID) })
		out = append(out, round...)
		rest = slices.DeleteFunc(rest, func(f Feature) bool {
			return slices.ContainsFunc(round, func(done Feature) bool { return done.ID == f.ID })
		})
	}
	return out, nil
}

// waits reports whether a feature is installed after one of those that are left.
func waits(f Feature, rest []Feature) bool {
	first := before(f)
	return slices.ContainsFunc(rest, func(other Feature) bool {
		isFirst := func(name string) bool { return slices.Contains(first, name) }
		return other.ID != f.ID && slices.ContainsFunc(other.names(), isFirst)
	})
}

// names are those by which other features and the devcontainer know one, without a
// version: its own, and its older ones of the same source.
func (f *Feature) names() []string {
	name := bare(f.ID)
	out := []string{name}
	older, _ := f.Declared["legacyIds"].([]any)
	for _, id := range older {
		if text, ok := id.(string); ok && strings.Contains(name, "/") {
			out = append(out, name[:strings.LastIndex(name, "/")+1]+text)
		}
	}
	return out
}

// before are the names of what a feature is installed after.
func before(f Feature) []string {
	var out []string
	for id := range f.Needs() {
		out = append(out, bare(id))
	}
	list, _ := f.Declared["installsAfter"].([]any)
	for _, id := range list {
		if text, ok := id.(string); ok {
			out = append(out, bare(text))
		}
	}
	return out
}

// variable is the name of the variable that an option is given by.
func variable(option string) string {
	name := strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, option)
	if rest := strings.TrimLeft(name, "0123456789_"); rest != name {
		name = "_" + rest
	}
	return strings.ToUpper(name)
}

// Variables are those of a feature's script, NAME=VALUE: its options, with what it
// declares for those that the devcontainer leaves out.
func (f *Feature) Variables() []string {
	values := map[string]any{}
	declared, _ := f.Declared["options"].(map[string]any)
	for name, o := range declared {
		if option, ok := o.(map[string]any); ok && option["default"] != nil {
			values[name] = option["default"]
		}
	}
	switch given := f.Options.(type) {
	case string:
		values["version"] = given
	case map[string]any:
		maps.Copy(values, given)
	}
	out := []string{"_REMOTE_USER=root", "_REMOTE_USER_HOME=/root", "_CONTAINER_USER=root", "_CONTAINER_USER_HOME=/root"}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, variable(name)+"="+fmt.Sprint(values[name]))
	}
	return out
}

// folder is where the files of the nth feature lie beside the definition.
func folder(n int) string { return fmt.Sprintf("feature-%d", n) }

// Definition is the text that installs features, in their order, on an image.
func Definition(image string, list []Feature) ([]byte, error) {
	var b strings.Builder
	b.WriteString("FROM " + image + "\nUSER root\n")
	for n, f := range list {
		if _, ok := f.Find("install.sh"); !ok {
			return nil, fmt.Errorf("feature %s has no install.sh", f.ID)
		}
		at := "/tmp/.cloister-features/" + folder(n)
		for _, name := range slices.Sorted(maps.Keys(f.Env)) {
			if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return nil, fmt.Errorf("feature %s: %q is no variable's name", f.ID, name)
			}
			b.WriteString("ENV " + name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ").Replace(f.Env[name]) +
				"\"\n")
		}
		words := shellword.Line(append([]string{"env"}, f.Variables()...)...)
		if strings.ContainsAny(words, "\n\r") {
			return nil, fmt.Errorf("feature %s: an option has more than one line", f.ID)
		}
		b.WriteString("COPY " + folder(n) + " " + at + "\n")
		b.WriteString("RUN cd " + at + " && chmod +x install.sh && " + words + " ./install.sh && rm -rf " + at + "\n")
	}
	return []byte(b.String()), nil
}

// Write writes the files beside the definition.
func Write(t *tar.Writer, list []Feature) error {
	for n, f := range list {
		for _, one := range f.Files {
			mode := int64(0o644)
			if one.Executable {
				mode = 0o755
			}
			err := t.WriteHeader(&tar.Header{Name: folder(n) + "/" + one.Name, Mode: mode, Size: int64(len(one.Text))})
			if err == nil {
				_, err = t.Write(one.Text)
			}
			if err != nil {
				return fmt.Errorf("give feature %s to the build: %w", f.ID, err)
			}
		}
	}
	return nil
}
