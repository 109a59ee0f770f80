package devcontainer

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"cloister/devcontainer/metadata"
	"cloister/devcontainer/services"
)

func args(merged map[string]any) []string {
	var out []string
	list, _ := merged["runArgs"].([]any)
	for _, a := range list {
		if text, ok := a.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

func (e *Effective) ports(merged map[string]any) {
	list, _ := merged["forwardPorts"].([]any)
	switch app := merged["appPort"].(type) {
	case []any:
		list = append(slices.Clone(list), app...)
	case nil:
	default:
		list = append(slices.Clone(list), app)
	}
	for _, p := range list {
		text := fmt.Sprint(p)
		host, inside, two := strings.Cut(text, ":")
		if two && host != "localhost" && host != inside {
			continue // a service's, or another number on this machine: a person's -p
		} else if !two {
			inside = host
		}
		n, err := strconv.ParseUint(inside, 10, 16)
		if err == nil && n >= 1024 && !slices.Contains(e.Ports, uint16(n)) {
			e.Ports = append(e.Ports, uint16(n))
		}
	}
}

// arguments are the limits among runArgs, in docker's spelling.
func (e *Effective) arguments(merged map[string]any) {
	for _, arg := range args(merged) {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "--memory":
			value = strings.ToLower(strings.TrimSuffix(strings.ToLower(value), "b"))
			if value != "" && strings.ContainsAny(value[len(value)-1:], "kmgt") {
				value += "b"
			}
			e.Memory = metadata.Size(value)
		case "--cpus":
			e.CPUs, _ = strconv.ParseFloat(value, 64)
		case "--pids-limit":
			e.Pids, _ = strconv.ParseInt(value, 10, 64)
		case "--network", "--net":
			e.NoNetwork = e.NoNetwork || value == "none"
		}
	}
	e.CPUs, e.Pids = max(0, e.CPUs), max(0, e.Pids)
}

// places are where the project and the volumes are found inside, besides their own.
func (e *Effective) places(d *Devcontainer, merged map[string]any) {
	add := func(at string) {
		if at = path.Clean(at); at != d.project && !strings.HasPrefix(at, d.project+"/") && !slices.Contains(e.Folders, at) {
			e.Folders = append(e.Folders, at)
		}
	}
	_, said := d.text.Get("workspaceFolder")
	_, kept := d.Config["workspaceFolder"]
	if kept || !said && d.Kind != OfCompose {
		add(d.WorkspaceFolder)
	}
	if own := d.Own(); own != nil {
		for _, m := range own.Mounts {
			if m.Kind == services.OfProject && m.Source == "." {
				add(m.Target)
			}
		}
	}
	list, _ := merged["mounts"].([]any)
	for _, m := range list {
		f := metadata.ReadMount(m)
		switch {
		case f["type"] == "volume":
			e.Volumes = append(e.Volumes, Volume{f["source"], path.Clean(f["target"])})
		case f["type"] != "tmpfs" && path.Clean(f["source"]) == d.project:
			add(f["target"])
		}
	}
}

func float(v any) float64 {
	n, ok := v.(json.Number)
	if !ok {
		return 0
	}
	f, err := n.Float64()
	if err != nil {
		return 0
	}
	return f
}
