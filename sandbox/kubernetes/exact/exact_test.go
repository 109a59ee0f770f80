package exact_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/sandbox/kubernetes/exact"
)

// What a Sandbox asked for and the pod that agent-sandbox v0.5.6 made of it, as an API server of 1.35.4 has it:
// TestClusterSandbox writes both to CLOISTER_SEEN.
func seen(t testing.TB) (asked, pod []byte, o exact.Owner) {
	t.Helper()
	asked, err := os.ReadFile("testdata/asked.json")
	if err != nil {
		t.Fatal(err)
	}
	if pod, err = os.ReadFile("testdata/pod.json"); err != nil {
		t.Fatal(err)
	}
	return asked, pod, exact.Owner{Group: "agents.x-k8s.io", Kind: "Sandbox", Name: "cloister-nmj526alfjlgbmyqov35xcb34i",
		UID: "001a38fd-87bf-4292-8318-80f81eb44b38"}
}

const ours = "cloister/"

type object = map[string]any

func decode(t testing.TB, text []byte) (v object) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func differs(t testing.TB, asked []byte, pod object, o exact.Owner) string {
	t.Helper()
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	d, err := exact.Differs(asked, text, ours, o)
	if err != nil {
		return err.Error() // it is not believed either
	}
	return d
}

func TestAsAskedFor(t *testing.T) {
	asked, pod, o := seen(t)
	if d := differs(t, asked, decode(t, pod), o); d != "" {
		t.Errorf("a real cluster's differs in %s", d)
	}
	// A server may write numbers in the shortest way.
	text := strings.NewReplacer(`"1.500"`, `"1500m"`, `"1073741824"`, `"1Gi"`, `"256Mi"`, `"268435456"`).Replace(string(pod))
	if d := differs(t, asked, decode(t, []byte(text)), o); d != "" || text == string(pod) {
		t.Errorf("the same numbers differ in %s", d)
	}
	for _, other := range []string{`"1501m"`, `"2"`, `"1.5.0"`, `""`, `"1500"`} {
		text := strings.ReplaceAll(string(pod), `"1.500"`, other)
		if d := differs(t, asked, decode(t, []byte(text)), o); !strings.HasPrefix(d, "containers[0].resources.") {
			t.Errorf("%s: %q", other, d)
		}
	}
}

// free are the places where any value may be: what says where the pod runs, and what is no part of its description.
var free = []string{"spec.nodeName", "spec.schedulerName", "spec.tolerations", "spec.priority", "spec.preemptionPolicy",
	"apiVersion", "kind", "metadata.creationTimestamp", "metadata.generation", "metadata.resourceVersion", "metadata.uid", "metadata.namespace",
	"metadata.annotations.agents.x-k8s.io/propagated-labels", "metadata.labels.agents.x-k8s.io/sandbox-name-hash",
	"metadata.ownerReferences[0].blockOwnerDeletion", "metadata.ownerReferences[0].apiVersion"}

// TestEveryDifference changes the pod of the real cluster at each place: every value, every field that is taken away, and
// every one that is added to an object or a list.
func TestEveryDifference(t *testing.T) {
	asked, text, o := seen(t)
	pod := decode(t, text)
	tried := 0
	try := func(at, how string) {
		tried++
		if d := differs(t, asked, pod, o); d == "" {
			t.Errorf("%s: %s is no difference", at, how)
		}
	}
	var walk func(at string, v any, set func(any))
	walk = func(at string, v any, set func(any)) {
		if slices.ContainsFunc(free, func(f string) bool { return at == f }) {
			return
		}
		switch v := v.(type) {
		case object:
			for name, of := range v {
				below := strings.TrimPrefix(at+"."+name, ".")
				walk(below, of, func(to any) { v[name] = to })
				if at == "" || strings.HasSuffix(below, "terminationMessagePath") || strings.HasSuffix(below, "terminationMessagePolicy") ||
					slices.Contains(free, below) || strings.HasPrefix(below, "spec.serviceAccount") || below == "metadata.annotations" ||
					strings.HasSuffix(below, ".successThreshold") || strings.HasSuffix(below, ".timeoutSeconds") ||
					strings.HasSuffix(below, "initContainers[0].resources") || below == "spec.securityContext" {
					continue // what is not there is as usual
				}
				delete(v, name)
				try(below, "without it")
				v[name] = of
			}
			if at == "" || at == "metadata" || strings.HasPrefix(at, "metadata.labels") || strings.HasPrefix(at, "metadata.ownerReferences") {
				return // others may be there
			}
			v["other"] = "x"
			try(at, "one more field")
			delete(v, "other")
		case []any:
			for i, of := range v {
				walk(fmt.Sprintf("%s[%d]", at, i), of, func(to any) { v[i] = to })
			}
			set(append(slices.Clone(v), v[0]))
			try(at, "one more")
			set(v[1:])
			try(at, "one less")
			set(v)
		case string:
			set(v + "x")
			try(at, "another word")
			set(true)
			try(at, "no word")
			set(v)
		case bool:
			set(!v)
			try(at, "the contrary")
			set(v)
		case float64:
			set(v + 1)
			try(at, "another number")
			set(v)
		}
	}
	walk("", pod, func(any) {})
	t.Logf("%d changes", tried)
	if tried < 250 {
		t.Error("so few places")
	}
}

func TestHarmless(t *testing.T) {
	asked, text, o := seen(t)
	for name, tt := range map[string]struct {
		change func(pod object)
		differ string
	}{
		"a zone":          {func(p object) { p["metadata"].(object)["labels"].(object)["topology.kubernetes.io/zone"] = "a" }, ""},
		"a label of ours": {func(p object) { p["metadata"].(object)["labels"].(object)["cloister/other"] = "a" }, "the label cloister/other"},
		"a network's note": {func(p object) {
			p["metadata"].(object)["annotations"].(object)["k8s.v1.cni.cncf.io/network-status"] = "[]"
		}, ""},
		"a network's order": {func(p object) {
			p["metadata"].(object)["annotations"].(object)["k8s.v1.cni.cncf.io/networks"] = "more"
		}, "the annotation k8s.v1.cni.cncf.io/networks"},
		"a hostile prefix": {func(p object) {
			p["metadata"].(object)["annotations"].(object)["agents.x-k8s.io.example/x"] = "more"
		}, "the annotation agents.x-k8s.io.example/x"},
		"its end":      {func(p object) { p["metadata"].(object)["deletionTimestamp"] = "now" }, "it is being deleted"},
		"empty fields": {func(p object) { p["spec"].(object)["hostAliases"], p["spec"].(object)["x"] = []any{}, object{"y": nil} }, ""},
		"no false":     {func(p object) { p["spec"].(object)["hostUsers"] = false }, "hostUsers"},
		"limits": {func(p object) {
			p["spec"].(object)["initContainers"].([]any)[0].(object)["resources"] = object{"limits": object{"cpu": "1"}}
		}, ""},
		"a device of the node's": {func(p object) {
			p["spec"].(object)["initContainers"].([]any)[0].(object)["resources"] =
				object{"limits": object{"cpu": "1", "devices.kubevirt.io/kvm": "1"}}
		}, "initContainers[0].resources"},
		"an address of its own": {func(p object) {
			p["metadata"].(object)["annotations"].(object)["cni.projectcalico.org/ipAddrs"] = `["10.0.0.9"]`
		}, "the annotation cni.projectcalico.org/ipAddrs"},
		"an address that it was given": {func(p object) {
			p["metadata"].(object)["annotations"].(object)["cni.projectcalico.org/podIP"] = "10.0.0.9/32"
		}, ""},
		"a gateway of others": {func(p object) {
			p["metadata"].(object)["annotations"].(object)["k8s.ovn.org/routing-namespaces"] = "other"
		}, "the annotation k8s.ovn.org/routing-namespaces"},
		"a bandwidth": {func(p object) {
			p["metadata"].(object)["annotations"].(object)["kubernetes.io/egress-bandwidth"] = "1"
		}, "the annotation kubernetes.io/egress-bandwidth"},
		"claims": {func(p object) {
			p["spec"].(object)["initContainers"].([]any)[0].(object)["resources"] = object{"claims": []any{object{"name": "gpu"}}}
		}, "initContainers[0].resources"},
		"no owner":   {func(p object) { delete(p["metadata"].(object), "ownerReferences") }, "who it belongs to"},
		"another's":  {func(p object) { p["metadata"].(object)["ownerReferences"].([]any)[0].(object)["uid"] = "" }, "who it belongs to"},
		"a token":    {func(p object) { delete(p["spec"].(object), "automountServiceAccountToken") }, "automountServiceAccountToken"},
		"an account": {func(p object) { p["spec"].(object)["serviceAccountName"] = "admin" }, "serviceAccountName"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := decode(t, text)
			tt.change(pod)
			if d := differs(t, asked, pod, o); d != tt.differ {
				t.Errorf("%q, want %q", d, tt.differ)
			}
		})
	}
	pod := decode(t, text)
	pod["metadata"].(object)["ownerReferences"].([]any)[0].(object)["apiVersion"] = "agents.x-k8s.io.example/v1beta1"
	if d := differs(t, asked, pod, o); d != "who it belongs to" {
		t.Errorf("an owner of another group: %q", d)
	}
	for _, bad := range []string{"", "[]", `{"spec":[]}`} {
		if d, err := exact.Differs(asked, []byte(bad), ours, o); err == nil && d == "" {
			t.Errorf("%q is as it was asked for", bad)
		}
	}
}

func FuzzDiffers(f *testing.F) {
	asked, pod, o := seen(f)
	f.Add(asked, pod)
	for _, text := range []string{`{}`, `{"spec":{"containers":[{"resources":{"limits":{"cpu":"1e9"}}}]}}`} {
		f.Add([]byte(text), []byte(text))
	}
	if list, err := filepath.Glob("testdata/*.json"); err != nil || len(list) != 2 {
		f.Fatal(list, err)
	}
	f.Fuzz(func(_ *testing.T, asked, has []byte) { _, _ = exact.Differs(asked, has, ours, o) })
}

// TestDeviceOfNoLimits: a session without limits asks for no resources, and may be given those of a LimitRange alone.
func TestDeviceOfNoLimits(t *testing.T) {
	text, has, o := seen(t)
	asked, pod := decode(t, text), decode(t, has)
	agent := func(p object) object { return p["spec"].(object)["containers"].([]any)[0].(object) }
	delete(agent(asked), "resources")
	text, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	for name, differ := range map[string]string{
		"cpu": "", "memory": "", "ephemeral-storage": "",
		"devices.kubevirt.io/kvm": "containers[0].resources", "nvidia.com/gpu": "containers[0].resources",
		"hugepages-2Mi": "containers[0].resources",
	} {
		agent(pod)["resources"] = object{"limits": object{name: "1"}, "requests": object{name: "1"}}
		if d := differs(t, text, pod, o); d != differ {
			t.Errorf("%s: %q, want %q", name, d, differ)
		}
	}
}
