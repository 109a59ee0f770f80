//go:build cloister_cluster

package kubernetes_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/sandbox"
)

// attack is one thing that is attempted from inside, as a shell's words. It came off where its output
// has the mark. The same words are run in a plain pod of the cluster first, where they must come
// off: an attempt that cannot succeed proves nothing.
type attack struct {
	what, stands string
	words, mark  string
	pod          plain // the plain pod that the control needs
}

// plain is a pod without a gate.
type plain uint8

const (
	bare       plain = iota
	privileged       // with all of its node's powers
	beside           // whose other container has a secret, in a process that it sees
	tokened          // with a token of the cluster
	writable         // with the gate's folder, as a volume that it may write
)

// words are the attacks. The test has servers at the node's address, and a pod of its own.
func attacks(node, port, udp, other string) []attack {
	get := func(host, port string) string {
		return `printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 4 ` + host + " " + port + " 2>&1"
	}
	return []attack{
		{"a server by its address", "no interface but loopback; the gate", get(node, port), "OUTSIDE", bare},
		{"the API server by its address", "the same", get(node, "6443"), "HTTPS server", bare},
		{"the node's kubelet", "the same", get(node, "10250"), "HTTPS server", bare},
		{"the metadata address", "the same", get("169.254.169.254", "80"), "METADATA", bare},
		{"another pod by its address", "the same", get(other, "7000"), "OTHER POD", bare},
		{"a datagram to a server", "packet rules of the gate", "/bin/busybox timeout 2 /bin/busybox tftp -g -r leak " + node + " " + udp + " >/dev/null 2>&1; " + get(node, port), "LEAKED", bare},
		{"a question of DNS to a server of its own choice", "every question ends at the gate",
			"nslookup -type=a leak.example " + node + " >/dev/null 2>&1; sleep 1; " + get(node, port), "ASKED", bare},
		{"a token of the cluster", "no token is mounted", "cat /var/run/secrets/tokens/token 2>&1 | head -c 2 | grep -q ey && echo TOKEN", "TOKEN", tokened},
		{"the gate's key, out of its process", "namespaces of processes", "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep '^CLOISTER_GATE='", "CLOISTER_GATE", beside},
		{"the program that starts each command, replaced", "the folder is mounted read-only",
			"/bin/busybox cp /bin/busybox /.cloister/cloister-pod 2>/dev/null && echo REPLACED", "REPLACED", writable},
		{"a file system mounted", "no capability", "mount -t tmpfs none /tmp 2>/dev/null && echo MOUNTED", "MOUNTED", privileged},
		{"the network taken down and up", "no capability", "ip link set lo down 2>/dev/null && ip link set lo up && echo DOWN", "DOWN", privileged},
		{"an interface of its own", "no capability", "ip link add own0 type veth peer name own1 2>/dev/null && echo MADE", "MADE", privileged},
		{"a network namespace of its own", "no capability, the filter of system calls", "unshare -n true 2>/dev/null && echo UNSHARED", "UNSHARED", privileged},
		{"the node's devices", "the runtime's", "/bin/busybox mknod /tmp/disk b 254 0 2>/dev/null && echo DEVICE", "DEVICE", privileged},
	}
}

// describe is the plain pod.
func (k plain) describe(name, image string) object {
	container := object{"name": "agent", "image": image, "command": []string{"/bin/sleep", "100000"}, "imagePullPolicy": "Never"}
	spec := object{"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false, "containers": []object{container}}
	switch k {
	case bare:
	case privileged:
		container["securityContext"] = object{"privileged": true}
	case beside:
		spec["shareProcessNamespace"] = true
		spec["containers"] = []object{container, {"name": "gate", "image": image, "command": []string{"/bin/sleep", "100000"}, "imagePullPolicy": "Never",
			"env": []object{{"name": "CLOISTER_GATE", "value": "key"}}}}
	case tokened:
		spec["serviceAccountName"] = "default"
		spec["volumes"] = []object{{"name": "t", "projected": object{"sources": []object{{"serviceAccountToken": object{"path": "token"}}}}}}
		container["volumeMounts"] = []object{{"name": "t", "mountPath": "/var/run/secrets/tokens"}}
	case writable:
		spec["volumes"] = []object{{"name": "v", "emptyDir": object{}}}
		container["volumeMounts"] = []object{{"name": "v", "mountPath": "/.cloister"}}
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name}, "spec": spec}
}

// plainPods makes them in a namespace of their own, and gives how words are run in one.
func (c *cluster) plainPods() (run func(k plain, words string) string, address func(k plain) string) {
	c.t.Helper()
	namespace := "plain-" + strings.ToLower(rand.Text()[:8])
	c.kubectl(nil, "create", "namespace", namespace)
	c.t.Cleanup(func() { c.kubectl(nil, "delete", "namespace", namespace, "--wait=false") })
	c.kubectl(nil, "--namespace="+namespace, "create", "serviceaccount", "default")
	name := func(k plain) string { return fmt.Sprintf("plain-%d", k) }
	for k := bare; k <= writable; k++ {
		c.kubectl(text(c.t, k.describe(name(k), c.level.Image)), "--namespace="+namespace, "create", "--filename=-")
	}
	for k := bare; k <= writable; k++ {
		c.kubectl(nil, "--namespace="+namespace, "wait", "--for=condition=Ready", "--timeout=180s", "pod/"+name(k))
	}
	c.t.Cleanup(func() {
		c.kubectl(nil, "--namespace="+namespace, "delete", "pods", "--all", "--grace-period=0", "--force", "--wait=true")
	})
	run = func(k plain, words string) string {
		out, _ := c.command(nil, c.level.Kubectl, "--kubeconfig="+c.admin, "--namespace="+namespace, "exec", name(k), "--container=agent", "--",
			"/bin/sh", "-c", words)
		return out
	}
	address = func(k plain) string {
		return strings.TrimSpace(c.kubectl(nil, "--namespace="+namespace, "get", "pod", name(k), "--output=jsonpath={.status.podIP}"))
	}
	return run, address
}

// outside are servers at the node's address. What came by datagrams they tell who asks them by TCP.
type outside struct{ leaked, asked atomic.Bool }

func (o *outside) serve(t *testing.T, address, says string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go each(l, func(c net.Conn) {
		text := says
		if o.leaked.Load() {
			text += " LEAKED"
		}
		if o.asked.Load() {
			text += " ASKED"
		}
		_, _ = c.Write([]byte(text + "\n"))
	})
}

func (o *outside) datagrams(t *testing.T, address string, come *atomic.Bool) {
	t.Helper()
	c, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			if _, _, err := c.ReadFrom(buf); err != nil {
				return
			}
			come.Store(true)
		}
	}()
}

// TestClusterAttacks attacks a cloister's pod from inside, each time after a plain pod, and writes
// the table of it to the file that CLOISTER_ATTACKS names.
func TestClusterAttacks(t *testing.T) {
	c := begin(t)
	node := c.level.Address
	c.must(nil, "ip", "addr", "add", "169.254.169.254/32", "dev", "node0")
	t.Cleanup(func() { c.must(nil, "ip", "addr", "del", "169.254.169.254/32", "dev", "node0") })
	servers := &outside{}
	servers.serve(t, node+":7100", "OUTSIDE")
	servers.serve(t, "169.254.169.254:80", "METADATA")
	servers.datagrams(t, node+":7101", &servers.leaked)
	servers.datagrams(t, node+":53", &servers.asked)
	run, address := c.plainPods()
	serving, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for serving.Err() == nil {
			run(privileged, "echo OTHER POD | nc -l -p 7000")
		}
	}()
	d := c.driver()
	s := spec("sleep", "100000")
	got := &served{}
	var rows []string
	o := c.run(d, s, got, "", func(b sandbox.Box) {
		for _, a := range attacks(node, "7100", "7101", address(privileged)) {
			servers.leaked.Store(false)
			servers.asked.Store(false)
			control := ""
			for range 5 { // the other pod's server is begun anew for each
				if control = run(a.pod, a.words); strings.Contains(control, a.mark) {
					break
				}
				<-time.After(500 * time.Millisecond)
			}
			if !strings.Contains(control, a.mark) {
				t.Errorf("%s: it does not come off in a plain pod either: %s", a.what, control)
			}
			servers.leaked.Store(false)
			servers.asked.Store(false)
			more := s
			more.Argv = []string{"sh", "-c", a.words}
			e := c.attend("", func(w sandbox.Wiring) (sandbox.Box, error) { return d.Exec(t.Context(), b.Handle(), more, w) }, nil)
			leaked, asked := servers.leaked.Load(), servers.asked.Load()
			verdict := "held"
			if e.err != nil || strings.Contains(e.stdout, a.mark) || leaked || asked {
				t.Errorf("%s: %+v", a.what, e)
				verdict = "**came off**"
			}
			rows = append(rows, fmt.Sprintf("| %s | %s | came off | %s |", a.what, a.stands, verdict))
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if o.status.Signal == 0 {
		t.Errorf("%+v", o)
	}
	rows = append(rows, c.gateKilled(t), c.interfaceLater(t, run))
	if to := os.Getenv("CLOISTER_ATTACKS"); to != "" && !t.Failed() {
		if err := os.WriteFile(to, []byte(strings.Replace(attacksHead, "of one node.", "of one node on "+time.Now().UTC().Format("2 January 2006")+".", 1)+strings.Join(rows, "\n")+"\n"), 0o644); err != nil {
			t.Error(err)
		}
	}
}

const attacksHead = `# Attacks from inside a pod

Written by ` + "`script/test kubernetes`" + ` on a real Kubernetes 1.35 of one node. Each attempt is the same words of a shell, first in a
plain pod of the same cluster, where it must come off, then in a cloister's.

| attempt | what stands in its way | in a plain pod | in a cloister's pod |
|---|---|---|---|
`

// gateKilled: what the gate held stays held when it is gone, and the session ends.
func (c *cluster) gateKilled(t *testing.T) string {
	t.Helper()
	o := c.run(c.driver(), spec("sh", "-c", "while :; do echo GET | nc -w 2 "+c.level.Address+" 7100 2>&1; done"), &served{}, "", func(sandbox.Box) {
		<-time.After(2 * time.Second)
		c.must(nil, "kill", "-9", c.gateOf())
	})
	if o.err == nil || strings.Contains(o.stdout, "OUTSIDE") {
		t.Errorf("the gate killed: %+v", o)
		return "| the gate killed | | | **came off** |"
	}
	return "| a server by its address, while the gate is killed | its network ends with it, and so does the session | came off | held: " +
		strings.SplitN(o.err.Error(), ",", 2)[0] + " |"
}

// interfaceLater gives a pod an interface while it runs, as a node or a plugin could.
func (c *cluster) interfaceLater(t *testing.T, run func(plain, string) string) string {
	t.Helper()
	give := func(pid, peer string) {
		in := []string{"nsenter", "--net=/proc/" + pid + "/ns/net"}
		c.must(nil, "ip", "link", "add", peer, "type", "veth", "peer", "name", "late0", "netns", pid)
		c.must(nil, "ip", "addr", "add", "10.209.0.1/24", "dev", peer)
		c.must(nil, "ip", "link", "set", peer, "up")
		c.must(nil, append(in, "ip", "addr", "add", "10.209.0.2/24", "dev", "late0")...)
		c.must(nil, append(in, "ip", "link", "set", "late0", "up")...)
	}
	servers := &outside{}
	const words = "echo GET | nc -w 3 10.209.0.1 7100 2>&1"
	// The plain pod's process is the one that this test finds by a word of its own.
	go run(bare, "exec /bin/sleep 77777")
	pid := c.processOf("/bin/sleep\x0077777\x00")
	give(pid, "latea")
	servers.serve(t, "10.209.0.1:7100", "LATE")
	if control := run(bare, words); !strings.Contains(control, "LATE") {
		t.Errorf("an interface that comes later: it does not come off in a plain pod either: %s", control)
	}
	c.must(nil, "ip", "link", "del", "latea")
	o := c.run(c.driver(), spec("sh", "-c", "while :; do "+words+"; done"), &served{}, "", func(sandbox.Box) { give(c.gateOf(), "lateb") })
	c.command(nil, "ip", "link", "del", "lateb") // it went with the pod
	if o.err == nil || strings.Contains(o.stdout, "LATE") {
		t.Errorf("an interface that comes later: %+v", o)
		return "| an interface that comes later | | | **came off** |"
	}
	return "| a server behind an interface that comes later | the gate watches, and ends | came off | held: " +
		strings.SplitN(o.err.Error(), ",", 2)[0] + " |"
}

// processOf finds a process of this node by its words.
func (c *cluster) processOf(words string) string {
	c.t.Helper()
	for c.t.Context().Err() == nil {
		for _, file := range glob(c.t, "/proc/[0-9]*/cmdline") {
			if text, err := os.ReadFile(file); err == nil && string(text) == words {
				return strings.Split(file, "/")[2]
			}
		}
		<-time.After(50 * time.Millisecond)
	}
	c.t.Fatal("the process never came")
	return ""
}

func text(t *testing.T, v object) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
