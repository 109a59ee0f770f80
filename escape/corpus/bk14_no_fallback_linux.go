package corpus

import (
	"maps"
	"slices"
	"strings"

	"cloister/escape"
)

// probed are the layers that the containment probe looks at. Policy and commands are no part of
// the enclosure: what cannot be evaluated denies (PO-01). On gVisor the process that looks becomes
// gVisor, with filters of its own, so that it looks at the network alone.
func probed(column escape.Column) []escape.Layer {
	if column == escape.GVisor {
		return []escape.Layer{escape.Net}
	}
	return slices.DeleteFunc(escape.Native.Layers(), func(l escape.Layer) bool { return l == escape.Policy || l == escape.Commands })
}

func bk14() escape.Case {
	return escape.Case{
		ID: "BK-14", Class: "no silent fallback", Attack: "ask for an isolation that is not there; leave out each layer while the containment probe looks: it does not start and says which",
		Source: "claude-code 2.1.92; Leash (allow on a failed read)", Layers: []string{"no start"},
		Host: func(w *escape.World) []escape.Finding {
			mark := w.Project + "/ran-bk14"
			defer clean(mark)
			var out []escape.Finding
			for _, name := range []string{"nonsense", "none", "host", ""} {
				flags := []string{"--isolation=" + name}
				if name == "" {
					flags = []string{"--accept", "residue:everything"}
				}
				res := w.Outcome(flags, "touch", mark)
				out = append(out, found(strings.Join(flags, " ")+" is refused", (res.Status == 2 || res.Status == 125) && !exists(mark), "status %d: %s", res.Status, res.Stderr))
			}
			if w.Kind.Column() == escape.Docker {
				// Layers are left out in the native driver alone; here the engine can be.
				engine := w.Env["DOCKER_HOST"]
				w.Env["DOCKER_HOST"] = "unix://" + w.Base + "/no-engine"
				res := w.Outcome(nil, "touch", mark)
				w.Env["DOCKER_HOST"] = engine
				out = append(out, found("without an engine nothing else is taken instead", res.Status == 125 && strings.Contains(res.Stderr, "no engine") && !exists(mark), "status %d: %s", res.Status, res.Stderr))
				res = w.Outcome(nil, "touch", mark)
				return append(out, found("control: with it the command runs", res.Status == 0 && exists(mark), "status %d: %s", res.Status, res.Stderr))
			}
			if w.Off == "" {
				return append(out, found("the build with cloister_layeroff", false, "it was not given: -off"))
			}
			normal, extra := w.Cloister, maps.Clone(w.Extra)
			w.Cloister = w.Off
			defer func() { w.Cloister, w.Extra = normal, extra }()
			for _, left := range probed(w.Kind.Column()) {
				layer := string(left)
				w.Extra = maps.Clone(extra)
				w.Extra["CLOISTER_LAYER_OFF"], w.Extra["CLOISTER_LAYER_PROBE"] = layer, "1"
				res := w.Outcome(nil, "touch", mark)
				out = append(out, found("without "+layer+" the probe ends the start", res.Status == 125 && strings.Contains(res.Stderr, "probe: ") && !exists(mark), "status %d: %s", res.Status, res.Stderr))
				delete(w.Extra, "CLOISTER_LAYER_PROBE")
				res = w.Outcome(nil, "true")
				out = append(out, found("control: with the probe of "+layer+" off it starts", res.Status == 0, "status %d: %s", res.Status, res.Stderr))
			}
			return out
		},
	}
}
