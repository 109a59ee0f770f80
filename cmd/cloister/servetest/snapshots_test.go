//go:build linux

package servetest

import (
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloister/internal/needs"
	"cloister/serve/objects/objectstest"
)

// A store is an S3 server with the objects of its one bucket, which a test changes behind its users' backs.
type store struct {
	url    string
	names  func() []string
	change func(name string, edit func([]byte))
	stall  func(puts int64) (reached <-chan struct{}, goOn func()) // holds what is put after so many
	away   func()                                                  // from here on it refuses all; nil where that is not tried
}

// doubled is one of a test's own.
func doubled(t *testing.T) *store {
	s := objectstest.New()
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, s.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CA_BUNDLE", ca)
	return &store{
		url: s.URL + "/" + objectstest.Name + "/cell-1",
		names: func() (out []string) {
			for name := range s.Objects() {
				out = append(out, name)
			}
			return out
		},
		change: func(name string, edit func([]byte)) {
			all := s.Objects()
			text := append([]byte(nil), all[name]...)
			edit(text)
			all[name] = text
			s.Set(all)
		},
		stall: func(puts int64) (<-chan struct{}, func()) {
			reached, on := make(chan struct{}, 100), make(chan struct{})
			var n atomic.Int64
			s.Before(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPut && n.Add(1) > puts {
					reached <- struct{}{}
					<-on
				}
				return false
			})
			return reached, func() { s.Before(nil); close(on) }
		},
		away: func() {
			s.Before(func(w http.ResponseWriter, _ *http.Request) bool {
				objectstest.Refuse(w, http.StatusForbidden, "AccessDenied") // one that is tried again takes longer
				return true
			})
		},
	}
}

// gateway is versitygw on a folder.
func gateway(t *testing.T, program string) *store {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at, dir := l.Addr().String(), t.TempDir()
	l.Close()
	if err := os.Mkdir(filepath.Join(dir, "bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "--port", at, "--access", "cloister", "--secret", "not-a-secret", "posix", dir)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait() // it was asked to end
	})
	eventually(t, "the server does not answer", func() bool {
		conn, err := net.DialTimeout("tcp", at, time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	root := filepath.Join(dir, "bucket")
	s := &store{url: "http://" + at + "/bucket/cell-1"}
	s.names = func() (out []string) {
		_ = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error { // what changes meanwhile is left out
			if err == nil && e.Type().IsRegular() && !strings.Contains(name, ".sgwtmp") {
				out = append(out, strings.TrimPrefix(name, root+"/"))
			}
			return nil
		})
		return out
	}
	s.change = func(name string, edit func([]byte)) {
		f, err := os.OpenFile(filepath.Join(root, name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fi, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, fi.Size())
		if _, err := f.ReadAt(text, 0); err != nil {
			t.Fatal(err)
		}
		edit(text)
		if _, err := f.WriteAt(text, 0); err != nil {
			t.Fatal(err)
		}
	}
	s.stall = func(puts int64) (<-chan struct{}, func()) { // the kill comes while it is written
		reached, was := make(chan struct{}, 1), int64(len(s.names()))
		go func() {
			for int64(len(s.names())) < was+puts && t.Context().Err() == nil {
				<-time.After(time.Millisecond)
			}
			reached <- struct{}{}
		}()
		return reached, func() {}
	}
	return s
}

// TestSnapshotsOfServers has two servers keep snapshots in one bucket: an S3 server of the test's own, and the real one
// that script/test bucket builds.
func TestSnapshotsOfServers(t *testing.T) {
	if program := os.Getenv("CLOISTER_S3"); program != "" {
		t.Run("versitygw", func(t *testing.T) { snapshotsOfServers(t, gateway(t, program)) })
	}
	t.Run("double", func(t *testing.T) { snapshotsOfServers(t, doubled(t)) })
}

func snapshotsOfServers(t *testing.T, at *store) {
	p := needs.NewPostgres(t)
	fleet(t)
	t.Setenv("CLOISTER_DATABASE", p.Database("snapshots"))
	t.Setenv("AWS_ACCESS_KEY_ID", "cloister")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(strings.Repeat("5a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	words := []string{"--domain", "sandboxes.example", "--lease", "10m", "--snapshots", at.url, "--snapshot-keys", keys}
	a := newServerAt(t, "", []string{"--ahead", "0"}, words, "acme", "other")
	b := newServerAt(t, "", nil, words)
	b.keys = a.keys
	eventually(t, "the other server does not learn of the keys", func() bool { return b.api("other", "GET", "/sandboxes", "").status == http.StatusOK })

	one := a.create("acme", `{"templateID":"base","envVars":{"MARK":"kept"}}`)
	one.output("echo hello > hello.txt; head -c 12000000 /dev/urandom > data; ln -s data link; mkdir -m 700 d; sha256sum data > sum")
	made := a.api("acme", "POST", "/sandboxes/"+one.id+"/snapshots", `{"name":"mine"}`)
	if made.status != http.StatusCreated {
		t.Fatalf("snapshot: %d %s", made.status, made.body)
	}
	id := made.field(t, "snapshotID")
	if list := b.api("acme", "GET", "/snapshots", ""); !strings.Contains(list.body, id) || !strings.Contains(list.body, "mine") {
		t.Errorf("listed %s", list.body)
	}
	whole := func(s *server, name string) {
		t.Helper()
		c := s.create("acme", `{"templateID":"`+name+`"}`)
		if got := c.output("sha256sum -c sum; cat hello.txt; echo $MARK; readlink link; stat -c %a d"); got != "data: OK\nhello\nkept\ndata\n700\n" {
			t.Errorf("%s through %s: %q", name, s.url, got)
		}
		if got := s.api("acme", "DELETE", "/sandboxes/"+c.id, ""); got.status != http.StatusNoContent {
			t.Errorf("end: %d %s", got.status, got.body)
		}
	}
	whole(b, id)
	whole(b, "mine")
	whole(a, "mine")
	for _, s := range []*server{a, b} {
		never := s.api("other", "POST", "/v2/sandboxes", `{"templateID":"snapaaaaaaaaaaaaaaaa"}`)
		if got := s.api("other", "POST", "/v2/sandboxes", `{"templateID":"`+id+`"}`); got.status != never.status ||
			got.body != strings.ReplaceAll(never.body, "snapaaaaaaaaaaaaaaaa", id) {
			t.Errorf("of another tenant: %d %s", got.status, got.body)
		}
		if got := s.api("other", "GET", "/snapshots", ""); strings.Contains(got.body, id) {
			t.Errorf("another tenant lists %s", got.body)
		}
		if got := s.api("other", "DELETE", "/templates/"+id, ""); got.status != http.StatusNotFound {
			t.Errorf("another tenant removes it: %d %s", got.status, got.body)
		}
	}
	// What the bucket changed is refused by name, and no sandbox is left of it.
	for _, name := range at.names() {
		if strings.Contains(name, id) && !strings.HasSuffix(name, "/manifest") {
			flip := func(text []byte) { text[len(text)/2] ^= 1 }
			at.change(name, flip)
			if got := b.api("acme", "POST", "/v2/sandboxes", `{"templateID":"mine"}`); got.status != http.StatusInternalServerError ||
				!strings.Contains(got.body, "the snapshot is refused") || strings.Contains(got.body, name) {
				t.Errorf("of a bucket that lies: %d %s", got.status, got.body)
			}
			at.change(name, flip)
			break
		}
	}
	if list := b.api("acme", "GET", "/v2/sandboxes", ""); strings.Count(list.body, `"sandboxID"`) != 1 {
		t.Errorf("listed %s", list.body)
	}
	whole(b, "mine")
	// A is killed in the middle of an upload. What it has there goes when it is back, and what was kept stays.
	one.output("head -c 60000000 /dev/urandom > more")
	before := len(at.names())
	reached, goOn := at.stall(3)
	over := make(chan answer, 1)
	go func() { over <- a.api("acme", "POST", "/sandboxes/"+one.id+"/snapshots", `{"name":"half"}`) }()
	select {
	case <-reached:
	case <-time.After(time.Minute):
		t.Fatal("nothing is put")
	}
	a.kill()
	goOn()
	if got := <-over; got.status == http.StatusCreated {
		t.Fatalf("it was kept before the kill: %s", got.body)
	}
	if list := b.api("acme", "GET", "/snapshots", ""); strings.Contains(list.body, "half") || !strings.Contains(list.body, id) {
		t.Errorf("listed %s", list.body)
	}
	whole(b, "mine")
	a.start()
	one.s = a
	eventually(t, "what was half sent is left", func() bool { return len(at.names()) == before })
	whole(a, "mine")
	if at.away != nil {
		at.away()
		if got := b.api("acme", "POST", "/v2/sandboxes", `{"templateID":"mine"}`); got.status != http.StatusServiceUnavailable {
			t.Errorf("of a bucket that is away: %d %s", got.status, got.body)
		}
		if got := a.api("acme", "POST", "/sandboxes/"+one.id+"/snapshots", `{"name":"late"}`); got.status != http.StatusServiceUnavailable {
			t.Errorf("into a bucket that is away: %d %s", got.status, got.body)
		}
		if got := a.api("acme", "POST", "/sandboxes/"+one.id+"/fork", `{"count":1}`); got.status != http.StatusCreated {
			t.Errorf("a fork, which needs no bucket: %d %s", got.status, got.body)
		}
		_, goOn := at.stall(1000)
		goOn()
	}
	if got := b.api("acme", "DELETE", "/templates/mine", ""); got.status != http.StatusNoContent {
		t.Errorf("remove: %d %s", got.status, got.body)
	}
	if got := a.api("acme", "POST", "/v2/sandboxes", `{"templateID":"`+id+`"}`); got.status != http.StatusNotFound {
		t.Errorf("one that was removed: %d %s", got.status, got.body)
	}
	eventually(t, "what was removed is left", func() bool { return len(at.names()) == 0 })
	for _, name := range []string{"--snapshots", "--snapshot-keys"} {
		out, err := a.command("serve", "--e2b", "127.0.0.1:0", name, "x").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "go together") {
			t.Errorf("%s alone: %v, %s", name, err, out)
		}
	}
}
