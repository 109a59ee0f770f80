package sandboxtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/workspace"
)

// shutFolder: what an earlier session shut, so that nothing in it is found, a later
// one cannot open.
func shutFolder(t *testing.T, h *Harness) {
	h.Write(t, "app/.env", "KEY=canary")
	h.Write(t, "app/.git/config", "[core]\n")
	dir := filepath.Join(h.Project, "app")
	for _, mode := range []os.FileMode{0, 0o311, 0o644} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		out := h.Run(t, Options{View: func(o *workspace.Options) { o.Hide = []string{"app/.env*"} }}, "sh", "-c",
			"chmod 755 app; cat app/.env; echo evil >app/.git/config; echo x >app/new; mv app elsewhere; mkdir app/.vscode; "+
				"echo end")
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if out.Err != nil || strings.Contains(out.Stdout, "canary") || out.Stdout != "end\n" {
			t.Errorf("mode %o: %+v", mode, out)
		}
		if got := read(t, filepath.Join(dir, ".git/config")); got != "[core]\n" {
			t.Errorf("mode %o: the settings became %q", mode, got)
		}
		if h.copies { // a copy is of the box's own user, who opens what is in it
			continue
		}
		for _, name := range []string{"app/new", "app/.vscode", "elsewhere"} {
			if _, err := os.Lstat(filepath.Join(h.Project, name)); err == nil {
				t.Errorf("mode %o: %s was made", mode, name)
			}
		}
	}
}
