package kubernetes_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/state/layers"
)

// project is a folder with an overlay over it, which the pod of a world has a copy of.
func (w *world) project() (base, upper, inside string) {
	w.t.Helper()
	dir := w.t.TempDir()
	for _, d := range []string{"base/dir", "store/upper", "store/work", "inside"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"base/a": "1", "base/dir/b": "2"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	base, upper, inside = filepath.Join(dir, "base"), filepath.Join(dir, "store/upper"), filepath.Join(dir, "inside")
	w.binds = []sandbox.Bind{{Source: sandbox.HostPath(base), Target: sandbox.GuestPath(inside), Access: sandbox.ReadWrite, Overlay: true,
		Upper: &sandbox.Upper{Store: sandbox.HostPath(filepath.Join(dir, "store")), Dir: "upper", Work: "work"}}}
	return base, upper, inside
}

func changes(t *testing.T, base, upper string) string {
	t.Helper()
	s, err := layers.Open(base, []string{upper})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range list {
		out = append(out, string(c.Op)+" "+c.Path)
	}
	return strings.Join(out, ", ")
}

// TestDoubleCopies: the project is in the pod, and what changed there comes back for apply.
func TestDoubleCopies(t *testing.T) {
	w := build(t, true, running)
	base, upper, inside := w.project()
	st, stdout, stderr, err := w.run([]string{"sh", "-c", "cd " + inside + "; cat a dir/b; echo 3 >a; echo new >c; rm -r dir"}, nil)
	if err != nil || st.Code != 0 || stdout != "12" {
		t.Fatalf("%+v, %q, %q, %v", st, stdout, stderr, err)
	}
	if got, want := changes(t, base, upper), "modified a, added c, deleted dir, deleted dir/b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if text, err := os.ReadFile(filepath.Join(base, "a")); err != nil || string(text) != "1" {
		t.Errorf("the project was written: %q, %v", text, err)
	}
	if left, err := os.ReadDir(filepath.Join(upper, "../work")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestDoubleCopiesClosed: a command that is ended at once has what it did brought back too.
func TestDoubleCopiesClosed(t *testing.T) {
	w := build(t, true, running)
	base, upper, inside := w.project()
	_, _, _, err := w.run([]string{"sh", "-c", "echo 3 >" + inside + "/a; echo >" + inside + "/c; " + lives(inside)}, func(b sandbox.Box) {
		eventually(t, filepath.Join(inside, "c"))
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Error(err)
	}
	if got, want := changes(t, base, upper), "modified a, added c"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestDoubleCopiesLost: what a lost pod had changed is said to be lost, and nothing half of it
// comes.
func TestDoubleCopiesLost(t *testing.T) {
	w := build(t, true, running)
	base, upper, inside := w.project()
	work := filepath.Join(upper, "../work")
	if err := os.MkdirAll(filepath.Join(work, "from-pod/dir"), 0o700); err != nil { // as a round before leaves it
		t.Fatal(err)
	}
	_, _, _, err := w.run([]string{"sh", "-c", "echo 3 >" + inside + "/a; echo >" + inside + "/c; " + lives(inside)}, func(sandbox.Box) {
		eventually(t, filepath.Join(inside, "c"))
		w.killGate()
	})
	if err == nil || !strings.Contains(err.Error(), "and what it changed in the project with it") {
		t.Errorf("%v", err)
	}
	if got := changes(t, base, upper); got != "" {
		t.Errorf("half of it came: %s", got)
	}
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// lives is a command that goes on as long as the test's folder is there: the double has no pod that
// would end it.
func lives(folder string) string { return "while [ -d " + folder + " ]; do sleep 0.1; done" }

func eventually(t *testing.T, name string) {
	t.Helper()
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("%s never came", name)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestDoubleDials: a port inside is reached by the gate's connection, and one on which nothing
// listens refuses.
func TestDoubleDials(t *testing.T) {
	w := build(t, true, running)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	_, _, _, err = w.run([]string{"cat"}, func(b sandbox.Box) {
		c, err := b.(sandbox.Dialer).Dial(t.Context(), port)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "there and back"); err != nil {
			t.Error(err)
		}
		if err := c.(*net.UnixConn).CloseWrite(); err != nil {
			t.Error(err)
		}
		if text, err := io.ReadAll(c); err != nil || string(text) != "there and back" {
			t.Errorf("%q, %v", text, err)
		}
		c.Close()
		l.Close()
		if c, err := b.(sandbox.Dialer).Dial(t.Context(), port); err == nil {
			c.Close()
			t.Error("a port on which nothing listens is there")
		}
		buf := make([]byte, 64)
		if n, err := w.refusals.Read(buf); err != nil || string(buf[:n]) != "refused" {
			t.Errorf("refused datagrams: %q, %v", buf[:n], err)
		}
		w.refusals.Close()
	})
	if err != nil {
		t.Error(err)
	}
}
