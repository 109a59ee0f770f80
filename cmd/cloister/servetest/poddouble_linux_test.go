package servetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"cloister/sandbox/kubernetes/link"
	"cloister/sandbox/kubernetes/pod"
)

// The double is a cluster: its API server is a socket of the test, its node starts the gate of each pod as a
// goroutine, and what a pod executes runs on this machine, by kubectl. kubectl is this very program by another
// name. What it answers the tests on a real cluster have seen (sandbox/kubernetes).
const kubectlName = "kubectl"

// apiCall is one call of kubectl, and apiAnswer a piece of what comes back.
type apiCall struct {
	Args []string
	In   []byte
}

type apiAnswer struct {
	Out, Err string
	Code     int
	Over     bool // it was the last
	Run      bool // what is to be executed runs where kubectl does, until the connection ends
}

// beKubectl is one call of it.
func beKubectl() int {
	if err := atHome(); err != nil {
		fmt.Fprintln(os.Stderr, "error: a pod has no home:", err)
		return 1
	}
	c, err := net.Dial("unix", filepath.Join(filepath.Dir(os.Args[0]), "api"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: the API server is not there:", err)
		return 1
	}
	call := apiCall{Args: slices.DeleteFunc(os.Args[1:], func(a string) bool {
		return strings.HasPrefix(a, "--kubeconfig=") || strings.HasPrefix(a, "--namespace=")
	})}
	if call.Args[0] == "create" {
		call.In, err = io.ReadAll(os.Stdin)
	}
	if err == nil {
		err = json.NewEncoder(c).Encode(call)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r := json.NewDecoder(c)
	for {
		var a apiAnswer
		if err := r.Decode(&a); err != nil {
			return 1
		}
		_, _ = os.Stdout.WriteString(a.Out) // whoever reads no more gets no more
		_, _ = os.Stderr.WriteString(a.Err)
		if a.Over {
			return a.Code
		}
		if a.Run {
			return execute(call.Args, c)
		}
	}
}

// atHome gives what a pod executes a home of the pod's at /home/user, where the test made a folder for homes.
func atHome() error {
	homes := filepath.Join(filepath.Dir(os.Args[0]), "homes")
	at := slices.IndexFunc(os.Args, func(a string) bool { return strings.HasPrefix(a, "cloister-") })
	if _, err := os.Stat(homes); err != nil || !slices.Contains(os.Args, "exec") || at < 0 || os.Getenv("CLOISTER_TEST_HOME") != "" {
		return nil
	}
	home, flags := filepath.Join(homes, os.Args[at]), "-m"
	if os.Geteuid() != 0 {
		flags = "-Urm"
	}
	if err := os.MkdirAll(home, 0o777); err != nil {
		return err
	}
	words := append([]string{"unshare", flags, "sh", "-ec",
		`mount -t tmpfs host /mnt; mkdir /mnt/home; mount --rbind /home /mnt/home; mount -t tmpfs home /home
		for of in /mnt/home/*; do mkdir "/home/${of##*/}"; mount --rbind "$of" "/home/${of##*/}"; done
		mkdir -p /home/user; mount --bind "$0" /home/user; exec "$@"`, home}, os.Args...)
	return syscall.Exec("/usr/bin/unshare", words, append(os.Environ(), "CLOISTER_TEST_HOME=1"))
}

// execute runs a command of a pod on this machine. It ends with its pod, and with kubectl.
func execute(args []string, c net.Conn) int {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	gone := make(chan struct{})
	go func() {
		_, _ = c.Read(make([]byte, 1)) // its end is what is waited for
		close(gone)
	}()
	go func() {
		select {
		case <-asked:
		case <-gone:
		}
		_ = syscall.Close(2)                                    // its container ends at once: of the command's end nothing is said
		tasks, _ := filepath.Glob("/proc/self/task/*/children") // of a process that is there
		for _, at := range tasks {
			text, _ := os.ReadFile(at)
			for word := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(word); err == nil {
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
				}
			}
		}
		syscall.Exit(137)
	}()
	words := args[slices.Index(args, "--")+2:]
	if words[0] != pod.RoleRun {
		return pod.Main(context.Background(), words, os.Getenv)
	}
	r, err := pod.ReadRun(words[1])
	r.Dir = "/" // a folder that this machine has
	if err == nil {
		err = r.Execute(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 125
	}
	return 0
}

// podCluster is the API server with its node.
type podCluster struct {
	t    *testing.T
	dir  string
	busy int // of a hundred calls that change something, how many are refused for now
	wg   sync.WaitGroup

	image, gate string // what set up says

	mu    sync.Mutex
	pods  map[string]*doublePod
	asked map[string]bool // verbs
	made  int
	most  int
}

// doublePod is one pod.
type doublePod struct {
	name, session, instance string
	host                    string // the cloister's name
	uid                     int
	order                   link.Order
	text                    string // as it was asked for
	end                     context.CancelFunc
	ended                   chan struct{} // its node has let go of it

	mu      sync.Mutex
	phase   string
	proof   string
	changed chan struct{}
}

func (p *doublePod) set(phase string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase = phase
	close(p.changed)
	p.changed = make(chan struct{})
}

// status is the pod as the API has it.
func (p *doublePod) status() (text string, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	containers := `"containerStatuses":[{"name":"agent","state":{"waiting":{"reason":"PodInitializing"}}}]`
	switch p.phase {
	case "Running":
		containers = `"initContainerStatuses":[{"name":"gate","state":{"running":{}}}],"containerStatuses":[{"name":"agent","state":{"running":{}}}]`
	case "Failed":
		containers = `"initContainerStatuses":[{"name":"gate","state":{"terminated":{"reason":"Error","message":"the shim is gone"}}}]`
	}
	return fmt.Sprintf(`{"metadata":{"name":%q},"status":{"phase":%q,%s}}`+"\n", p.name, p.phase, containers), p.changed
}

// newPodCluster starts one, of which kubectl lies in the folder that is returned.
func newPodCluster(t *testing.T, busy int) *podCluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "kc")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, kubectlName)
	if err := os.Link(self, at); err != nil { // another file system, or another user's file
		text, rerr := os.ReadFile(self)
		if err := errors.Join(rerr, os.WriteFile(at, text, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "api"))
	if err != nil {
		t.Fatal(err)
	}
	c := &podCluster{t: t, dir: dir, busy: busy, image: "agent:1", gate: "gate@sha256:1", pods: map[string]*doublePod{}, asked: map[string]bool{}}
	c.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.answer(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		c.mu.Lock()
		for name, p := range c.pods {
			t.Errorf("the pod %s of %s is left", name, p.host)
			p.end()
		}
		c.mu.Unlock()
		c.wg.Wait()
		os.RemoveAll(dir)
	})
	return c
}

// answer serves one call.
func (c *podCluster) answer(conn net.Conn) {
	defer conn.Close()
	var call apiCall
	if err := json.NewDecoder(bufio.NewReader(conn)).Decode(&call); err != nil || len(call.Args) == 0 {
		return
	}
	w := json.NewEncoder(conn)
	say := func(a apiAnswer) bool { return w.Encode(a) == nil }
	over := func(out, errs string) {
		a := apiAnswer{Out: out, Err: errs, Over: true}
		if errs != "" {
			a.Code = 1
		}
		say(a)
	}
	gone := make(chan struct{})
	go func() {
		_, _ = conn.Read(make([]byte, 1)) // kubectl says nothing more, until it ends
		close(gone)
	}()
	verb := call.Args[0]
	c.mu.Lock()
	c.asked[verb] = true
	c.mu.Unlock()
	refused := rand.IntN(100) < c.busy
	if refused && (verb == "create" || verb == "delete") && rand.IntN(2) == 0 {
		over("", "Error from server (TooManyRequests): the server is busy\n")
		return
	}
	switch verb {
	case "create":
		if err := c.create(call.In); err != nil {
			over("", err.Error()+"\n")
			return
		}
	case "delete":
		for _, name := range call.Args[2:] {
			c.remove(name)
		}
	case "get":
		c.get(call.Args, gone, say, over)
		return
	case "exec":
		c.exec(call.Args, gone, say, over)
		return
	}
	if refused { // it was done all the same
		over("", "Error from server (InternalError): the answer was lost\n")
		return
	}
	over("", "")
}

func (c *podCluster) find(name string) *doublePod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[name]
}

// create makes a pod, and the node starts its gate.
func (c *podCluster) create(text []byte) error {
	var d struct {
		Metadata struct {
			Name   string
			Labels map[string]string
		}
		Spec struct {
			Hostname string
			Init     []struct{ Env []struct{ Value string } } `json:"initContainers"`
			Main     []struct {
				Security struct {
					User int `json:"runAsUser"`
				} `json:"securityContext"`
			} `json:"containers"`
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	p := &doublePod{name: d.Metadata.Name, session: d.Metadata.Labels["cloister/session"], instance: d.Metadata.Labels["cloister/instance"],
		host: d.Spec.Hostname, uid: d.Spec.Main[0].Security.User, text: string(text), phase: "Pending", changed: make(chan struct{}), ended: make(chan struct{})}
	if err := json.Unmarshal([]byte(d.Spec.Init[0].Env[0].Value), &p.order); err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods[p.name] != nil {
		end()
		return fmt.Errorf(`Error from server (AlreadyExists): error when creating "STDIN": pods %q already exists`, p.name)
	}
	c.pods[p.name] = p
	c.made++
	c.most = max(c.most, len(c.pods))
	c.wg.Go(func() {
		defer close(p.ended)
		p.run(ctx)
		p.set("Failed")
	})
	return nil
}

func (c *podCluster) remove(name string) {
	p := c.find(name)
	if p == nil {
		return
	}
	p.end()
	<-p.ended
	_ = os.RemoveAll(filepath.Join(c.dir, "homes", name)) // its volumes end with it
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pods, name)
}

func (c *podCluster) get(args []string, gone <-chan struct{}, say func(apiAnswer) bool, over func(out, errs string)) {
	if at := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--raw=") }); at >= 0 {
		if strings.HasPrefix(args[at], "--raw=/apis/") {
			over("", "Error from server (NotFound): the server could not find the requested resource\n")
			return
		}
		items := []any{}
		c.mu.Lock()
		for _, p := range c.pods {
			if strings.Contains(args[at], p.instance) {
				items = append(items, map[string]any{"metadata": map[string]any{"name": p.name,
					"labels": map[string]string{"cloister/instance": p.instance, "cloister/session": p.session}}})
			}
		}
		c.mu.Unlock()
		text, err := json.Marshal(map[string]any{"kind": "PodList", "metadata": map[string]any{}, "items": items})
		if err != nil {
			over("", err.Error())
			return
		}
		over(string(text), "")
		return
	}
	for n := 0; ; n++ {
		p := c.find(args[2])
		if p == nil {
			over("", fmt.Sprintf("Error from server (NotFound): pods %q not found\n", args[2]))
			return
		}
		text, changed := p.status()
		if !slices.Contains(args, "--watch") {
			over(text, "")
			return
		}
		if !say(apiAnswer{Out: text}) {
			return
		}
		if rand.IntN(100) < c.busy {
			over("", "Error from server (Expired): too old resource version\n")
			return
		}
		select {
		case <-changed:
		case <-gone:
			return
		}
	}
}

func (c *podCluster) exec(args []string, gone <-chan struct{}, say func(apiAnswer) bool, over func(out, errs string)) {
	name := args[slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "cloister-") })]
	p := c.find(name)
	if p == nil {
		over("", fmt.Sprintf("Error from server (NotFound): pods %q not found\n", name))
		return
	}
	if slices.Contains(args, pod.RoleCanary) {
		p.mu.Lock()
		defer p.mu.Unlock()
		over(fmt.Sprintf(`{"no_new_privs":true,"seccomp":true,"uid":%d,"gate":true,"proof":%q}`, p.uid, p.proof), "")
		return
	}
	if !say(apiAnswer{Run: true}) {
		return
	}
	select {
	case <-gone:
	case <-p.ended:
	}
}

// run is the pod on its node: a gate, and the first process of the agent's container.
func (p *doublePod) run(ctx context.Context) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", p.order.Address)
	if err != nil {
		return // the shim is gone: so is the gate
	}
	defer conn.Close()
	g, err := link.Dialed(ctx, p.order, conn)
	if err != nil {
		return
	}
	defer g.Close()
	setup, err := g.Setup(ctx)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.proof = setup.Proof
	p.mu.Unlock()
	door, inside := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { _ = pod.Work(inside) })
	wg.Go(func() {
		if _, err := io.ReadFull(door, make([]byte, len(link.Hello))); err == nil {
			_ = g.Init(ctx, door)
		}
	})
	wg.Go(func() {
		_ = g.Asked(ctx, func(context.Context, uint16) (*net.TCPConn, error) { return nil, errors.New("nothing listens") })
	})
	defer wg.Wait()
	defer inside.Close()
	defer door.Close()
	defer g.Close()
	gone, err := g.Open(ctx)
	if err != nil {
		return
	}
	p.set("Running")
	select {
	case <-gone:
	case <-ctx.Done():
	}
}

// hosts are the names of the cloisters that have a pod.
func (c *podCluster) hosts() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pods {
		out = append(out, p.host)
	}
	slices.Sort(out)
	return out
}

// of is the pod of a cloister; nil for none.
func (c *podCluster) of(host string) *doublePod {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pods {
		if p.host == host {
			return p
		}
	}
	return nil
}

// lose ends the gate of a cloister's pod, as the loss of its node does.
func (c *podCluster) lose(host string) {
	c.t.Helper()
	p := c.of(host)
	if p == nil {
		c.t.Fatalf("%s has no pod", host)
	}
	p.end()
	<-p.ended
}

// described is what was asked for as the pod of a cloister; empty for none.
func (c *podCluster) described(host string) string {
	if p := c.of(host); p != nil {
		return p.text
	}
	return ""
}

// verbs are those of kubectl that were called.
func (c *podCluster) verbs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.asked))
}

// setUp has the server's pods made there, of the cluster's images.
func (s *server) setUp(c *podCluster) {
	s.t.Helper()
	cmd := s.command("setup", "kubernetes", "--address", "127.0.0.1", "--image", c.image, "--gate", c.gate)
	cmd.Env = append(slices.Clone(s.env), "KUBECONFIG="+filepath.Join(c.dir, "config"), "PATH="+c.dir+":/usr/bin:/bin")
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("setup: %v\n%s", err, out)
	}
}

// onDouble has the server's tenants have pods of a double.
func (s *server) onDouble(c *podCluster) {
	s.t.Helper()
	s.setUp(c)
	for tenant := range s.keys {
		dir := filepath.Join(s.dir, "d/cloister/serve/t", tenant, "config/cloister")
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("defaults:\n  isolation: kubernetes\n"), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}
