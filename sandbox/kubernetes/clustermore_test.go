//go:build cloister_cluster

package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes"
	"cloister/state/layers"
)

// copied is a project with an overlay over it.
type copied struct{ base, upper string }

func (c *cluster) project(s *sandbox.Spec, at string) copied {
	c.t.Helper()
	dir := c.t.TempDir()
	for _, d := range []string{"base/dir", "store/upper", "store/work"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"base/a": "1\n", "base/dir/b": "2\n", "base/.env": "s3cr3t"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	s.Binds = []sandbox.Bind{{Source: sandbox.HostPath(filepath.Join(dir, "base")), Target: sandbox.GuestPath(at), Access: sandbox.ReadWrite,
		Overlay: true, Upper: &sandbox.Upper{Store: sandbox.HostPath(filepath.Join(dir, "store")), Dir: "upper", Work: "work"}}}
	s.Protect = []sandbox.Protect{{Target: sandbox.GuestPath(at + "/.env"), File: true, Empty: true}}
	s.Links = append(s.Links, sandbox.Link{Path: "/work", Target: at})
	s.Dir = sandbox.GuestPath(at)
	return copied{filepath.Join(dir, "base"), filepath.Join(dir, "store/upper")}
}

func (p copied) changes(t *testing.T) string {
	t.Helper()
	s, err := layers.Open(p.base, []string{p.upper})
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

func TestClusterCopies(t *testing.T) {
	c := begin(t)
	s := spec("sh", "-c", `cat a dir/b /work/a .env; echo 3 >a; echo new >c; /bin/busybox rm -r dir; echo x 2>/dev/null >.env
(trap '' HUP TERM; while :; do echo more >>late; done) & sleep 0.2; exit 4`)
	p := c.project(&s, "/home/agent/src/project")
	o := c.run(c.driver(), s, &served{}, "", nil)
	if o.err != nil || o.status.Code != 4 || o.stdout != "1\n2\n1\n" {
		t.Fatalf("%+v", o)
	}
	if got, want := p.changes(t), "modified a, added c, deleted dir, deleted dir/b, added late"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s.Argv = []string{"sh", "-c", "cat a c; ls"}
	s.ID += "2"
	if o = c.run(c.driver(), s, &served{}, "", nil); o.err != nil || o.stdout != "3\nnew\na\nc\nlate\n" {
		t.Errorf("%+v", o)
	}
}

func TestClusterCopiesLost(t *testing.T) {
	c := begin(t)
	s := spec("sh", "-c", "echo 3 >a; echo up; sleep 1000")
	p := c.project(&s, "/src/project")
	o := c.run(c.driver(), s, &served{}, "", func(sandbox.Box) { c.must(nil, "kill", "-9", c.gateOf()) })
	if !errors.Is(o.err, kubernetes.ErrLost) || !strings.Contains(o.err.Error(), "what it changed in the project with it") {
		t.Errorf("%+v", o)
	}
	if got := p.changes(t); got != "" {
		t.Errorf("half of it came: %s", got)
	}
}

func TestClusterTerminal(t *testing.T) {
	c := begin(t)
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 31, Cols: 97}); err != nil {
		t.Fatal(err)
	}
	s := spec("sh", "-c", `trap '/bin/busybox stty size' WINCH; /bin/busybox stty size; while :; do read word && break; done; echo "got $word"
/bin/busybox tty; while :; do read line && break; done; echo "line $line"; exit 6`)
	got := &served{}
	w := sandbox.Wiring{Stdin: slave, Stdout: slave, Stderr: slave, Arm: got.arm(t)}
	b, err := c.driver().Start(t.Context(), s, w)
	if err != nil {
		t.Fatal(err)
	}
	seen := &screen{f: master}
	ended := over(b, slave)
	seen.until(t, "31 97")
	if _, err := io.WriteString(master, "hello\n"); err != nil {
		t.Error(err)
	}
	seen.until(t, "got hello")
	seen.until(t, "/dev/pts/0")
	if err := pty.Setsize(master, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Error(err)
	}
	if err := b.(sandbox.Resizer).Resize(); err != nil {
		t.Error(err)
	}
	seen.until(t, "40 120")
	if _, err := io.WriteString(master, "over\n"); err != nil {
		t.Error(err)
	}
	seen.until(t, "line over")
	<-ended
	st, err := b.Wait()
	if err != nil || st.Code != 6 {
		t.Errorf("%+v, %v", st, err)
	}
	if strings.Contains(seen.text, "cloister-end") {
		t.Errorf("the end is on the screen: %q", seen.text)
	}
}

// over closes the terminal when the command has ended: who reads it then is done.
func over(b sandbox.Box, slave *os.File) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = b.Wait() // the test asks again
		slave.Close()
	}()
	return ended
}

// TestClusterInterrupt: what is typed interrupts the command, as at any terminal.
func TestClusterInterrupt(t *testing.T) {
	c := begin(t)
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	got := &served{}
	b, err := c.driver().Start(t.Context(), spec("sh", "-c", "echo up; exec sleep 1000"), sandbox.Wiring{Stdin: slave, Stdout: slave, Stderr: slave, Arm: got.arm(t)})
	if err != nil {
		t.Fatal(err)
	}
	seen := &screen{f: master}
	ended := over(b, slave)
	seen.until(t, "up")
	if _, err := master.Write([]byte{3}); err != nil {
		t.Error(err)
	}
	seen.until(t, "never")
	<-ended
	st, err := b.Wait()
	if err != nil || st.ExitCode() != 130 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestClusterPorts(t *testing.T) {
	c := begin(t)
	s := spec("sh", "-c", "nc -l -p 7000 -e /bin/cat; while [ ! -e done ]; do sleep 1; done; exit 3")
	d := c.driver()
	o := c.run(d, s, &served{}, "", func(b sandbox.Box) {
		var conn net.Conn
		for {
			var err error
			if conn, err = b.(sandbox.Dialer).Dial(t.Context(), 7000); err == nil {
				break
			}
			<-time.After(50 * time.Millisecond)
		}
		defer conn.Close()
		big := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
		go func() {
			_, _ = conn.Write(big)
			_ = conn.(*net.UnixConn).CloseWrite()
		}()
		if text, err := io.ReadAll(conn); err != nil || !bytes.Equal(text, big) {
			t.Errorf("%d bytes, %v", len(text), err)
		}
		more := s
		more.Argv = []string{"touch", "done"}
		if e := c.attend("", func(w sandbox.Wiring) (sandbox.Box, error) { return d.Exec(t.Context(), b.Handle(), more, w) }, nil); e.err != nil {
			t.Error(e.err)
		}
	})
	if o.err != nil || o.status.Code != 3 {
		t.Errorf("%+v", o)
	}
}

// TestClusterDatagrams: the kernel's word on a datagram that the gate refused reaches the guardian's
// socket, and the program inside is refused at once.
func TestClusterDatagrams(t *testing.T) {
	c := begin(t)
	got := &served{}
	come := make(chan []byte, 16)
	o := c.attend("", func(w sandbox.Wiring) (sandbox.Box, error) {
		w.Arm = func(ctx context.Context, g sandbox.Gate) error {
			refusals := g.Refusals
			g.Refusals = nil
			go func() {
				defer refusals.Close()
				buf := make([]byte, 4096)
				for {
					n, err := refusals.Read(buf)
					if err != nil {
						return
					}
					come <- bytes.Clone(buf[:n])
				}
			}()
			return got.arm(t)(ctx, g)
		}
		return c.driver().Start(t.Context(), spec("sh", "-c", "/bin/busybox timeout 2 /bin/busybox tftp -g -r x 203.0.113.9 4000; echo $?; echo done"), w)
	}, nil)
	if o.err != nil || !strings.Contains(o.stdout, "done") {
		t.Fatalf("%+v", o)
	}
	select {
	case m := <-come:
		if !bytes.Contains(m, []byte{203, 0, 113, 9}) {
			t.Errorf("%x", m)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("nothing was told of the datagram: %+v", o)
	}
}
