package service

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/exactjson"
	"cloister/internal/passfd"
	"cloister/kernel/lsm"
)

// double is a kernel that notes what it is given.
type double struct {
	mu       sync.Mutex
	attached []uint32 // owners
	refuse   error
	sessions []*session
	server   *Server
}

func (d *double) Attach(group *os.File, owner uint32) (lsm.Backend, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		return nil, d.refuse
	}
	d.attached = append(d.attached, owner)
	s := &session{events: make(chan []byte, 8), drained: make(chan struct{}), closed: make(chan struct{}), labels: map[uint64]uint64{}}
	d.sessions = append(d.sessions, s)
	return s, nil
}

func (d *double) last() *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[len(d.sessions)-1]
}

// session labels inodes by their numbers.
type session struct {
	mu      sync.Mutex
	bits    map[uint64]lsm.Bits
	labels  map[uint64]uint64
	refuse  error
	events  chan []byte
	drained chan struct{}
	drain   sync.Once
	closed  chan struct{}
}

func (s *session) Label(f *os.File) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return st.Ino, err
}

func (s *session) Swap(bits map[uint64]lsm.Bits, files map[uint64]*os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return s.refuse
	}
	s.bits = bits
	return nil
}

func (s *session) Read(until time.Time) ([]byte, error) {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	select {
	case raw := <-s.events:
		return raw, nil
	default:
	}
	select {
	case raw := <-s.events:
		return raw, nil
	case <-s.drained:
		return nil, io.EOF
	case <-late.C:
		return nil, os.ErrDeadlineExceeded
	}
}

func (s *session) Counts() (lsm.Counts, error) { return lsm.Counts{Denied: 7}, nil }
func (s *session) Drain() error                { s.drain.Do(func() { close(s.drained) }); return nil }
func (s *session) Close() error                { close(s.closed); return nil }

func (s *session) now() map[uint64]lsm.Bits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bits
}

// serve is a service with a double for the kernel; uid is who its peers are said to be.
func serve(t *testing.T, d *double) (socket string, stop func()) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	server := &Server{Loader: d, Log: &log}
	d.server = server
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		server.mu.Lock()
		defer server.mu.Unlock()
		if server.all != 0 || len(server.sessions) != 0 {
			t.Errorf("left in the books: %d objects, sessions %v", server.all, server.sessions)
		}
	})
	t.Cleanup(stop)
	return socket, stop
}

// asPeer is a folder that belongs to who the test runs as, unless it is root: root is no peer, so
// that its tests are another user's.
func asPeer(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func file(t *testing.T, dir, name string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// reach is a client of a service that this process is itself.
func reach(t *testing.T, socket string) *Client {
	t.Helper()
	c, err := dial(socket, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A policy goes to the kernel as it was said, by descriptors, and comes back in events by the peer's names.
func TestSession(t *testing.T) {
	d := &double{}
	socket, _ := serve(t, d)
	c := reach(t, socket)
	if err := c.Attach(asPeer(t)); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	owners := slices.Clone(d.attached)
	d.mu.Unlock()
	if !slices.Equal(owners, []uint32{uint32(os.Getuid())}) {
		t.Fatalf("attached for %v", owners)
	}
	if err := c.Attach(asPeer(t)); err == nil {
		t.Error("a second group came to the same session")
	}
	c = reach(t, socket)
	if err := c.Attach(asPeer(t)); err != nil {
		t.Fatal(err)
	}
	s, dir := d.last(), t.TempDir()
	bits, files := map[uint64]lsm.Bits{0: {Permit: uint32(lsm.All), Flags: uint32(lsm.All) << 8}}, map[uint64]*os.File{}
	for i := range 100 {
		f := file(t, dir, fmt.Sprint(i))
		key, err := c.Label(f)
		if err != nil {
			t.Fatal(err)
		}
		bits[key], files[key] = lsm.Bits{Forbid: uint32(i % 32), Flags: uint32(i % 2)}, f
	}
	if len(files) != 100 {
		t.Fatalf("%d labels of 100 files", len(files))
	}
	if err := c.Swap(bits, files); err != nil {
		t.Fatal(err)
	}
	got := s.now()
	for key, f := range files {
		label, err := s.Label(f)
		if err != nil || got[label] != bits[key] {
			t.Fatalf("%s: %+v, want %+v, %v", f.Name(), got[label], bits[key], err)
		}
		raw := binary.NativeEndian.AppendUint64(make([]byte, 8), label)
		s.events <- append(raw, 1, 2, 3)
		raw, err = c.Read(time.Now().Add(time.Minute))
		if err != nil || binary.NativeEndian.Uint64(raw[8:]) != key {
			t.Fatalf("an event of %d: % x, %v", key, raw, err)
		}
	}
	// What guards a session is there, whatever a peer says.
	if base := got[0]; base.Permit != uint32(lsm.All) || base.Flags&lsm.GuardedFlag == 0 {
		t.Errorf("of everything: %+v", base)
	}
	if counts, err := c.Counts(); err != nil || counts.Denied != 7 {
		t.Errorf("counts %+v, %v", counts, err)
	}
	// A policy that the kernel does not take leaves the one before.
	s.mu.Lock()
	s.refuse = errors.New("no memory")
	s.mu.Unlock()
	if err := c.Swap(nil, nil); err == nil || !strings.Contains(err.Error(), "no memory") {
		t.Errorf("refused by the kernel: %v", err)
	}
	if len(s.now()) != 101 {
		t.Error("the policy before is not in force")
	}
	s.mu.Lock()
	s.refuse = nil
	s.mu.Unlock()
	if err := c.Swap(nil, nil); err != nil || s.now() != nil {
		t.Errorf("nothing may be opened: %+v, %v", s.now(), err)
	}
	s.events <- make([]byte, 20)
	if err := c.Drain(); err != nil {
		t.Fatal(err)
	}
	if raw, err := c.Read(time.Now().Add(time.Minute)); err != nil || len(raw) != 20 {
		t.Errorf("the last event: % x, %v", raw, err)
	}
	if _, err := c.Read(time.Now().Add(time.Minute)); !errors.Is(err, io.EOF) {
		t.Errorf("after the last event: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	<-s.closed
}

// A service that ends leaves the kernel judging, and its peers notice.
func TestTheServiceEnds(t *testing.T) {
	d := &double{}
	socket, stop := serve(t, d)
	c := reach(t, socket)
	if err := c.Attach(asPeer(t)); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := c.Read(time.Now().Add(time.Minute)); !errors.Is(err, errGone) {
		t.Errorf("read: %v", err)
	}
	if _, err := c.Counts(); !errors.Is(err, errGone) {
		t.Errorf("counts: %v", err)
	}
	if err := c.Swap(nil, nil); err == nil {
		t.Error("a policy went to a service that is gone")
	}
	select {
	case <-d.last().closed:
		t.Error("the session was ended with the service")
	default:
	}
}

// Peers that lie are refused, by what the kernel says of them.
func TestHostilePeers(t *testing.T) {
	d := &double{}
	socket, _ := serve(t, d)
	if err := owned(asPeer(t), os.Getuid()+1); err == nil || !strings.Contains(err.Error(), "belongs to uid") {
		t.Errorf("another user's group: %v", err)
	}
	for name, c := range map[string]struct {
		lines []string
		files int // with the first line
		says  string
	}{
		"no attach":            {lines: []string{`{"swap":{"objects":0,"none":true}}`}, says: "names no control group"},
		"no descriptor":        {lines: []string{`{"attach":true}`}, says: "0 arrived"},
		"two things":           {lines: []string{`{"attach":true,"drain":true}`}, files: 1, says: "not one of"},
		"an unknown thing":     {lines: []string{`{"path":"/sys/fs/cgroup"}`}, files: 1, says: "read a message"},
		"no JSON":              {lines: []string{`attach`}, files: 1, says: "read a message"},
		"objects without any":  {lines: []string{`{"attach":true}`, `{"objects":[{"key":1}]}`}, files: 1, says: "0 arrived"},
		"no such rights":       {lines: []string{`{"attach":true}`, `{"swap":{"objects":0,"permit":32}}`}, files: 1, says: "no policy has such bits"},
		"no such flags":        {lines: []string{`{"attach":true}`, `{"swap":{"objects":0,"flags":65536}}`}, files: 1, says: "no policy has such bits"},
		"too many":             {lines: []string{`{"attach":true}`, `{"swap":{"objects":40001}}`}, files: 1, says: "at most 40000"},
		"fewer than it says":   {lines: []string{`{"attach":true}`, `{"swap":{"objects":1}}`}, files: 1, says: "0 objects were sent, not 1"},
		"a negative number":    {lines: []string{`{"attach":true}`, `{"swap":{"objects":-1}}`}, files: 1, says: "at most 40000"},
		"a key that is none":   {lines: []string{`{"attach":true}`, `{"objects":[{"key":0}]}`}, files: 2, says: "no object has such a key"},
		"more than they could": {lines: []string{`{"attach":true}` + strings.Repeat(" ", maxLine)}, files: 1},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			conn := passfd.New(raw, nil, maxSaid)
			var files []*os.File
			for range c.files {
				files = append(files, asPeer(t))
			}
			for _, line := range c.lines {
				// A peer may be refused before it has said all.
				_ = passfd.New(raw, nil, 2*maxLine).Write([]byte(line), files, time.Now().Add(time.Minute))
				files = nil
			}
			var said string
			for {
				line, err := conn.Read()
				if err != nil {
					break
				}
				var m Said
				if err := exactjson.Unmarshal(line, &m); err != nil {
					t.Fatal(err)
				}
				if said += m.Refused; m.Refused != "" {
					break
				}
			}
			if !strings.Contains(said, c.says) || c.says == "" && said != "" {
				t.Errorf("it said %q, want %q", said, c.says)
			}
		})
	}
}

// What a peer left open is closed while the peer is counted: to close a file may take as long as its file
// system wants, and each that waits is a thread of the service.
func TestClosedWhileCounted(t *testing.T) {
	d := &double{}
	socket, _ := serve(t, d)
	raw, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	conn := passfd.New(raw, nil, maxSaid)
	if _, err := conn.Read(); err != nil { // it is counted
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d.server.mu.Lock() // so that it cannot leave
	defer d.server.mu.Unlock()
	err = conn.Write([]byte("nothing"), []*os.File{w}, time.Now().Add(time.Minute))
	if err := errors.Join(err, w.Close(), r.SetReadDeadline(time.Now().Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the file is open: %v", err)
	}
}

// One user's sessions are bounded, and so is what their policies speak of.
func TestQuotas(t *testing.T) {
	s := &Server{}
	for range mostEach {
		if err := s.enter(5); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.enter(5); err == nil {
		t.Error("one more")
	}
	if err := s.enter(6); err != nil {
		t.Errorf("another user: %v", err)
	}
	if err := s.hold(5, objectsEach); err != nil {
		t.Fatal(err)
	}
	if err := s.hold(5, 1); err == nil {
		t.Error("one object more")
	}
	if err := s.hold(6, 1); err != nil {
		t.Errorf("an object of another: %v", err)
	}
	full := &peer{s: s, uid: 6, pending: make([]object, maxObjects)}
	full.collect([]Object{{Key: 1}}, []*os.File{file(t, t.TempDir(), "f")})
	if err := full.swap(Swap{Objects: maxObjects + 1}); err == nil || !strings.Contains(err.Error(), "more than 40000 objects") {
		t.Errorf("too many objects: %v", err)
	}
	d := &double{}
	socket, stop := serve(t, d)
	c := reach(t, socket)
	if err := c.Attach(asPeer(t)); err != nil {
		t.Fatal(err)
	}
	f := file(t, t.TempDir(), "f")
	if err := d.server.hold(os.Getuid(), objectsEach); err != nil {
		t.Fatal(err)
	}
	if err := c.Swap(map[uint64]lsm.Bits{0: {}, 1: {}}, map[uint64]*os.File{1: f}); err == nil || !strings.Contains(err.Error(), "no more") {
		t.Errorf("more than a user's: %v", err)
	}
	if err := d.server.hold(os.Getuid(), -objectsEach); err != nil {
		t.Fatal(err)
	}
	// The session goes on.
	if err := c.Swap(map[uint64]lsm.Bits{0: {}, 1: {}}, map[uint64]*os.File{1: f}); err != nil || len(d.last().now()) != 2 {
		t.Errorf("after too many: %v, %+v", err, d.last().now())
	}
	stop() // and the books are even
}

// A name that leads to another object is another label, and one object under one name the same.
func TestLabels(t *testing.T) {
	c, dir := &Client{keys: map[identity]uint64{}}, t.TempDir()
	label := func(name string) uint64 {
		t.Helper()
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		l, err := c.Label(f)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	file(t, dir, "a")
	file(t, dir, "b")
	a := label("a")
	if label("a") != a || label("b") == a {
		t.Error("labels of two files")
	}
	if err := os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if label("a") == a {
		t.Error("another file has the label of the one before")
	}
}

// Install makes the program and its unit once, and uninstall leaves nothing of it.
func TestInstall(t *testing.T) {
	root := t.TempDir()
	var ran, said []string
	s := Setup{Self: "/proc/self/exe", Root: root, Say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) },
		Run: func(_ context.Context, name string, args ...string) error {
			ran = append(ran, name+" "+strings.Join(args, " "))
			return nil
		}}
	if err := s.install(t.Context()); err != nil || len(ran) > 0 || !strings.Contains(strings.Join(said, "\n"), Program+" lsm serve") {
		t.Fatalf("without systemd it ran %q and said %q, %v", ran, said, err)
	}
	if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.install(t.Context()); err != nil || strings.Join(ran, ",") != "systemctl daemon-reload,systemctl enable --now "+Name {
		t.Errorf("again, with nothing new: it ran %q, %v", ran, err)
	}
	if err := os.WriteFile(filepath.Join(root, Program), []byte("an older one"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.install(t.Context()); err != nil || ran[len(ran)-1] != "systemctl restart "+Name {
		t.Errorf("another program: it ran %q, %v", ran, err)
	}
	if st, err := os.Stat(filepath.Join(root, Program)); err != nil || st.Mode().Perm() != 0o755 || st.Size() < 1<<20 {
		t.Errorf("the program: %v, %v", st, err)
	}
	if err := s.Uninstall(t.Context()); err != nil || !strings.Contains(strings.Join(ran, ","), "systemctl disable --now "+Name) {
		t.Errorf("uninstall ran %q, %v", ran, err)
	}
	for _, name := range []string{Program, Unit} {
		if _, err := os.Lstat(filepath.Join(root, name)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	if err := s.Uninstall(t.Context()); err != nil {
		t.Errorf("nothing to uninstall: %v", err)
	}
	// Only on a host that loads the programs does Install come so far.
	s.Self = filepath.Join(root, "none")
	if err := s.Install(t.Context()); err == nil {
		t.Error("it installed what is not there")
	}
}

// The socket is every user's, and one service has it.
func TestListen(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "dir/socket")
	l, err := listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(socket); err != nil || st.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v", st, err)
	}
	if _, err := listen(socket); err == nil || !strings.Contains(err.Error(), "another service") {
		t.Errorf("a second service: %v", err)
	}
	l.SetUnlinkOnClose(false) // as one that was killed
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = listen(socket); err != nil {
		t.Fatalf("after one that was killed: %v", err)
	}
	l.Close()
	// Whoever listens is root, or is not spoken to.
	if l, err = listen(socket); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := dial(socket, os.Getuid()+1); err == nil || !strings.Contains(err.Error(), "belongs to uid") {
		t.Errorf("a service of another user: %v", err)
	}
}

// No bytes of a peer are more than their message says.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"attach":true}`, `{"objects":[{"key":1,"permit":1,"forbid":31,"held":true}]}`, `{"swap":{"objects":1,"permit":31,"flags":7936}}`,
		`{"swap":{"none":true,"objects":0}}`, `{"drain":true}`, `{}`, `[]`, `{"attach":true,"attach":false}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := decode(line)
		if err != nil {
			return
		}
		if a.files() > together || a.Attach && a.files() != 1 {
			t.Errorf("%d descriptors", a.files())
		}
		for _, o := range a.Objects {
			if o.Key == 0 || (o.Permit|o.Forbid)&^rights != 0 {
				t.Errorf("an object %+v", o)
			}
		}
		if s := a.Swap; s != nil && (s.Objects < 0 || s.Objects > maxObjects || s.Flags&^lsm.BaseFlags != 0) {
			t.Errorf("a policy %+v", s)
		}
		again, err := exactjson.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := decode(again); err != nil || b.files() != a.files() {
			t.Errorf("%s is %+v, %v", again, b, err)
		}
	})
}
