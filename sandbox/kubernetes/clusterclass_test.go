//go:build cloister_cluster

package kubernetes_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes"
)

// TestClusterClass: a RuntimeClass that the cluster lacks, one whose runtime is the usual one under the
// name of another, one that no node has a runtime for, and one that is as it says.
func TestClusterClass(t *testing.T) {
	c := begin(t)
	class := func(name, handler string) {
		text, err := json.Marshal(object{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
			"metadata": object{"name": name}, "handler": handler})
		if err != nil {
			t.Fatal(err)
		}
		c.kubectl(text, "apply", "--filename=-")
		t.Cleanup(func() { c.kubectl(nil, "delete", "runtimeclass", name) })
	}
	class("gvisor-in-name", "runc")
	class("runc-by-name", "runc")
	for _, tt := range []struct{ class, kernel, want string }{
		{"absent", "gvisor", "the cluster has none of that name"},
		{"gvisor-in-name", "gvisor", "gave the pod no kernel of gvisor"},
		{"gvisor-in-name", "kata", "gave the pod no kernel of kata"},
		{"runc-by-name", "node", ""},
	} {
		t.Run(tt.class+" "+tt.kernel, func(t *testing.T) {
			c.level.Class, c.level.Kernel = tt.class, tt.kernel
			o := c.run(c.driver(), spec("sh", "-c", "exit 5"), &served{}, "", nil)
			_, unsupported := errors.AsType[*sandbox.Unsupported](o.err)
			if tt.want == "" && (o.err != nil || o.status.Code != 5) ||
				tt.want != "" && (!unsupported || !strings.Contains(o.err.Error(), tt.want)) {
				t.Errorf("%+v; want %q", o, tt.want)
			}
			if left := c.pods(); strings.Contains(left, "cloister-") {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// TestClusterNodeLost: a node that does nothing more ends no connection. Its kubelet and the gate are
// stopped; the session is lost and says so, and when the node is back nothing of the pod is.
func TestClusterNodeLost(t *testing.T) {
	c := begin(t)
	var held []string
	o := c.run(c.driver(), spec("sleep", "1000"), &served{}, "", func(sandbox.Box) {
		held = append(held, c.gateOf())
		for _, at := range glob(t, "/proc/[0-9]*/cmdline") {
			text, err := os.ReadFile(at)
			if words := strings.Split(string(text), "\x00"); err == nil && len(words) > 1 && words[1] == "kubelet" {
				held = append(held, filepath.Base(filepath.Dir(at)))
			}
		}
		if len(held) != 2 {
			t.Fatalf("a gate and a kubelet are processes %v", held)
		}
		c.must(nil, slices.Concat([]string{"kill", "-STOP"}, held)...)
	})
	left := c.pods()
	c.must(nil, slices.Concat([]string{"kill", "-CONT"}, held)...)
	t.Logf("%v\n%s", o.err, left)
	if !errors.Is(o.err, kubernetes.ErrLost) || !strings.Contains(o.err.Error(), "the cluster has it as running still, on the node node") ||
		!strings.Contains(o.err.Error(), "may be there still") {
		t.Errorf("%+v", o)
	}
	if strings.Count(left, "cloister-") != 1 {
		t.Errorf("another pod was made: %s", left)
	}
	c.kubectl(nil, "--namespace="+c.level.Namespace, "wait", "pods", "--all", "--for=delete", "--timeout=120s")
}
