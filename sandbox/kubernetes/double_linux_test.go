package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes"
	"cloister/sandbox/kubernetes/link"
	"cloister/sandbox/kubernetes/pod"
)

// The double is kubectl, and a cluster of one pod in a folder. What it answers the tests on a
// real cluster have seen (cluster_test.go): this program plays it, when it is called with the
// folder in its environment.
const doubleOf = "CLOISTER_TEST_CLUSTER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(doubleOf); dir != "" {
		// os.Exit has the race detector wait a second, which each call would.
		syscall.Exit(double(dir, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// double is one call of kubectl.
func double(dir string, args []string) int {
	args = slices.DeleteFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "--kubeconfig=") || strings.HasPrefix(a, "--namespace=")
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	if f, err := os.OpenFile(at("asked"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(f, args[0])
		f.Close()
	}
	if f, err := os.OpenFile(at("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(f, strings.Join(args, " ")) // what a server logs of a request
		f.Close()
	}
	say := func(text string) int { fmt.Fprintln(os.Stderr, text); return 1 }
	if text, err := os.ReadFile(at("refuse-" + args[0])); err == nil {
		return say(string(text))
	}
	for n := 0; ; n++ { // answers that are given once each
		name := at(fmt.Sprintf("once-%s-%d", args[0], n))
		text, err := os.ReadFile(name)
		if err != nil {
			if _, gone := os.Stat(name + ".given"); gone == nil {
				continue
			}
			break
		}
		if err := os.Rename(name, name+".given"); err != nil {
			return say(err.Error())
		}
		if strings.HasPrefix(string(text), "done ") { // and was done all the same
			in, err := io.ReadAll(os.Stdin)
			if err == nil {
				err = os.WriteFile(at("part"), in, 0o600)
			}
			if err == nil {
				err = os.Rename(at("part"), at("pod"))
			}
			if err != nil {
				return say(err.Error())
			}
		}
		return say(strings.TrimPrefix(string(text), "done "))
	}
	if _, err := os.Stat(at("by-sandbox")); err == nil {
		if code, done := doubleSandbox(dir, args); done {
			return code
		}
	}
	switch args[0] {
	case "create":
		var text json.RawMessage
		if err := json.NewDecoder(os.Stdin).Decode(&text); err != nil {
			return say(err.Error())
		}
		if _, err := os.Stat(at("pod")); err == nil {
			return say(`Error from server (AlreadyExists): error when creating "STDIN": pods "x" already exists`)
		}
		if err := os.WriteFile(at("part"), text, 0o600); err != nil {
			return say(err.Error())
		}
		if err := os.Rename(at("part"), at("pod")); err != nil {
			return say(err.Error())
		}
	case "get":
		if at := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--raw=") }); at >= 0 {
			return doublePage(dir, strings.TrimPrefix(args[at], "--raw="))
		}
		if !slices.Contains(args, "--watch") {
			text, err := os.ReadFile(at("status"))
			if err != nil {
				return say(err.Error())
			}
			fmt.Println(string(text))
			return 0
		}
		return doubleGet(dir)
	case "delete":
		if _, err := os.Stat(at("pods")); err == nil {
			if code := doubleDelete(dir, args[2:]); code != 0 {
				return code
			}
		}
		if err := os.Remove(at("pod")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return say(err.Error())
		}
		if err := os.WriteFile(at("deleted"), nil, 0o600); err != nil {
			return say(err.Error())
		}
	case "exec":
		words := args[slices.Index(args, "--")+2:]
		if text, err := os.ReadFile(at("canary")); err == nil && words[0] == pod.RoleCanary {
			fmt.Println(string(text))
			return 0
		}
		if _, err := os.Stat(at("cut")); err == nil && words[0] == pod.RoleRun {
			return say("error: unable to upgrade connection")
		}
		return pod.Main(context.Background(), words, os.Getenv)
	}
	return 0
}

// doubleGet is a watch: what there is of the pod, each time that it has changed. The first one
// is ended by the cluster, as watches are.
func doubleGet(dir string) int {
	last := ""
	for range time.Tick(20 * time.Millisecond) {
		text, err := doubleStatus(dir)
		if _, gone := os.Stat(filepath.Join(dir, "deleted")); gone == nil {
			fmt.Fprintln(os.Stderr, `Error from server (NotFound): pods "x" not found`)
			return 1
		}
		if err != nil || string(text) == last {
			continue
		}
		last = string(text)
		fmt.Println(last)
		if f, err := os.OpenFile(filepath.Join(dir, "ended"), os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
			fmt.Fprintln(os.Stderr, "Error from server (Expired): too old resource version")
			return 1
		}
	}
	return 0
}

// world is a cluster that is the double.
type world struct {
	t      *testing.T
	dir    string
	driver *kubernetes.Driver
	folder string
	look   time.Duration // of the driver's options
	level  kubernetes.Level
	binds  []sandbox.Bind
	// refusals is the socket that the guardian would read.
	refusals *os.File

	mu   sync.Mutex
	gate *link.Gate
	conn *wire
	wg   sync.WaitGroup
}

const (
	running = `{"status":{"phase":"Running","initContainerStatuses":[{"name":"gate","state":{"running":{}}}],` +
		`"containerStatuses":[{"name":"agent","state":{"running":{}}}]}}`
	pulling = `{"status":{"phase":"Pending","containerStatuses":[{"name":"agent","state":{"waiting":{"reason":"PodInitializing"}}}]}}`
	noImage = `{"status":{"phase":"Pending","containerStatuses":[{"name":"agent","state":{"waiting":{"reason":"ErrImagePull",` +
		`"message":"no such image"}}}]}}`
	gateEnded = `{"status":{"phase":"Pending","initContainerStatuses":[{"name":"gate","state":{"waiting":{"reason":"CrashLoopBackOff"}},` +
		`"lastState":{"terminated":{"reason":"Error","message":"set packet rules: operation not permitted"}}}]}}`
	evicted = `{"status":{"phase":"Failed","reason":"Evicted","message":"the node was low on memory"}}`
)

// build makes one whose pod's gate comes, and whose status is then after.
func build(t *testing.T, gate bool, after string) *world {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: t.TempDir()}
	w.level = kubernetes.Level{Instance: "me", Kubectl: self, Kubeconfig: "/dev/null", Namespace: "agents", Gate: "gate@sha256:1",
		Image: "agent", Address: "127.0.0.1"}
	w.remake()
	w.set("status", pulling)
	w.set("canary", canary)
	w.wg.Go(func() { w.node(gate, after) })
	t.Cleanup(func() {
		w.set("over", "")
		w.wg.Wait()
		for _, what := range []string{"pod", "sandbox"} {
			if left, _ := filepath.Glob(filepath.Join(w.dir, what)); len(left) > 0 {
				t.Error("left is the " + what)
			}
		}
	})
	return w
}

// canary is what is seen inside a pod that is as it was asked for.
const canary = `{"no_new_privs":true,"seccomp":true,"uid":1000,"gate":true,"proof":"PROOF"}`

// remake makes the driver of the level.
func (w *world) remake() {
	w.folder = short(w.t)
	w.driver = kubernetes.New(kubernetes.Options{Level: w.level, Dir: w.folder, Look: w.look,
		Env: []string{doubleOf + "=" + w.dir, "PATH=/usr/bin:/bin"}, Trusted: func(string) error { return nil }})
}

// short is a folder whose name has room for a socket's.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

const user = 1000

func (w *world) set(name, text string) {
	w.t.Helper()
	part := filepath.Join(w.dir, name+".part")
	if err := os.WriteFile(part, []byte(text), 0o600); err != nil {
		w.t.Error(err)
	}
	if err := os.Rename(part, filepath.Join(w.dir, name)); err != nil {
		w.t.Error(err)
	}
}

// node runs the pod: its gate, and that alone.
func (w *world) node(comes bool, after string) {
	var described struct {
		Spec struct {
			Init []struct {
				Env []struct{ Value string }
			} `json:"initContainers"`
		}
	}
	for {
		text, err := os.ReadFile(filepath.Join(w.dir, "pod"))
		if err == nil {
			if err := json.Unmarshal(text, &described); err != nil {
				w.t.Error(err)
			}
			break
		}
		if _, err := os.Stat(filepath.Join(w.dir, "over")); err == nil {
			return
		}
		<-time.After(time.Millisecond)
	}
	if !comes {
		w.set("status", after)
		return
	}
	var o link.Order
	if err := json.Unmarshal([]byte(described.Spec.Init[0].Env[0].Value), &o); err != nil {
		w.t.Error(err)
		return
	}
	for range 2 { // others who reach the shim's address
		stranger, err := net.Dial("tcp", o.Address)
		if err != nil {
			w.t.Error(err)
			return
		}
		defer stranger.Close()
		if _, err := stranger.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
			w.t.Error(err)
		}
	}
	dialled, err := net.Dial("tcp", o.Address)
	if err != nil {
		w.t.Error(err)
		return
	}
	c := &wire{Conn: dialled, out: make(chan struct{})}
	g, err := link.Dialed(w.t.Context(), o, c)
	if err != nil {
		w.t.Error(err)
		return
	}
	w.mu.Lock()
	w.gate, w.conn = g, c
	w.mu.Unlock()
	setup, err := g.Setup(w.t.Context())
	if err != nil {
		w.t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(w.dir, "canary")); err == nil {
		w.set("canary", strings.Replace(string(text), "PROOF", setup.Proof, 1))
	}
	door, inside := net.Pipe()
	w.wg.Go(func() { _ = pod.Work(inside) })
	w.wg.Go(func() {
		if _, err := io.ReadFull(door, make([]byte, len(link.Hello))); err != nil {
			w.t.Error(err)
		}
		_ = g.Init(w.t.Context(), door)
	})
	w.wg.Go(func() { _ = g.Asked(w.t.Context(), w.dial) })
	refused, told := io.Pipe()
	w.wg.Go(func() {
		_ = g.Refused(w.t.Context(), refused)
		refused.Close() // who writes is not to wait
	})
	defer func() { // whatever went wrong: goroutines wait for these
		told.Close()
		door.Close()
		inside.Close()
		g.Close()
	}()
	if err := link.WriteFrame(told, []byte("refused")); err != nil {
		w.t.Error(err)
	}
	gone, err := g.Open(w.t.Context())
	if err != nil {
		w.t.Error(err)
		return
	}
	w.set("status", after)
	<-gone
}

// dial is the gate's connection to a port inside.
func (w *world) dial(ctx context.Context, port uint16) (*net.TCPConn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// killGate ends the gate as SIGKILL would.
func (w *world) killGate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn.Close()
}

// staying is a command that ends with the test, also where nothing ends it: kubectl is killed when its
// node is lost.
func (w *world) staying() []string {
	return []string{"sh", "-c", `while [ -d "$0" ] && ! [ -e "$0/over" ]; do sleep 0.1; done`, w.dir}
}

// run runs a command in the pod, which is on this machine.
func (w *world) run(argv []string, during func(sandbox.Box)) (st sandbox.Status, stdout, stderr string, err error) {
	w.t.Helper()
	var files [3]*os.File
	for i := range files {
		f, err := os.CreateTemp(w.t.TempDir(), "")
		if err != nil {
			w.t.Fatal(err)
		}
		files[i] = f
	}
	s := sandbox.Spec{ID: "S1", Name: "one", Argv: argv, Env: []string{"PATH=/usr/bin:/bin", "WORD=a b"}, Dir: "/", Network: true,
		User: sandbox.User{ID: user, Name: "agent", Home: "/home/agent"}, Binds: w.binds}
	b, err := w.driver.Start(w.t.Context(), s, sandbox.Wiring{Stdin: files[0], Stdout: files[1], Stderr: files[2],
		Arm: func(_ context.Context, g sandbox.Gate) error {
			if g.Streams == nil || g.DNSStreams == nil || g.Refusals == nil || len(g.Files()) != 3 {
				w.t.Errorf("%+v", g)
			}
			w.refusals = g.Refusals
			g.Refusals = nil
			g.Close()
			return nil
		}})
	for _, f := range files { // whoever started a command may
		f.Close()
	}
	if err != nil {
		return st, "", "", err
	}
	if during != nil {
		during(b)
	}
	st, err = b.Wait()
	one, _ := os.ReadFile(files[1].Name())
	two, _ := os.ReadFile(files[2].Name())
	return st, string(one), string(two), err
}

func TestDoubleRuns(t *testing.T) {
	w := build(t, true, running)
	st, stdout, stderr, err := w.run([]string{"sh", "-c", `echo "$WORD"; echo error >&2; exit 7`}, func(b sandbox.Box) {
		if h := b.Handle(); h != "agents/cloister-s1" {
			t.Errorf("the handle is %s", h)
		}
		if sandbox.ProcessOf(b) != 0 {
			t.Error("it is a process of this host")
		}
		if _, err := sandbox.Hold(w.driver, b.Handle()); err == nil {
			t.Error("it is held still")
		}
	})
	if err != nil || st.Code != 7 || stdout != "a b\n" || stderr != "error\n" {
		t.Errorf("%+v, %q, %q, %v", st, stdout, stderr, err)
	}
}

func TestDoubleSignals(t *testing.T) {
	w := build(t, true, running)
	ready := filepath.Join(t.TempDir(), "ready")
	st, _, _, err := w.run([]string{"sh", "-c", `trap 'exit 9' TERM; echo >` + ready + `; while :; do sleep 0.05; done`}, func(b sandbox.Box) {
		for {
			if _, err := os.Stat(ready); err == nil {
				break
			}
			<-time.After(time.Millisecond)
		}
		if err := b.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	if err != nil || st.Code != 9 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestDoubleFails(t *testing.T) {
	for name, tt := range map[string]struct {
		gate   bool
		after  string
		set    [2]string // a file of the double's
		during func(*world)
		want   string
	}{
		"create refused":    {true, running, [2]string{"refuse-create", `Error from server (Forbidden): pods is forbidden`}, nil, "Forbidden"},
		"no image":          {false, noImage, [2]string{}, nil, "agent does not start: ErrImagePull: no such image"},
		"the gate ended":    {false, gateEnded, [2]string{}, nil, "gate ended: set packet rules"},
		"evicted":           {true, evicted, [2]string{}, nil, "low on memory"},
		"an interface":      {true, running, [2]string{"canary", `{"interfaces":["eth0"],"no_new_privs":true,"seccomp":true,"uid":1000,"gate":true}`}, nil, "interface eth0"},
		"the gate killed":   {true, running, [2]string{}, func(w *world) { w.killGate() }, "its gate is gone"},
		"connection is cut": {true, running, [2]string{"cut", ""}, nil, "kubectl ended before the command did"},
		"not deleted":       {true, running, [2]string{"refuse-delete", "Error from server (ServiceUnavailable)"}, func(w *world) { w.killGate() }, "ServiceUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t, tt.gate, tt.after)
			if tt.set[0] != "" {
				w.set(tt.set[0], tt.set[1])
			}
			st, _, _, err := w.run(w.staying(), func(sandbox.Box) {
				if tt.during != nil {
					tt.during(w)
				}
			})
			if err == nil || !strings.Contains(err.Error(), tt.want) || st.Code != 0 {
				t.Errorf("%+v, %v; want %q", st, err, tt.want)
			}
			if tt.set[0] == "refuse-delete" {
				os.Remove(filepath.Join(w.dir, "pod"))
			}
		})
	}
}

func TestRefused(t *testing.T) {
	w := build(t, true, running)
	good := sandbox.Spec{ID: "S1", Name: "one", Argv: []string{"true"}, Dir: "/", Network: true, User: sandbox.User{ID: user, Name: "agent", Home: "/h"}}
	for name, change := range map[string]func(*sandbox.Spec){
		"files":    func(s *sandbox.Spec) { s.Binds = []sandbox.Bind{{Source: "/srv", Target: "/srv"}} },
		"image":    func(s *sandbox.Spec) { s.Root.Dir = "/image" },
		"network":  func(s *sandbox.Spec) { s.Network = false },
		"peers":    func(s *sandbox.Spec) { s.Peers = &sandbox.Peers{} },
		"judged":   func(s *sandbox.Spec) { s.Judged = []sandbox.Judged{{Path: "/x"}} },
		"devices":  func(s *sandbox.Spec) { s.Devices = []string{"fuse"} },
		"root":     func(s *sandbox.Spec) { s.User.ID = 0 },
		"own link": func(s *sandbox.Spec) { s.Links = []sandbox.Link{{Path: "/opt/x", Target: "/tmp"}} },
	} {
		s := good
		change(&s)
		_, err := w.driver.Start(t.Context(), s, sandbox.Wiring{})
		if _, ok := errors.AsType[*sandbox.Unsupported](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, h := range []sandbox.Handle{"", "4242", "other/pod", "agents/", "agents/--all"} {
		if _, err := w.driver.Exec(t.Context(), h, good, sandbox.Wiring{}); err == nil {
			t.Errorf("%q is entered", h)
		}
	}
}

func TestLevel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "level.json")
	if _, err := kubernetes.Read(path); err == nil || !strings.Contains(err.Error(), "none was set up") {
		t.Error(err)
	}
	good := kubernetes.Level{Instance: "me", Namespace: "agents", Gate: "gate", Image: "agent", Address: "10.0.0.1"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	if _, err := good.Manifests(); err == nil || !strings.Contains(err.Error(), "no digest") {
		t.Error(err)
	}
	for name, change := range map[string]func(*kubernetes.Level){
		"namespace": func(l *kubernetes.Level) { l.Namespace = "--all-namespaces" }, "address": func(l *kubernetes.Level) { l.Address = "host.example" },
		"image": func(l *kubernetes.Level) { l.Image = "" }, "gate": func(l *kubernetes.Level) { l.Gate = "" },
		"instance": func(l *kubernetes.Level) { l.Instance = "a,b" },
	} {
		l := good
		change(&l)
		if err := l.Check(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
