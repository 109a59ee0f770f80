package config

import (
	"bytes"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cloister/internal/authority"
	"cloister/internal/nearest"
)

//go:embed presets/*.yaml
var presetFiles embed.FS

// Preset is a built-in list of allowed destinations. One with a Form is for one
// tenant of a host that many share, and named with that: github-org:acme.
type Preset struct {
	Name        string `json:"-"`
	Description string `json:"description"`
	// Form is what stands after the colon, in a person's words; Pattern what it
	// may be. Its groups are put in the place of <GROUP> in the rules.
	Form    string `json:"form"`
	Pattern string `json:"pattern"`
	Allow   []Rule `json:"allow"`
}

// Usage is how the preset is named in proxy.presets.
func (p Preset) Usage() string {
	if p.Form == "" {
		return p.Name
	}
	return p.Name + ":" + p.Form
}

// PresetNames lists the presets by name, sorted.
func PresetNames() []string { return named(presetFiles, "presets") }

// named are the data files of a folder by name, sorted.
func named(files embed.FS, dir string) []string {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return nil // the folder is part of the binary
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// isWholePreset reports whether a name is a preset's that is for no one in
// particular. It parses nothing: every start asks.
func isWholePreset(name string) bool {
	text, err := presetFiles.ReadFile(presetFile(name))
	return err == nil && !bytes.Contains(text, []byte("\nform:"))
}

// presetUsages are the presets as a person names them.
func presetUsages() string {
	var out []string
	for _, name := range PresetNames() {
		p, err := readPreset(name)
		if err == nil {
			name = p.Usage()
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}

// A presetError is a name of proxy.presets that stands for nothing.
type presetError struct{ msg, hint string }

func (e *presetError) Error() string { return e.msg + "; " + e.hint }

// LoadPreset reads one built-in preset, for its tenant where it has one. Places in
// it name the file presets/NAME.yaml, as it lies in the source.
func LoadPreset(name string) (Preset, error) {
	base, tenant, hasTenant := strings.Cut(name, ":")
	p, err := readPreset(base)
	switch {
	case err != nil:
		return Preset{}, err
	case p.Form == "" && hasTenant:
		return Preset{}, &presetError{fmt.Sprintf("the preset %s takes nothing behind a colon", base), "write " + base}
	case p.Form == "":
		r := newReader(presetFile(base))
		text, _ := presetFiles.ReadFile(presetFile(base)) // it was read just now
		err = p.check(r, text)
		return p, err
	case !hasTenant:
		return Preset{}, &presetError{fmt.Sprintf("the preset %s is for one tenant", base), "write " + p.Usage()}
	}
	return p.of(tenant)
}

func presetFile(name string) string { return "presets/" + name + ".yaml" }

// readPreset reads a preset as it is written, without a look at its rules.
func readPreset(name string) (Preset, error) {
	text, err := presetFiles.ReadFile(presetFile(name)) // embed refuses a name with ".."
	if err != nil {
		hint := "the presets are " + presetUsages()
		if near := nearest.Word(name, PresetNames()); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return Preset{}, &presetError{fmt.Sprintf("there is no preset %q", name), hint}
	}
	p := Preset{Name: name}
	r := newReader(presetFile(name))
	r.decode(text, &p)
	return p, r.err()
}

// of is the preset for one tenant.
func (p Preset) of(tenant string) (Preset, error) {
	pattern, err := regexp.Compile("^(?:" + p.Pattern + ")$")
	if err != nil {
		return Preset{}, fmt.Errorf("read preset %q: %w", p.Name, err)
	}
	found := pattern.FindStringSubmatch(tenant)
	if found == nil {
		return Preset{}, &presetError{fmt.Sprintf("the preset %s cannot be for %q", p.Name, tenant), "write " + p.Usage()}
	}
	var words []string
	for i, group := range pattern.SubexpNames() {
		if group != "" {
			words = append(words, "<"+group+">", found[i])
		}
	}
	file := presetFile(p.Name)
	text, err := presetFiles.ReadFile(file)
	if err != nil {
		return Preset{}, fmt.Errorf("read preset %q: %w", p.Name, err)
	}
	err = p.check(newReader(file), []byte(strings.NewReplacer(words...).Replace(string(text))))
	return p, err
}

// check reads the rules of a text anew, and looks at them.
func (p *Preset) check(r *reader, text []byte) error {
	full := Preset{}
	r.decode(text, &full)
	r.rules(full.Allow, "allow", authority.ParsePattern)
	p.Allow = full.Allow
	return r.err()
}
