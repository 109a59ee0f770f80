package corpus

import (
	"os"
	"regexp"
	"strings"

	"cloister/escape"
)

func po02() escape.Case {
	return escape.Case{
		ID: "PO-02", Class: "load-time validation", Attack: "policies and configuration with a wrong action, type, attribute or key, broken text, a BOM, too large: refused with the place",
		Source: "OpenShell (validated at load)", Layers: []string{"loader"},
		Host: func(w *escape.World) []escape.Finding {
			place := regexp.MustCompile(`:\d+`)
			var out []escape.Finding
			file := w.Base + "/po02.cedar"
			mark := w.Project + "/ran-po02"
			defer clean(file, mark)
			for name, text := range map[string]string{
				"a wrong action":    "permit (principal, action == Action::\"NetworkConect\", resource);\n",
				"a wrong type":      "forbid (principal, action == Action::\"NetworkConnect\", resource == Hots::\"evil.test\");\n",
				"a wrong attribute": "forbid (principal, action == Action::\"NetworkConnect\", resource) when { resource.nmae == \"x\" };\n",
				"broken text":       "forbid (principal, action, resource\n",
				"not text at all":   "\x00\x01\x02\xff",
				"a type error":      "forbid (principal, action == Action::\"NetworkConnect\", resource) when { context.port == \"443\" };\n",
			} {
				if err := w.Write(file, text); err != nil {
					return escape.NoHost("write a policy", err)
				}
				res := w.Outcome([]string{"--policy", file}, "touch", mark)
				out = append(out, found("Cedar: "+name, res.Status != 0 && place.MatchString(res.Stderr) && !exists(mark), "status %d: %s", res.Status, res.Stderr))
			}
			if err := w.Write(file, strings.Repeat("// filler filler filler filler filler filler filler\n", 1<<20)); err != nil {
				return escape.NoHost("write a policy", err)
			}
			res := w.Outcome([]string{"--policy", file}, "touch", mark)
			out = append(out, found("Cedar: 50 MiB", res.Status != 0 && !exists(mark), "status %d: %.300s", res.Status, res.Stderr))
			return append(out, configs02(w, place, mark)...)
		},
	}
}

// configs02 tries configuration that must not load.
func configs02(w *escape.World, place *regexp.Regexp, mark string) []escape.Finding {
	config := w.Base + "/config/cloister/config.yaml"
	good, err := os.ReadFile(config)
	if err != nil {
		return escape.NoHost("read the configuration", err)
	}
	var out []escape.Finding
	for name, text := range map[string]string{
		"an unknown key":     "version: 1\nproxy:\n  alow:\n    - domain: x.test\n",
		"a wrong type":       "version: 1\nproxy:\n  allow: yes\n",
		"a broad pattern":    "version: 1\nproxy:\n  allow:\n    - domain: \"*\"\n",
		"a broad suffix":     "version: 1\nproxy:\n  allow:\n    - domain: \"*.test\"\n",
		"two documents":      "version: 1\n---\nversion: 1\nproxy: {allow: [{domain: x.test}]}\n",
		"the same key twice": "version: 1\nproxy: {allow: []}\nproxy: {allow: [{domain: x.test}]}\n",
		"broken text":        "version: 1\nproxy: [\n",
		"another version":    "version: 99\n",
	} {
		if err := w.Write(config, text); err != nil {
			return escape.NoHost("write the configuration", err)
		}
		res := w.Outcome(nil, "touch", mark)
		out = append(out, found("YAML: "+name, res.Status != 0 && place.MatchString(res.Stderr) && !exists(mark), "status %d: %s", res.Status, res.Stderr))
		clean(mark)
	}
	if err := w.Write(config, string(good)); err != nil {
		return escape.NoHost("restore the configuration", err)
	}
	res := w.Outcome(nil, "touch", mark)
	return append(out, found("control: the good one loads", res.Status == 0 && exists(mark), "status %d: %s", res.Status, res.Stderr))
}
