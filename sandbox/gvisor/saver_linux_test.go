package gvisor_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/gvisor"
	"cloister/sandbox/sandboxtest"
)

// saverOf are the words of the process that TestSaverKilled kills.
const saverOf = "CLOISTER_TEST_SAVER"

// saver is what that process is told.
type saver struct {
	Instance, Folder, Dir string
	Box                   sandbox.Handle
	Spec                  sandbox.Spec
}

// TestSaverKilled: a cloister goes on whatever becomes of who keeps its memory, also when that is killed while nothing
// moves.
func TestSaverKilled(t *testing.T) {
	if text := os.Getenv(saverOf); text != "" {
		saveUntilKilled(t, text)
		return
	}
	build := built(t)
	h := sandboxtest.New(t, build())
	var spec sandbox.Spec
	counts := func() int64 {
		fi, err := os.Stat(filepath.Join(h.Project, "log"))
		if err != nil {
			return 0
		}
		return fi.Size()
	}
	grows := func(from int64) bool {
		for range 100 {
			if counts() > from {
				return true
			}
			<-time.After(100 * time.Millisecond)
		}
		return false
	}
	h.Run(t, sandboxtest.Options{Change: func(s *sandbox.Spec) { spec = *s }, During: func(b sandbox.Box) {
		defer b.Close()
		if !grows(0) {
			t.Fatal("the command does not count")
		}
		text, err := json.Marshal(saver{filepath.Join(t.TempDir(), "instance"), os.Getenv("CLOISTER_GVISOR"), t.TempDir(),
			b.Handle(), spec})
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSaverKilled$")
		c.Env = append(os.Environ(), saverOf+"="+string(text))
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
			t.Error(err)
		}
		_ = c.Process.Kill()
		_ = c.Wait()
		<-time.After(3 * time.Second) // what was under way is over
		if !grows(counts()) {
			t.Error("the cloister stands still for ever")
		}
	}}, "sh", "-c", "while :; do echo x >> log; sleep 0.1; done")
}

// saveUntilKilled keeps the memory of a box, and never says that it may go on.
func saveUntilKilled(t *testing.T, text string) {
	var s saver
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	image := &sandbox.Image{}
	for _, name := range []string{"state", "index", "pages"} {
		f, err := os.Create(filepath.Join(s.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		image.Files = append(image.Files, f)
	}
	d := gvisor.New(gvisor.Options{Instance: s.Instance, Folders: []string{s.Folder}})
	t.Log(d.SaveMemory(t.Context(), s.Box, s.Spec, image, func() error {
		_, _ = os.Stdout.WriteString("s")
		select {}
	}))
	_, _ = os.Stdout.WriteString("e")
}
