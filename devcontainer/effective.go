package devcontainer

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"cloister/devcontainer/demand"
	"cloister/devcontainer/jsonc"
	"cloister/devcontainer/lifecycle"
	"cloister/devcontainer/metadata"
	"cloister/devcontainer/variables"
)

// Image is what an image says besides its files.
type Image struct {
	Env   []string
	Label string // the one by the name metadata.Label
	// Built says that the devcontainer's features are in it, and in the label.
	Built bool
}

// Volume is a place inside that leads to a folder of the project's private home.
type Volume struct{ Name, Target string }

// Effective is what a cloister gets of a devcontainer on one image.
type Effective struct {
	Env  []string // NAME=VALUE, in order
	Path []string // folders of PATH, where the devcontainer has a word about it
	// Ports are those of the inside to be reached from this machine.
	Ports     []uint16
	Memory    float64 // bytes; 0 where none is asked for
	CPUs      float64
	Pids      int64
	NoNetwork bool
	// Folders are paths inside that lead to the project.
	Folders []string
	Volumes []Volume
	// Narrowed is what customizations.cloister says, as a .cloister.yaml.
	Narrowed []byte
	// NeedCPUs is how many processors hostRequirements asks for.
	NeedCPUs  float64
	Lifecycle lifecycle.Plan
	Merged    map[string]any
	// Findings are the judgement of the image's label.
	Findings []demand.Finding
}

// On is what a cloister on an image gets.
func (d *Devcontainer) On(o Options, image Image) (Effective, error) {
	var e Effective
	entries, err := d.labelled(o, image.Label, &e)
	if err != nil {
		return e, err
	}
	if !image.Built {
		entries = append(entries, d.locals...)
	}
	merged := d.Merged(entries)
	known := map[string]string{}
	for _, v := range image.Env {
		name, value, _ := strings.Cut(v, "=")
		if why := demand.Variable(name, o.Reserved); why != "" && !slices.Contains(standing, name) {
			e.Findings = append(e.Findings, demand.Finding{Key: "ENV " + name, File: "image", Value: value,
				Outcome: demand.Refused, Reason: why})
			continue
		}
		known[name] = value
	}
	own, err := d.ownEnvironment(o.Hidden)
	if err != nil {
		return e, fmt.Errorf("read %s: %w", d.File, err)
	}
	for _, v := range own {
		name, value, _ := strings.Cut(v, "=")
		if why := demand.Variable(name, o.Reserved); why != "" {
			key := "services." + d.Agent + ".environment." + name
			e.Findings = append(e.Findings, demand.Finding{Key: key, File: d.Own().File, Line: d.Own().Line,
				Value: value, Outcome: demand.Refused, Reason: why})
			continue
		}
		known[name] = value
	}
	container := variables.Set{ContainerEnv: func(n string) (string, bool) { v, ok := known[n]; return v, ok }}
	if err := e.environment(merged, container, known); err != nil {
		return e, fmt.Errorf("read %s: %w", d.File, err)
	}
	if merged, err = replaceAll(container, merged); err != nil {
		return e, fmt.Errorf("read %s: %w", d.File, err)
	}
	e.Merged = merged
	e.ports(merged)
	e.arguments(merged)
	e.places(d, merged)
	if r, ok := merged["hostRequirements"].(map[string]any); ok {
		e.NeedCPUs = float(r["cpus"])
	}
	if own, ok := d.Config["customizations"].(map[string]any); ok && own["cloister"] != nil {
		if e.Narrowed, err = json.Marshal(own["cloister"]); err != nil {
			return e, fmt.Errorf("read %s: %w", d.File, err)
		}
	}
	once := strings.TrimPrefix(d.Digest, "sha256:")
	e.Lifecycle = lifecycle.Plan{Config: merged, Folder: d.folder(), Once: once[:min(24, len(once))]}
	for _, v := range e.Volumes {
		e.Lifecycle.Volumes = append(e.Lifecycle.Volumes, v.Name)
	}
	return e, nil
}

// standing are variables that every cloister has of its own; that an image has them too
// is no demand.
var standing = []string{"HOME", "USER", "LOGNAME", "HOSTNAME", "SHELL", "TERM"}

// folder is where commands begin: the workspace folder, where it is the project or a
// folder of it.
func (d *Devcontainer) folder() string {
	if f, ok := d.Config["workspaceFolder"].(string); ok && (f == d.project || strings.HasPrefix(f, d.project+"/")) {
		return f
	}
	return d.project
}

// Entries are what an image's label says, unjudged, variables replaced.
func (d *Devcontainer) Entries(label string) ([]metadata.Entry, error) {
	list, err := metadata.OfLabel(label)
	if err != nil {
		return nil, err
	}
	for n := range list {
		if list[n], err = replaceAll(d.vars, list[n]); err != nil {
			return nil, fmt.Errorf("read the image's label: %w", err)
		}
	}
	return list, nil
}

// labelled judges the image's label and gives its entries.
func (d *Devcontainer) labelled(o Options, label string, e *Effective) ([]metadata.Entry, error) {
	if label == "" {
		return nil, nil
	}
	const name = "label " + metadata.Label
	v, err := jsonc.Parse(name, []byte(label))
	if err != nil {
		return nil, err
	}
	list := []jsonc.Value{v}
	if v.Kind == jsonc.Array {
		list = v.Items
	}
	var out []metadata.Entry
	for _, item := range list {
		res, err := demand.Judge(d.input(o, demand.Label, name, item))
		if err != nil {
			return nil, err
		}
		e.Findings = append(e.Findings, res.Findings...)
		out = append(out, res.Config)
	}
	return out, nil
}

func replaceAll(s variables.Set, config map[string]any) (map[string]any, error) {
	v, err := s.Replace(config)
	if err != nil {
		return nil, err
	}
	out, _ := v.(map[string]any)
	return out, nil
}

// environment are the image's variables, those of the devcontainer's container, and
// over both those of its commands. One that is null is not set.
func (e *Effective) environment(merged map[string]any, container variables.Set, image map[string]string) error {
	all := maps.Clone(image)
	for _, arg := range args(merged) {
		if pair, ok := strings.CutPrefix(arg, "--env="); ok {
			name, value, _ := strings.Cut(pair, "=")
			all[name] = value
		}
	}
	for _, key := range []string{"containerEnv", "remoteEnv"} {
		set, _ := merged[key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(set)) {
			text, ok := set[name].(string)
			if !ok {
				delete(all, name)
				continue
			}
			value, err := container.Text(text)
			if err != nil {
				return err
			}
			all[name] = value
		}
		maps.Copy(image, all) // remoteEnv may name what containerEnv sets
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch name {
		case "PATH":
			for dir := range strings.SplitSeq(all[name], ":") {
				if path.IsAbs(dir) && path.Clean(dir) == dir {
					e.Path = append(e.Path, dir)
				}
			}
		default:
			if !slices.Contains(standing, name) {
				e.Env = append(e.Env, name+"="+all[name])
			}
		}
	}
	return nil
}
