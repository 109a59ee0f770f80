package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/docker/engine"
	"cloister/sandbox/docker/inside"
	"cloister/sandbox/docker/refuse"
)

// serve listens where an engine would.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	l := listenShort(t)
	serveAt(t, l, h)
	return l.Addr().String()
}

func serveAt(t *testing.T, l net.Listener, h http.Handler) {
	t.Helper()
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // it ends with the test
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
}

// listenShort listens in a folder whose name is short enough for a socket.
func listenShort(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(shortDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// static is a program without libraries: nothing of it is ever run here.
func static(t *testing.T) string {
	t.Helper()
	// The header of an ELF file of this machine without a program in it.
	head := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...)
	head[16], head[18], head[20], head[52], head[54] = 2, 62, 1, 64, 56
	file := filepath.Join(shortDir(t), "program")
	if err := os.WriteFile(file, head, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func answer(version string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/_ping" {
			panic(http.ErrAbortHandler) // dies in the midst of an answer
		}
		if version != "" {
			w.Header().Set("Api-Version", version)
		}
		_, _ = io.WriteString(w, "OK")
	}
}

// TestRootlessEngine: an engine of another user that says it is rootless is asked for no container,
// whatever the workspace is, and nothing is left. One that does not say so is gone on with.
func TestRootlessEngine(t *testing.T) {
	for option, rootless := range map[string]bool{"name=rootless": true, "name=seccomp,profile=default": false} {
		var asked atomic.Int32
		socket := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/_ping":
				answer("1.41")(w, r)
			case strings.HasSuffix(r.URL.Path, "/info"):
				_ = json.NewEncoder(w).Encode(info{SecurityOptions: []string{option}}) // a failure shows as another refusal
			default:
				asked.Add(1)
				http.Error(w, "no", http.StatusTeapot)
			}
		}))
		if os.Geteuid() == 0 {
			if err := os.Lchown(socket, 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		dir, up := filepath.Join(shortDir(t), "d"), t.TempDir()
		_, err = New(Options{Socket: socket, Dir: dir, Program: static(t)}).Start(t.Context(), sandbox.Spec{
			ID: "x", Name: "x", Argv: []string{"true"}, Dir: "/", Root: sandbox.Root{ID: "sha256:0"},
			Binds: []sandbox.Bind{{Source: sandbox.HostPath(t.TempDir()), Target: "/w", Overlay: true, System: true,
				Upper: &sandbox.Upper{Store: sandbox.HostPath(up), Dir: "up", Work: "work"}}},
		}, sandbox.Wiring{Stdin: null, Stdout: null, Stderr: null})
		if err == nil || strings.Contains(err.Error(), "the engine is rootless") != rootless {
			t.Errorf("%s: %v", option, err)
		}
		if left, _ := os.ReadDir(dir); rootless && (asked.Load() > 0 || len(left) > 0) {
			t.Errorf("%s: the engine was asked %d times more, and %v is left", option, asked.Load(), left)
		}
	}
}

// TestRefusals: what is no engine that could be used is refused by name, at once,
// and nothing is left.
func TestRefusals(t *testing.T) {
	hangs := make(chan struct{})
	for _, tt := range []struct {
		name, socket, want string
	}{
		{"no engine", filepath.Join(shortDir(t), "none"), "there is no engine at"},
		{"another server", serve(t, answer("")), "is no Docker engine"},
		{"an odd version", serve(t, answer("2.x")), "is no Docker engine"},
		{"too old", serve(t, answer("1.40")), "1.41 is needed"},
		{"hangs", serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs })), "does not answer"},
		{"dies", serve(t, answer("1.41")), "went away in the midst of an answer"},
		{"no HTTP", garbage(t), "is no Docker engine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(shortDir(t), "d")
			d := New(Options{Socket: tt.socket, Dir: dir, Program: static(t)})
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			began := time.Now()
			_, err = d.Start(t.Context(), sandbox.Spec{ID: "x", Name: "x", Argv: []string{"true"}, Dir: "/", Root: sandbox.Root{ID: "sha256:0"}}, sandbox.Wiring{Stdin: null, Stdout: null, Stderr: null})
			u, ok := errors.AsType[*sandbox.Unsupported](err)
			if !ok || !strings.Contains(err.Error(), tt.want) || u.Fix == "" {
				t.Errorf("%v, want %q and a fix", err, tt.want)
			}
			if took := time.Since(began); took > time.Minute { // 5 s; who hangs is waited for no longer
				t.Errorf("it took %v", took)
			}
			// What an engine made that died in the midst of it, it has when it is back.
			if left, _ := os.ReadDir(dir); len(left) > 0 != (tt.name == "dies") {
				t.Errorf("left: %v", left)
			}
		})
	}
	close(hangs)
}

// garbage answers in no protocol.
func garbage(t *testing.T) string {
	t.Helper()
	l := listenShort(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			// The question is heard to its end first: who closes before that resets the
			// connection, and the asker sees no word of the answer.
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, "220 mail.example.com ESMTP\r\n")
			}
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestProgram(t *testing.T) {
	if _, err := New(Options{Program: "/bin/sh"}).program(false); err == nil || !strings.Contains(err.Error(), "libraries") {
		t.Errorf("a program with libraries: %v", err)
	}
	closed := static(t)
	if err := os.Chmod(closed, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Program: closed}).program(true); err == nil || !strings.Contains(err.Error(), "may not be executed") {
		t.Errorf("a program that is closed: %v", err)
	}
	if _, err := New(Options{Program: closed + "-gone"}).program(true); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("a program that is gone: %v", err)
	}
}

func TestSocketOf(t *testing.T) {
	for host, want := range map[string]string{"": "/run/docker.sock", "unix:///x/y": "/x/y", "tcp://192.0.2.1:2375": "", "ssh://host": "", "unix://relative": ""} {
		got, err := engine.SocketOf(host)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", host, got, err)
		}
	}
}

// TestOtherUsers: an engine whose users are others is refused.
func TestOtherUsers(t *testing.T) {
	own, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	if err := refuse.IDs(string(own)); err != nil {
		t.Errorf("this machine's own: %v", err)
	}
	for _, other := range []string{"0 1000 1\n1 100000 65536\n", "0 231072 65536", "", "0 0 1"} {
		if err := refuse.IDs(other); err == nil {
			t.Errorf("%q passed", other)
		}
	}
}

// TestOwnNamespaces: an engine that gives a container the network of this machine is
// refused, and one that tells of none; so of every other namespace.
func TestOwnNamespaces(t *testing.T) {
	own, err := inside.OwnNamespaces()
	if err != nil {
		t.Fatal(err)
	}
	others := map[string]string{}
	for name := range own {
		others[name] = name + ":[1]"
	}
	if err := refuse.Spaces(others, false, false); err != nil {
		t.Error(err)
	}
	for name, mine := range own {
		for _, theirs := range []string{mine, ""} {
			given := maps.Clone(others)
			given[name] = theirs
			for _, engine := range []struct{ podman, unified bool }{{false, false}, {false, true}, {true, true}} {
				if _, refused := errors.AsType[*sandbox.Unsupported](refuse.Spaces(given, engine.podman, engine.unified)); !refused {
					t.Errorf("%s of %+v: %q is not refused", name, engine, theirs)
				}
			}
			if passed := refuse.Spaces(given, true, false) == nil; passed != (name == "cgroup" && theirs == mine) {
				t.Errorf("%s of Podman: %q passed: %v", name, theirs, passed)
			}
		}
	}
}

// TestProcessors: what is asked of an engine is not a billionth less than was said, of
// which the engine would make less time.
func TestProcessors(t *testing.T) {
	for cpus, nano := range map[float64]int64{2.01: 2_010_000_000, 2.3: 2_300_000_000, 4.1: 4_100_000_000} {
		body, err := New(Options{}).agentContainer(sandbox.Spec{Limits: sandbox.Limits{CPUs: cpus}}, "", "", &doors{}, inside.User{})
		if err != nil {
			t.Fatal(err)
		}
		if got := body["HostConfig"].(object)["NanoCpus"]; got != nano {
			t.Errorf("%v: %v", cpus, got)
		}
	}
}

// TestAttended: who waits for a removal leaves nobody behind who asks the engine
// whether it lives.
func TestAttended(t *testing.T) {
	pinged := make(chan struct{})
	var gone atomic.Bool
	e := &engine.Client{Within: time.Millisecond, HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete {
			<-pinged
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
		}
		close(pinged)
		<-r.Context().Done()
		<-time.After(50 * time.Millisecond)
		gone.Store(true)
		return nil, r.Context().Err()
	})}}
	if err := e.Call(t.Context(), http.MethodDelete, "/x", nil, nil); err != nil {
		t.Error(err)
	}
	if !gone.Load() {
		t.Error("it is still asking")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestSweptLater: containers that cannot be removed, since the engine died, are as
// soon as it is back.
func TestSweptLater(t *testing.T) {
	d := New(Options{Socket: filepath.Join(shortDir(t), "s"), Dir: filepath.Join(shortDir(t), "d")})
	doors, err := d.openDoors("session")
	if err != nil {
		t.Fatal(err)
	}
	st := &start{d: d, a: &api{engine.New(d.o.Socket), "v1.41"}, doors: doors, agent: "aaaa", gate: "bbbb"}
	if err := st.undo(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no engine") || !strings.Contains(err.Error(), "the guardian removes it as soon as it can") {
		t.Errorf("without an engine: %v", err)
	}
	if err := d.Leftovers(t.Context()); err == nil {
		t.Error("a sweep without an engine has nothing to say")
	}
	var mu sync.Mutex
	var removed []string
	l, err := net.Listen("unix", d.o.Socket)
	if err != nil {
		t.Fatal(err)
	}
	serveAt(t, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.URL.Path == "/_ping":
			answer("1.41")(w, r)
		case r.Method == http.MethodDelete:
			removed = append(removed, r.URL.Path)
		default:
			list := []map[string]any{}
			for _, id := range []string{"aaaa", "bbbb"} {
				list = append(list, map[string]any{"Id": id, "Labels": map[string]string{labelSession: "session"}})
			}
			list = append(list, map[string]any{"Id": "cccc", "Labels": map[string]string{labelSession: "another"}})
			_ = json.NewEncoder(w).Encode(list)
		}
	}))
	if err := d.Leftovers(t.Context()); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"/v1.41/containers/aaaa", "/v1.41/containers/bbbb"}; !slices.Equal(removed, want) {
		t.Errorf("removed %v, want %v", removed, want)
	}
	if left, err := os.ReadDir(d.o.Dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestUnsure: an engine that was sent nothing makes nothing.
func TestUnsure(t *testing.T) {
	closed := listenShort(t)
	closed.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, socket string
		want         bool
	}{
		{"no engine", filepath.Join(shortDir(t), "none"), false},
		{"nobody listens", closed.Addr().String(), false},
		{"dies", serve(t, answer("1.41")), true},
	} {
		a := &api{engine.New(tt.socket), "v1.41"}
		_, err := a.create(t.Context(), sandbox.Spec{}, "init", object{})
		u, ok := errors.AsType[*sandbox.Unsupported](err)
		if _, unsure := errors.AsType[*unsureError](err); unsure != tt.want || !ok || u.Fix == "" {
			t.Errorf("%s: unsure %v, %v", tt.name, unsure, err)
		}
		a.Close()
	}
}

// TestSweepGivenUp: a sweep that nobody waits for any more takes nothing away, least
// of all from a session that it could not look at.
func TestSweepGivenUp(t *testing.T) {
	d := New(Options{Dir: shortDir(t)})
	ctx, enough := context.WithCancel(t.Context())
	d.o.Socket = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/_ping":
			answer("1.41")(w, r)
		case r.Method == http.MethodDelete:
			enough()
			<-r.Context().Done()
		default:
			_ = json.NewEncoder(w).Encode([]object{{"Id": "c", "Labels": d.labels(sandbox.Spec{ID: "dead"}, "init")}})
		}
	}))
	note := filepath.Join(d.folder("dead"), noteUnsure+"init")
	if err := errors.Join(os.Mkdir(d.folder("dead"), 0o700), os.WriteFile(note, nil, 0o600), os.Chtimes(note, time.Time{}, time.Unix(1, 0)), os.Chtimes(d.folder("dead"), time.Time{}, time.Unix(1, 0))); err != nil {
		t.Fatal(err)
	}
	d.sweepLate(ctx, "own")
	if ctx.Err() == nil {
		t.Error("the sweep did not come to remove anything")
	}
	d.sweepLate(ctx, "own") // nor one that is given up before it began
	if _, err := os.Stat(note); err != nil {
		t.Errorf("forgotten: %v", err)
	}
}

// TestSweepOfOneThatBegins: a session that has its folder, and does not listen yet, is
// no crashed one, unless it stays so.
func TestSweepOfOneThatBegins(t *testing.T) {
	d := New(Options{Dir: shortDir(t), Socket: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_ping" {
			answer("1.41")(w, r)
			return
		}
		_, _ = io.WriteString(w, "[]")
	}))})
	begins := d.folder("begins")
	if err := os.Mkdir(begins, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, age := range []time.Duration{0, 10 * time.Second} { // it may be slow
		if err := errors.Join(os.Chtimes(begins, time.Time{}, time.Now().Add(-age)), d.Leftovers(t.Context())); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(begins); err != nil {
			t.Errorf("swept after %v: %v", age, err)
		}
	}
	if err := errors.Join(os.Chtimes(begins, time.Time{}, time.Now().Add(-time.Minute)), d.Leftovers(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(begins); err == nil {
		t.Error("one that crashed is left")
	}
}

// TestRemoveFailsElsewhere: who removes a container at the same time may fail, and the
// engine's wait for it ends all the same.
func TestRemoveFailsElsewhere(t *testing.T) {
	var asked []string
	a := &api{Client: engine.New(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method)
		switch {
		case r.Method == http.MethodPost:
			_, _ = io.WriteString(w, `{"StatusCode":137,"Error":{"Message":"unable to remove filesystem"}}`)
		case len(asked) == 1:
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"message":"removal of container c is already in progress"}`)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})))}
	want := []string{http.MethodDelete, http.MethodPost, http.MethodDelete}
	if known, err := a.removeIfThere(t.Context(), "c"); err != nil || !known || !slices.Equal(asked, want) {
		t.Errorf("asked %v: known %v, %v", asked, known, err)
	}
}

// TestRemoveWhileItEnds: an engine cannot remove a container that is just ending by
// itself, and can a moment later.
func TestRemoveWhileItEnds(t *testing.T) {
	asked := 0
	a := &api{Client: engine.New(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.Method != http.MethodDelete || asked < 3 {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"message":"cannot remove: it is not running"}`)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})))}
	if err := a.remove(t.Context(), "c"); err != nil || asked != 3 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}
