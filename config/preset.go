package config

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"cloister/internal/authority"
)

//go:embed presets/*.yaml
var presetFiles embed.FS

// Preset is a built-in list of allowed destinations.
type Preset struct {
	Name        string `json:"-"`
	Description string `json:"description"`
	Allow       []Rule `json:"allow"`
}

// PresetNames lists the presets by name, sorted.
func PresetNames() []string {
	entries, err := presetFiles.ReadDir("presets")
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

// LoadPreset reads one built-in preset. Places in it name the file
// presets/NAME.yaml, as it lies in the source.
func LoadPreset(name string) (Preset, error) {
	file := "presets/" + name + ".yaml"
	text, err := presetFiles.ReadFile(file) // embed refuses a name with ".."
	if err != nil {
		return Preset{}, fmt.Errorf("read preset %q: there is none of that name; the presets are %s", name, strings.Join(PresetNames(), ", "))
	}
	p := Preset{Name: name}
	r := newReader(file)
	r.decode(text, &p)
	r.rules(p.Allow, "allow", authority.ParsePattern)
	return p, r.err()
}
