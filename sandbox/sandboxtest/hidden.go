package sandboxtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/sandbox"
	"cloister/workspace"
)

func hidden(t *testing.T, h *Harness) {
	h.Write(t, ".env", "KEY=canary")
	h.Write(t, ".env.local", "KEY=canary")
	out := h.Run(t, Options{View: hide}, "sh", "-c", "cat .env .env.local; echo x > .env; ls -A")
	if out.Err != nil || strings.Contains(out.Stdout, "canary") || !strings.Contains(out.Stdout, ".env.local") {
		t.Errorf("%+v", out)
	}
	if got := read(t, filepath.Join(h.Project, ".env")); got != "KEY=canary" {
		t.Errorf(".env became %q", got)
	}
}

func hide(o *workspace.Options) { o.Hide = []string{".env*"} }

// covered waits until a file is there and empty, as long as the test would.
const covered = "i=0; while [ ! -e .env -o -s .env ] && [ $i -lt 300 ]; do sleep 0.05; i=$((i+1)); done; cat .env; " +
	"echo x > .env; echo end"

// covered is that, or where nothing of the host comes in the rest of it.
func (h *Harness) covered() string {
	if h.copies {
		return "cat .env 2>/dev/null; { echo x > .env; } 2>/dev/null; echo end"
	}
	return covered
}

// hiddenAgain: what the host's own programs put in a hidden file's place, as an
// editor does that saves, is as hidden as the old one was.
func hiddenAgain(t *testing.T, h *Harness) {
	h.Write(t, ".env", "KEY=canary")
	out := h.Run(t, Options{View: hide, During: func(b sandbox.Box) {
		h.awaitFile(t, b, "ready")
		h.Write(t, "new", "KEY=canary2")
		if err := os.Rename(filepath.Join(h.Project, "new"), filepath.Join(h.Project, ".env")); err != nil {
			t.Error(err)
		}
		h.tell(t, b, "go")
	}}, "sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.05; done; "+h.covered())
	if out.Err != nil || out.Stdout != "end\n" {
		t.Errorf("%+v", out)
	}
	if got := read(t, filepath.Join(h.Project, ".env")); got != "KEY=canary2" {
		t.Errorf(".env became %q", got)
	}
}

// hiddenGone: a hidden file that goes away just when a session starts does not
// keep it from starting, and is hidden when it is back. What is protected does.
func hiddenGone(t *testing.T, h *Harness) {
	h.Write(t, ".env", "KEY=canary")
	remove := func(name string) func(*sandbox.Spec) {
		return func(*sandbox.Spec) {
			if err := os.Remove(filepath.Join(h.Project, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := h.Run(t, Options{View: hide, Change: remove(".env"), During: func(b sandbox.Box) {
		h.awaitFile(t, b, "ready")
		h.Write(t, ".env", "KEY=canary2")
		h.tell(t, b, "go")
	}}, "sh", "-c", "[ -e .env ] && echo there; touch ready; while [ ! -e go ]; do sleep 0.05; done; "+h.covered())
	if out.Err != nil || out.Stdout != "end\n" {
		t.Errorf("%+v", out)
	}
	if got := read(t, filepath.Join(h.Project, ".env")); got != "KEY=canary2" {
		t.Errorf(".env became %q", got)
	}
	if h.copies {
		return // nothing is protected in a copy: what comes of it is looked at when it comes back
	}
	h.Write(t, ".envrc", "mine")
	if out := h.Run(t, Options{Change: remove(".envrc")}, "true"); out.Err == nil {
		t.Error("a start without a protected file that was there went on")
	}
	if out := h.Run(t, Options{Change: remove(".envrc")}, "true"); out.Err == nil {
		t.Error("a start without a stub of a protected file went on")
	}
}
