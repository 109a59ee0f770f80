//go:build cloister_cluster

package kubernetes_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cloister/sandbox/kubernetes"
)

// volume makes a volume of the node's with a claim that has it: this cluster has no controller that
// would.
func (c *cluster) volume(name string) {
	c.t.Helper()
	space := c.level.Namespace
	access := []string{"ReadWriteOnce"}
	size := object{"storage": "1Mi"}
	list, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": []object{
		{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": object{"name": space}, "spec": object{
			"accessModes": access, "capacity": size, "storageClassName": "none",
			"claimRef": object{"namespace": space, "name": name},
			"local":    object{"path": c.t.TempDir()}, "nodeAffinity": object{"required": object{"nodeSelectorTerms": []object{
				{"matchExpressions": []object{{"key": "kubernetes.io/hostname", "operator": "In", "values": []string{"node"}}}}}}}}},
		{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": object{"name": name, "namespace": space,
			"annotations": object{"pv.kubernetes.io/bind-completed": "yes"}}, "spec": object{
			"accessModes": access, "resources": object{"requests": size}, "storageClassName": "none", "volumeName": space}},
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.kubectl(list, "apply", "--filename=-")
	uid := c.kubectl(nil, "--namespace="+space, "get", "pvc", name, "--output=jsonpath={.metadata.uid}")
	c.kubectl(nil, "patch", "pv", space, "--type=merge", "--patch", `{"spec":{"claimRef":{"uid":"`+uid+`"}}}`)
	c.kubectl(nil, "patch", "pv", space, "--type=merge", "--subresource=status", "--patch", `{"status":{"phase":"Bound"}}`)
	c.kubectl(nil, "--namespace="+space, "patch", "pvc", name, "--type=merge", "--subresource=status", "--patch",
		`{"status":{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Mi"}}}`)
}

// TestClusterVolume: what a session wrote at /work the next one finds, in another pod. A claim that is
// not the instance's no pod is given.
func TestClusterVolume(t *testing.T) {
	c := begin(t)
	c.level.Volume = "files"
	text, err := c.level.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	c.kubectl(text, "apply", "--filename=-")
	c.volume("files")
	c.volumeAdmitted()
	d := c.driver()
	for _, tt := range []struct{ script, want string }{
		{"echo kept >/work/file && cat /work/file", "kept\n"}, {"cat /work/file && id -G", "kept\n1000\n"},
	} {
		o := c.run(d, spec("sh", "-c", tt.script), &served{}, "", nil)
		if o.err != nil || o.stdout != tt.want {
			t.Errorf("%s: %+v, %v", tt.script, o, o.err)
		}
	}
	other := c.level
	other.Volume = "theirs"
	c.volumeRefused(other.Volume)
}

// volumeAdmitted waits until the policy that lets the claim pass rules, which takes the API server a moment.
func (c *cluster) volumeAdmitted() {
	c.t.Helper()
	text, err := kubernetes.Described(c.level, spec("true"))
	if err != nil {
		c.t.Fatal(err)
	}
	var p object
	if err := json.Unmarshal(text, &p); err != nil {
		c.t.Fatal(err)
	}
	for {
		out, err := c.create(p)
		if err == nil {
			return
		}
		select {
		case <-c.t.Context().Done():
			c.t.Fatalf("the claim is not let pass: %v\n%s", err, out)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *cluster) volumeRefused(claim string) {
	c.t.Helper()
	was := c.level.Volume
	c.level.Volume = claim
	defer func() { c.level.Volume = was }()
	o := c.run(c.driver(), spec("true"), &served{}, "", nil)
	if o.err == nil || !strings.Contains(o.err.Error(), "no volume but its own") {
		c.t.Errorf("the claim %s: %+v", claim, o)
	}
}
