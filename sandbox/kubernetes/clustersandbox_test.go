//go:build cloister_cluster

package kubernetes_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes"
)

// byAgentSandbox has the controller of agent-sandbox make the pods, which script/kubernetes started.
func byAgentSandbox(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv("CLOISTER_AGENT_SANDBOX") == "" {
		t.Fatal("there is no agent-sandbox: script/test kubernetes")
	}
	c := begin(t)
	c.level.Maker = kubernetes.MakerSandbox
	text, err := c.level.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	c.kubectl(text, "apply", "--filename=-")
	return c
}

// made lists pods and Sandboxes of the namespace.
func (c *cluster) made() string {
	return c.pods() + c.kubectl(nil, "--namespace="+c.level.Namespace, "get", "sandboxes.agents.x-k8s.io", "--no-headers", "--ignore-not-found")
}

// TestClusterSandbox runs a command in a pod that agent-sandbox made, kills the gate of another, and has a user who may
// make Sandboxes make neither pods nor volumes.
func TestClusterSandbox(t *testing.T) {
	c := byAgentSandbox(t)
	s := spec("sh", "-c", `cat; ls /sys/class/net; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status | tr '\t' ' '; exit 7`)
	s.Limits = sandbox.Limits{Memory: 1 << 30, CPUs: 1.5}
	began := time.Now()
	o := c.run(c.driver(), s, &served{}, "from here\n", func(b sandbox.Box) { c.keepSeen(b) })
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("%v in all, load %s\n%s", time.Since(began), load, o.stdout)
	if o.err != nil || o.status.Code != 7 || !strings.HasPrefix(o.stdout, "from here\nlo\nCapEff: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n") {
		t.Errorf("%+v, %v", o, o.err)
	}
	if left := c.made(); strings.Contains(left, "cloister-") {
		t.Errorf("left: %s", left)
	}

	o = c.run(c.driver(), spec("sh", "-c", "while :; do sleep 1; done"), &served{}, "", func(sandbox.Box) {
		if out, err := c.command(nil, "kill", "-9", c.gateOf()); err != nil {
			t.Errorf("%v %s", err, out)
		}
	})
	if !errors.Is(o.err, kubernetes.ErrLost) {
		t.Errorf("the gate killed: %v", o.err)
	}
	if left := c.made(); strings.Contains(left, "cloister-") {
		t.Errorf("left: %s", left)
	}

	// What a shim that was killed left, with its pod that no gate serves.
	left := object{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": object{"name": "cloister-left",
		"labels": object{"cloister/instance": c.level.Instance, "cloister/session": "left"}},
		"spec": object{"podTemplate": object{"metadata": object{"labels": object{"cloister/instance": c.level.Instance, "cloister/session": "left"}},
			"spec": object{"containers": []object{{"name": "a", "image": "x"}}}}}}
	text, err := json.Marshal(left)
	if err != nil {
		t.Fatal(err)
	}
	c.kubectl(text, "--namespace="+c.level.Namespace, "create", "--filename=-")
	if err := c.driver().Leftovers(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if left := c.made(); strings.Contains(left, "cloister-") {
		t.Errorf("left: %s", left)
	}

	asUser := func(in string, words ...string) (string, error) {
		return c.command([]byte(in), append([]string{c.level.Kubectl, "--kubeconfig=" + c.level.Kubeconfig, "--namespace=" + c.level.Namespace}, words...)...)
	}
	if out, err := asUser("", "auth", "can-i", "create", "pods"); err == nil {
		t.Errorf("the user makes pods: %s", out)
	}
	const own = `{"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox","metadata":{"name":"own"},"spec":{"podTemplate":{"spec":{"containers":[]}},EXTRA}}`
	for _, extra := range []string{`"service":true`, `"volumeClaimTemplates":[{"metadata":{"name":"v"},"spec":{"accessModes":["ReadWriteOnce"]}}]`} {
		for { // until the policy about Sandboxes rules
			out, err := asUser(strings.Replace(own, "EXTRA", extra, 1), "create", "--dry-run=server", "--filename=-")
			if err != nil && strings.Contains(out, "a Sandbox makes no") {
				break
			}
			if t.Context().Err() != nil {
				t.Fatalf("%s: %v\n%s", extra, err, out)
			}
			<-time.After(100 * time.Millisecond)
		}
	}
	if out, err := asUser(strings.Replace(own, "EXTRA", `"service":false`, 1), "create", "--dry-run=server", "--filename=-"); err != nil {
		t.Errorf("the control, one with neither: %v\n%s", err, out)
	}
}

// keepSeen writes down what was asked for and what there is, for package exact.
func (c *cluster) keepSeen(b sandbox.Box) {
	c.t.Helper()
	dir := os.Getenv("CLOISTER_SEEN")
	if dir == "" {
		return
	}
	_, name, _ := strings.Cut(string(b.Handle()), "/")
	var s struct {
		Metadata struct{ Name string }
		Spec     struct{ PodTemplate object }
	}
	get := func(what string) string {
		return c.kubectl(nil, "--namespace="+c.level.Namespace, "get", what, name, "--output=json")
	}
	if err := json.Unmarshal([]byte(get("sandboxes.agents.x-k8s.io")), &s); err != nil {
		c.t.Fatal(err)
	}
	s.Spec.PodTemplate["metadata"].(object)["name"] = s.Metadata.Name
	text, err := json.MarshalIndent(s.Spec.PodTemplate, "", " ")
	if err != nil {
		c.t.Fatal(err)
	}
	for file, text := range map[string]string{"asked.json": string(text), "pod.json": get("pod")} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestClusterSandboxTampered has the agent's image changed while the pod starts: nothing runs in it, and it is removed.
func TestClusterSandboxTampered(t *testing.T) {
	c := byAgentSandbox(t)
	if !strings.Contains(c.ctr("images", "list", "--quiet"), "cloister.test/agent:other") {
		c.ctr("images", "tag", c.level.Image, "cloister.test/agent:other")
	}
	changed := make(chan string, 1)
	s := spec("sh", "-c", "echo RAN")
	go func() {
		for name := "cloister-" + strings.ToLower(s.ID); ; {
			out, err := c.command(nil, c.level.Kubectl, "--kubeconfig="+c.admin, "--namespace="+c.level.Namespace, "set", "image", "pod/"+name,
				"agent=cloister.test/agent:other")
			if err == nil || t.Context().Err() != nil {
				changed <- out
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}()
	o := c.run(c.driver(), s, &served{}, "", nil)
	u, refused := errors.AsType[*sandbox.Unsupported](o.err)
	if !refused || !strings.HasSuffix(u.Reason, "differs in containers[0].image") || o.stdout != "" {
		t.Errorf("%v, %q", o.err, o.stdout)
	}
	if out := <-changed; !strings.Contains(out, "image updated") {
		t.Errorf("nothing was changed: %s", out)
	}
	if left := c.made(); strings.Contains(left, "cloister-") {
		t.Errorf("left: %s", left)
	}
}
