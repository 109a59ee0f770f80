//go:build cloister_cluster

package kubernetes_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"cloister/internal/origin"
	"cloister/sandbox"
	"cloister/sandbox/kubernetes"
)

// These tests need a Kubernetes of one node, on which they run: script/test kubernetes.

// cluster is the node.
type cluster struct {
	t     *testing.T
	level kubernetes.Level
	admin string // the kubeconfig of whoever rules it
}

// command runs a program of the node.
func (c *cluster) command(in []byte, words ...string) (string, error) {
	c.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(c.t.Context()), words[0], words[1:]...) // a cleanup calls too
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *cluster) must(in []byte, words ...string) string {
	c.t.Helper()
	out, err := c.command(in, words...)
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return out
}

func (c *cluster) kubectl(in []byte, words ...string) string {
	c.t.Helper()
	return c.must(in, append([]string{c.level.Kubectl, "--kubeconfig=" + c.admin}, words...)...)
}

// ctr calls containerd.
func (c *cluster) ctr(words ...string) string {
	c.t.Helper()
	return c.must(nil, append([]string{"ctr", "--address=/run/containerd/containerd.sock", "--namespace=k8s.io"}, words...)...)
}

// begin makes images and namespace, once for each test by a namespace of its own.
func begin(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, admin: os.Getenv("CLOISTER_CLUSTER_ADMIN")}
	if c.admin == "" {
		t.Fatal("there is no cluster: script/test kubernetes")
	}
	c.level = kubernetes.Level{
		Instance: strings.ToLower(rand.Text()), Kubectl: os.Getenv("CLOISTER_CLUSTER_KUBECTL"), Kubeconfig: os.Getenv("CLOISTER_CLUSTER_USER"),
		Namespace: "test-" + strings.ToLower(rand.Text()[:8]), Image: "cloister.test/agent:1", Address: os.Getenv("CLOISTER_CLUSTER_NODE"),
	}
	c.images()
	text, err := c.level.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	c.kubectl(text, "apply", "--filename=-")
	c.admitted()
	return c
}

// images puts the gate's and the agent's on the node.
func (c *cluster) images() {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "gate.tar")
	f, err := os.Create(file)
	if err != nil {
		c.t.Fatal(err)
	}
	digest, err := kubernetes.WriteImage(f, os.Getenv("CLOISTER_CLUSTER_PROGRAM"), "cloister.test/gate:1")
	if err := errors.Join(err, f.Close()); err != nil {
		c.t.Fatal(err)
	}
	c.ctr("images", "import", "--digests", "--base-name=cloister.test/gate", file)
	c.level.Gate = "cloister.test/gate@" + digest
	if !strings.Contains(c.ctr("images", "list", "--quiet"), c.level.Gate) {
		c.ctr("images", "tag", "cloister.test/gate:1", c.level.Gate)
	}
	agent := filepath.Join(c.t.TempDir(), "agent.tar")
	if err := writeAgent(agent); err != nil {
		c.t.Fatal(err)
	}
	c.ctr("images", "import", agent)
}

// writeAgent writes an image of busybox.
func writeAgent(to string) error {
	text, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	t := tar.NewWriter(&layer)
	add := func(h tar.Header, data []byte) {
		h.Size = int64(len(data))
		err = errors.Join(err, t.WriteHeader(&h))
		_, werr := t.Write(data)
		err = errors.Join(err, werr)
	}
	for _, dir := range []string{"bin/", "etc/", "tmp/", "proc/", "sys/", "dev/", "home/"} {
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o1777}, nil)
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, text)
	for _, tool := range []string{"sh", "cat", "echo", "ls", "wget", "nc", "nslookup", "mount", "unshare", "ip", "sleep", "id", "kill", "true", "grep",
		"readlink", "tr", "sort", "head", "touch", "env", "pwd", "trap"} {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + tool, Linkname: "busybox"}, nil)
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return err
	}
	return writeImage(to, "cloister.test/agent:1", layer.Bytes())
}

// writeImage writes an image of one layer.
func writeImage(to, as string, layer []byte) error {
	one, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil })
	if err != nil {
		return err
	}
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux",
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{"/bin/sleep", "2147483647"}}}) // it holds the pods' namespaces too
	if err == nil {
		img, err = mutate.AppendLayers(img, one)
	}
	if err != nil {
		return err
	}
	tag, err := name.NewTag(as)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(to, tag, img)
}

// stranger is a pod that is none of the driver's.
func stranger(image string) object {
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "stranger"}, "spec": object{
		"automountServiceAccountToken": false, "containers": []object{{"name": "a", "image": image}}}}
}

// create asks for a pod as the user.
func (c *cluster) create(pod object) (string, error) {
	c.t.Helper()
	text, err := json.Marshal(pod)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.command(text, c.level.Kubectl, "--kubeconfig="+c.level.Kubeconfig, "--namespace="+c.level.Namespace, "create", "--dry-run=server", "--filename=-")
}

// admitted waits until the admission policy rules, which takes the API server a moment.
func (c *cluster) admitted() {
	c.t.Helper()
	for {
		out, err := c.create(stranger(c.level.Image))
		if err != nil && strings.Contains(out, "ValidatingAdmissionPolicy") {
			return
		}
		select {
		case <-c.t.Context().Done():
			c.t.Fatalf("the admission policy does not rule: %v\n%s", err, out)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// served is what came to the gate.
type served struct {
	mu   sync.Mutex
	went []string
}

func (s *served) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.went = append(s.went, text)
}

func (s *served) list() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.went, "\n")
}

// arm serves a gate as a guardian does, with an answer that says where a connection was going.
func (s *served) arm(t *testing.T) func(context.Context, sandbox.Gate) error {
	return func(_ context.Context, g sandbox.Gate) error {
		streams, err := net.FileListener(g.Streams)
		if err != nil {
			return err
		}
		questions, err := net.FileListener(g.DNSStreams)
		if err != nil {
			return err
		}
		g.Close()
		t.Cleanup(func() { streams.Close(); questions.Close() })
		go each(origin.Listener{Listener: streams}, func(c net.Conn) {
			to, err := origin.Of(c)
			if err != nil {
				return
			}
			s.add(to.String())
			_, _ = c.Read(make([]byte, 4096))
			body := "gate " + to.String() + "\n"
			fmt.Fprintf(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
		})
		go each(questions, func(c net.Conn) {
			size := make([]byte, 2)
			if _, err := io.ReadFull(c, size); err != nil {
				return
			}
			q := make([]byte, binary.BigEndian.Uint16(size))
			if _, err := io.ReadFull(c, q); err != nil {
				return
			}
			s.add("dns")
			q[2], q[3] = q[2]|0x80, 3 // an answer: there is no such name
			_, _ = c.Write(append(size, q...))
		})
		return nil
	}
}

func each(l net.Listener, f func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			f(c)
		}()
	}
}

func (c *cluster) driver() *kubernetes.Driver {
	return kubernetes.New(kubernetes.Options{Level: c.level, Dir: c.t.TempDir(), Env: []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent"},
		Trusted: func(string) error { return nil }})
}

// out is what a command left.
type out struct {
	status         sandbox.Status
	stdout, stderr string
	err            error
}

func spec(argv ...string) sandbox.Spec {
	return sandbox.Spec{ID: rand.Text(), Name: "Test Box", Argv: argv, Dir: "/home/agent", Network: true,
		Env:   []string{"PATH=/bin", "HOME=/home/agent", "WORD=a b"},
		User:  sandbox.User{ID: 1000, Name: "agent", Home: "/home/agent"},
		Files: []sandbox.File{{Path: "/etc/cloister-test", Data: []byte("canary"), Mode: 0o644}},
		Links: []sandbox.Link{{Path: "/.cloister/shims/tool", Target: "/.cloister/bin/hostexec"}},
	}
}

// run runs a command to its end, and during may act meanwhile.
func (c *cluster) run(d *kubernetes.Driver, s sandbox.Spec, got *served, in string, during func(sandbox.Box)) out {
	c.t.Helper()
	return c.attend(in, func(w sandbox.Wiring) (sandbox.Box, error) {
		w.Arm = got.arm(c.t)
		return d.Start(c.t.Context(), s, w)
	}, during)
}

func (c *cluster) attend(in string, start func(sandbox.Wiring) (sandbox.Box, error), during func(sandbox.Box)) out {
	c.t.Helper()
	dir := c.t.TempDir()
	var files []*os.File
	for _, n := range []string{"in", "out", "err"} {
		f, err := os.OpenFile(filepath.Join(dir, n), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			c.t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	if _, err := files[0].WriteString(in); err != nil {
		c.t.Fatal(err)
	}
	if _, err := files[0].Seek(0, 0); err != nil {
		c.t.Fatal(err)
	}
	b, err := start(sandbox.Wiring{Stdin: files[0], Stdout: files[1], Stderr: files[2]})
	if err != nil {
		return out{err: err}
	}
	if during != nil {
		during(b)
	}
	o := out{}
	o.status, o.err = b.Wait()
	stdout, _ := os.ReadFile(files[1].Name())
	stderr, _ := os.ReadFile(files[2].Name())
	o.stdout, o.stderr = string(stdout), string(stderr)
	return o
}

// pods lists those of the namespace.
func (c *cluster) pods() string {
	return c.kubectl(nil, "--namespace="+c.level.Namespace, "get", "pods", "--no-headers", "--ignore-not-found")
}

func TestClusterPod(t *testing.T) {
	c := begin(t)
	got := &served{}
	began := time.Now()
	o := c.run(c.driver(), spec("sh", "-c", `cat; echo "$WORD"; pwd; cat /etc/cloister-test; echo; id -u; ls /sys/class/net; readlink /.cloister/shims/tool
grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\t' ' '
for to in 203.0.113.9:80 10.203.0.1:443 169.254.169.254:80 $NODE:6443; do echo GET | nc -w 5 ${to%:*} ${to#*:} 2>&1; done
nslookup example.com >/dev/null 2>&1
mount -t tmpfs none /tmp 2>/dev/null && echo MOUNTED; unshare -U true 2>/dev/null && echo NAMESPACE; ip link set lo down 2>/dev/null && echo DOWN
touch /etc/cloister-test 2>/dev/null && echo WROTE; ls /cloister /var/run/secrets 2>/dev/null
echo error >&2; exit 7`), got, "from here\n", nil)
	t.Logf("%v in all\n%s\n%s", time.Since(began), o.stdout, o.stderr)
	if o.err != nil {
		t.Fatal(o.err)
	}
	if o.status.Code != 7 || o.stderr != "error\n" {
		t.Errorf("status %+v, stderr %q", o.status, o.stderr)
	}
	for _, want := range []string{"from here\na b\n/home/agent\ncanary\n1000\nlo\n/.cloister/bin/hostexec\n", "CapEff: 0000000000000000", "CapBnd: 0000000000000000",
		"NoNewPrivs: 1", "Seccomp: 2"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("%q is missing in\n%s", want, o.stdout)
		}
	}
	for _, never := range []string{"MOUNTED", "NAMESPACE", "DOWN", "WROTE"} {
		if strings.Contains(o.stdout, never) {
			t.Errorf("%s:\n%s", never, o.stdout)
		}
	}
	for _, want := range []string{"203.0.113.9:80", "10.203.0.1:443", "169.254.169.254:80", "dns"} {
		if !strings.Contains(got.list(), want) {
			t.Errorf("%s never came to the gate: %s", want, got.list())
		}
	}
	if left := c.pods(); strings.Contains(left, "cloister-") {
		t.Errorf("left: %s", left)
	}
}

func TestClusterExecAndSignal(t *testing.T) {
	c := begin(t)
	d := c.driver()
	s := spec("sh", "-c", `trap 'echo term; exit 9' TERM; echo up >/home/agent/up; while :; do sleep 1; done`)
	o := c.run(d, s, &served{}, "", func(b sandbox.Box) {
		var e out
		for { // the command may not have come so far
			more := s
			more.Argv = []string{"sh", "-c", "cat /home/agent/up 2>/dev/null || exit 3; ls /sys/class/net; exit 5"}
			e = c.attend("", func(w sandbox.Wiring) (sandbox.Box, error) { return d.Exec(t.Context(), b.Handle(), more, w) }, nil)
			if e.err != nil || e.status.Code != 3 {
				break
			}
		}
		if e.err != nil || e.status.Code != 5 || e.stdout != "up\nlo\n" {
			t.Errorf("one more command: %+v", e)
		}
		if err := b.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	if o.err != nil || o.status.Code != 9 || !strings.Contains(o.stdout, "term") {
		t.Errorf("%+v", o)
	}
	if _, err := d.Exec(t.Context(), "other/pod", s, sandbox.Wiring{}); err == nil {
		t.Error("a pod of another namespace is entered")
	}
}

// gateOf is the process of a pod's gate, on this node.
func (c *cluster) gateOf() string {
	c.t.Helper()
	for _, dir := range glob(c.t, "/proc/[0-9]*/cmdline") {
		text, err := os.ReadFile(dir)
		if err == nil && string(text) == "/cloister-pod\x00gate\x00" {
			return filepath.Base(filepath.Dir(dir))
		}
	}
	c.t.Fatal("no gate runs")
	return ""
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestClusterGateKilled(t *testing.T) {
	c := begin(t)
	o := c.run(c.driver(), spec("sleep", "1000"), &served{}, "", func(sandbox.Box) { c.must(nil, "kill", "-9", c.gateOf()) })
	if !errors.Is(o.err, kubernetes.ErrLost) {
		t.Errorf("%+v", o)
	}
	if left := c.pods(); strings.Contains(left, "cloister-") {
		t.Errorf("left: %s", left)
	}
}

func TestClusterInterfaceLater(t *testing.T) {
	c := begin(t)
	o := c.run(c.driver(), spec("sleep", "1000"), &served{}, "", func(sandbox.Box) {
		pid := c.gateOf()
		c.must(nil, "nsenter", "--net=/proc/"+pid+"/ns/net", "ip", "link", "add", "late0", "type", "veth", "peer", "name", "late1")
		c.must(nil, "nsenter", "--net=/proc/"+pid+"/ns/net", "ip", "link", "set", "late0", "up")
	})
	if !errors.Is(o.err, kubernetes.ErrLost) {
		t.Errorf("%+v", o)
	}
}

func TestClusterClosed(t *testing.T) {
	c := begin(t)
	o := c.run(c.driver(), spec("sleep", "1000"), &served{}, "", func(b sandbox.Box) {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if o.status.Signal != int(syscall.SIGKILL) {
		t.Errorf("%+v", o)
	}
	if left := c.pods(); strings.Contains(left, "cloister-") {
		t.Errorf("left: %s", left)
	}
}

func TestClusterImageMissing(t *testing.T) {
	c := begin(t)
	c.level.Image = "cloister.invalid/none:1"
	o := c.run(c.driver(), spec("true"), &served{}, "", nil)
	if !errors.Is(o.err, kubernetes.ErrLost) || !strings.Contains(o.err.Error(), "agent") {
		t.Errorf("%+v", o)
	}
	if left := c.pods(); strings.Contains(left, "cloister-") {
		t.Errorf("left: %s", left)
	}
}

func TestClusterLeftovers(t *testing.T) {
	c := begin(t)
	d := c.driver()
	s := spec("sleep", "1000")
	o := c.run(d, s, &served{}, "", func(sandbox.Box) {
		if err := d.Leftovers(t.Context(), []string{s.ID}); err != nil {
			t.Error(err)
		}
		if left := c.pods(); !strings.Contains(left, "Running") {
			t.Errorf("a living session's pod was deleted: %s", left)
		}
		if err := d.Leftovers(t.Context(), nil); err != nil { // it began after that was asked
			t.Error(err)
		}
		if left := c.pods(); !strings.Contains(left, "Running") {
			t.Errorf("the pod of a shim that lives was deleted: %s", left)
		}
		if err := c.driver().Leftovers(t.Context(), nil); err != nil { // as after the shim's end
			t.Error(err)
		}
	})
	if !errors.Is(o.err, kubernetes.ErrLost) {
		t.Errorf("%+v", o)
	}
}

// TestClusterExec: who may run commands in the agent's container may run none in the gate's.
func TestClusterExec(t *testing.T) {
	c := begin(t)
	o := c.run(c.driver(), spec("sleep", "1000"), &served{}, "", func(b sandbox.Box) {
		_, name, _ := strings.Cut(string(b.Handle()), "/")
		in := func(container, program string) (string, error) {
			return c.command(nil, c.level.Kubectl, "--kubeconfig="+c.level.Kubeconfig, "--namespace="+c.level.Namespace, "exec", name,
				"--container="+container, "--", program, "ready")
		}
		if out, err := in("agent", "/bin/true"); err != nil {
			t.Errorf("in the agent's container: %v\n%s", err, out)
		}
		if out, err := in("gate", "/cloister-pod"); err == nil || !strings.Contains(out, "ValidatingAdmissionPolicy") {
			t.Errorf("in the gate's container: %v\n%s", err, out)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if o.status.Signal != int(syscall.SIGKILL) {
		t.Errorf("%+v", o)
	}
}

// TestAdmission asks, as a user who may make pods, for those that are none of the driver's.
func TestClusterAdmission(t *testing.T) {
	c := begin(t)
	text, err := kubernetes.Described(c.level, spec("true"))
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() object {
		var pod object
		if err := json.Unmarshal(text, &pod); err != nil {
			t.Fatal(err)
		}
		return pod
	}
	if out, err := c.create(fresh()); err != nil {
		t.Fatalf("the driver's own pod is refused: %s", out)
	}
	of := func(pod object, list string) object { return pod["spec"].(object)[list].([]any)[0].(object) }
	for name, change := range map[string]func(object){
		"another gate":    func(p object) { of(p, "initContainers")["image"] = "cloister.test/agent:1" },
		"no gate":         func(p object) { delete(p["spec"].(object), "initContainers") },
		"another command": func(p object) { of(p, "initContainers")["command"] = []string{"/cloister-pod", "init"} },
		"no sidecar": func(p object) {
			delete(of(p, "initContainers"), "restartPolicy")
			delete(of(p, "initContainers"), "startupProbe")
		},
		"privileged agent": func(p object) {
			of(p, "containers")["securityContext"].(object)["privileged"] = true
			delete(of(p, "containers")["securityContext"].(object), "allowPrivilegeEscalation")
		},
		"a capability": func(p object) {
			of(p, "containers")["securityContext"].(object)["capabilities"].(object)["add"] = []string{"NET_RAW"}
		},
		"more for the gate": func(p object) {
			of(p, "initContainers")["securityContext"].(object)["capabilities"].(object)["add"] = []string{"SYS_PTRACE"}
		},
		"the node's network": func(p object) { p["spec"].(object)["hostNetwork"] = true },
		"the node's files": func(p object) {
			p["spec"].(object)["volumes"] = append(p["spec"].(object)["volumes"].([]any), object{"name": "h", "hostPath": object{"path": "/"}})
		},
		"a probe that runs in the gate": func(p object) {
			of(p, "initContainers")["startupProbe"].(object)["exec"].(object)["command"] = []string{"/cloister/x"}
		},
		"a hook that runs in the gate": func(p object) {
			of(p, "initContainers")["lifecycle"] = object{"postStart": object{"exec": object{"command": []string{"/cloister/x"}}}}
		},
		"what the gate is begun with": func(p object) {
			of(p, "initContainers")["env"] = append(of(p, "initContainers")["env"].([]any), object{"name": "GODEBUG", "value": "x"})
		},
		"the gate's filter": func(p object) {
			of(p, "initContainers")["securityContext"].(object)["seccompProfile"] = object{"type": "Unconfined"}
		},
		"the agent's filter": func(p object) {
			of(p, "containers")["securityContext"].(object)["seccompProfile"] = object{"type": "Unconfined"}
		},
		"a volume of the gate's to write to": func(p object) {
			for _, m := range of(p, "containers")["volumeMounts"].([]any) {
				delete(m.(object), "readOnly")
			}
		},
		"the gate's processes": func(p object) { p["spec"].(object)["shareProcessNamespace"] = true },
		"a token":              func(p object) { p["spec"].(object)["automountServiceAccountToken"] = true },
		"a second container": func(p object) {
			p["spec"].(object)["containers"] = append(p["spec"].(object)["containers"].([]any), object{"name": "b", "image": "cloister.test/agent:1"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fresh()
			change(pod)
			if out, err := c.create(pod); err == nil || !strings.Contains(out, "ValidatingAdmissionPolicy") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	for _, words := range [][]string{{"get", "secrets"}, {"get", "nodes"}, {"create", "deployments"}, {"create", "pods", "--namespace=default"}} {
		if out, err := c.command(nil, append([]string{c.level.Kubectl, "--kubeconfig=" + c.level.Kubeconfig, "--namespace=" + c.level.Namespace, "auth", "can-i"}, words...)...); err == nil {
			t.Errorf("may %v: %s", words, out)
		}
	}
}
