package realtest

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloister/audit"
	"cloister/internal/needs"
)

// levels give a world what a level needs besides the agent, which images have in themselves.
var levels = map[string]func(w *world, agent string){
	"native": func(w *world, agent string) { w.agent(agent) },
	"user": func(w *world, agent string) {
		if os.Geteuid() == 0 {
			w.t.Skip("what root starts is native: root has no need of another account")
		}
		w.agent(agent)
	},
	"docker": func(w *world, _ string) {
		w.contained(engineOf(w.t))
		w.args = append(w.args, "--image", "cloister-base")
	},
	"gvisor": func(w *world, agent string) {
		w.agent(agent)
		w.env["PATH"] += ":" + folderOf(w.t, "CLOISTER_GVISOR", "the folder of cloister-gvisor")
	},
	"microvm": func(w *world, agent string) {
		w.agent(agent)
		w.within = time.Hour // emulated
		kernel := folderOf(w.t, "CLOISTER_MICROVM", "the folder microvm of a data folder after setup microvm")
		if err := os.CopyFS(filepath.Join(w.folder("data/cloister"), "microvm"), os.DirFS(kernel)); err != nil {
			w.t.Fatal(err)
		}
		w.args = append(w.args, "--accept", "residue:microvm-emulated")
	},
}

func folderOf(t *testing.T, key, what string) string {
	t.Helper()
	folder := os.Getenv(key)
	if folder == "" {
		needs.Missing(t, strings.ToLower(strings.TrimPrefix(key, "CLOISTER_")), errors.New(key+" does not name "+what))
	}
	return folder
}

// TestAgentsByLevel tells the same story of the same agents on each level that CLOISTER_LEVELS
// names: they find a fault, mend it, commit, look around, and all that came of it is looked at. The record
// of each has the shape of the native one. CLOISTER_LEVELS_TO is a file that gets a row for each.
func TestAgentsByLevel(t *testing.T) {
	names := strings.Fields(os.Getenv("CLOISTER_LEVELS"))
	if len(names) == 0 {
		t.Skip("two agents on each level, some of which take minutes: CLOISTER_LEVELS names them")
	}
	native := map[string][]string{}
	for _, name := range names {
		ready := levels[name]
		if ready == nil {
			t.Fatalf("CLOISTER_LEVELS: there is no %q", name)
		}
		for agent, story := range map[string]func(w *world){
			"claude": func(w *world) { w.fixedByClaude() },
			"codex":  (*world).fixedByCodex,
		} {
			t.Run("group", func(t *testing.T) {
				t.Run(name+"/"+agent, func(t *testing.T) {
					w := newWorld(t)
					w.args = []string{"--isolation", name}
					ready(w, agent)
					story(w)
					w.isolatedBy(name)
					if t.Failed() {
						return
					}
					if shape := w.shape(); name == "native" {
						native[agent] = shape
					} else if want := slices.Clone(native[agent]); want != nil {
						if slices.Contains(w.args, "--accept") { // a person's word is recorded
							want = append(want, "residue.accepted accept  allow :0 ")
							slices.Sort(want)
						}
						if diff := cmp.Diff(want, shape); diff != "" {
							t.Errorf("the record has another shape than the native one (-native +%s):\n%s", name, diff)
						}
					}
					row(t, name, agent, w.took)
				})
			})
		}
	}
}

// isolatedBy fails where a session was on another level.
func (w *world) isolatedBy(level string) {
	w.t.Helper()
	starts := 0
	for _, e := range w.events() {
		if e.Kind == audit.SessionStart {
			starts++
			if e.Isolation != level {
				w.t.Errorf("a session was isolated by %q, want %s", e.Isolation, level)
			}
		}
	}
	if starts == 0 {
		w.t.Error("no session was recorded")
	}
}

// row adds what a story took to CLOISTER_LEVELS_TO.
func row(t *testing.T, level, agent string, took time.Duration) {
	t.Helper()
	as := "user"
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		as = "root"
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%s\t%s\t%s\t%.1f\t%s\n", level, agent, as, took.Seconds(), strings.Fields(string(load))[0])
	t.Log(text)
	to := os.Getenv("CLOISTER_LEVELS_TO")
	if to == "" {
		return
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
