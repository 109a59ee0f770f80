package kubernetes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes"
)

// What a cluster with agent-sandbox answers, which TestClusterSandbox has seen: a Sandbox of a name has a pod of that
// name, which is the Sandbox's, and a new one while there is the Sandbox.

// doubleSandbox is a call about Sandboxes, or about pods that are made for them.
func doubleSandbox(dir string, args []string) (code int, done bool) {
	at := func(name string) string { return filepath.Join(dir, name) }
	say := func(err error) (int, bool) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1, true
		}
		return 0, true
	}
	isSandbox := len(args) > 1 && args[1] == "sandboxes.agents.x-k8s.io"
	switch {
	case args[0] == "create":
		var s object
		if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
			return say(err)
		}
		if s["kind"] != "Sandbox" || s["apiVersion"] != "agents.x-k8s.io/v1beta1" {
			return say(errors.New("Error from server (Forbidden): pods is forbidden: the user cannot create pods"))
		}
		s["metadata"].(object)["uid"] = "u1"
		if err := write(at("sandbox"), s); err != nil {
			return say(err)
		}
		if _, err := os.Stat(at("no-controller")); err == nil {
			return 0, true
		}
		return say(write(at("pod"), doublePod(dir, s)))
	case args[0] == "get" && isSandbox:
		text, err := os.ReadFile(at("sandbox"))
		fmt.Println(string(text))
		return say(err)
	case args[0] == "get" && slices.Contains(args, "--ignore-not-found"):
		if _, err := os.Stat(at("pod")); err != nil {
			return 0, true
		}
		text, err := doubleStatus(dir)
		fmt.Println(string(text))
		return say(err)
	case args[0] == "delete" && isSandbox:
		if _, err := os.Stat(at("sandboxes")); err == nil {
			return doubleDelete(at("sandboxes"), args[2:]), true
		}
		return say(os.Remove(at("sandbox")))
	case args[0] == "delete":
		if _, err := os.Stat(at("sandbox")); err == nil {
			return 0, true // there is another one at once
		}
	}
	return 0, false
}

func write(path string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(path+".part", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	return err
}

// doublePod is what the controller makes of a Sandbox and the API server adds, changed as the file tamper says.
func doublePod(dir string, s object) object {
	of := s["spec"].(object)["podTemplate"].(object)
	labels := object{"agents.x-k8s.io/sandbox-name-hash": "0badcafe"}
	maps.Copy(labels, of["metadata"].(object)["labels"].(object))
	meta := s["metadata"].(object)
	spec := of["spec"].(object)
	for _, no := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		delete(spec, no)
	}
	usual := object{"schedulerName": "default-scheduler", "serviceAccountName": "default", "serviceAccount": "default",
		"securityContext": object{}, "priority": 0, "nodeName": "n1"}
	for name, value := range usual {
		if _, ok := spec[name]; !ok {
			spec[name] = value
		}
	}
	for _, list := range []string{"containers", "initContainers"} {
		c := spec[list].([]any)[0].(object)
		c["terminationMessagePath"], c["terminationMessagePolicy"] = "/dev/termination-log", "File"
		if _, ok := c["resources"]; !ok {
			c["resources"] = object{}
		}
	}
	pod := object{"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": object{
		"name": meta["name"], "namespace": meta["namespace"], "labels": labels, "uid": "p1",
		"annotations": object{"agents.x-k8s.io/propagated-labels": "cloister/instance,cloister/session"},
		"ownerReferences": []any{object{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "name": meta["name"], "uid": "u1",
			"controller": true, "blockOwnerDeletion": true}},
	}}
	if how, err := os.ReadFile(filepath.Join(dir, "tamper")); err == nil {
		tampers[string(how)](pod)
	}
	return pod
}

// doubleStatus is the pod as it is now. One that a Sandbox made has its description in it.
func doubleStatus(dir string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "by-sandbox")); err != nil {
		return text, nil
	}
	var now, pod object
	made, err := os.ReadFile(filepath.Join(dir, "pod"))
	if err == nil {
		err = errors.Join(json.Unmarshal(text, &now), json.Unmarshal(made, &pod))
	}
	if err != nil {
		return nil, err
	}
	pod["status"] = now["status"]
	if how, err := os.ReadFile(filepath.Join(dir, "tamper-later")); err == nil && strings.Contains(string(text), `"Running"`) {
		tampers[string(how)](pod)
	}
	return json.Marshal(pod)
}

// inside gives the spec of a pod, its agent's container and its gate.
func inside(pod object) (spec, agent, gate object) {
	spec = pod["spec"].(object)
	return spec, spec["containers"].([]any)[0].(object), spec["initContainers"].([]any)[0].(object)
}

// tampers are what a controller does to a pod that it should not.
var tampers = map[string]func(pod object){
	"one more container": func(pod object) {
		spec, _, _ := inside(pod)
		spec["containers"] = append(spec["containers"].([]any), object{"name": "more", "image": "x"})
	},
	"the agent's image": func(pod object) { _, agent, _ := inside(pod); agent["image"] = "other" },
	"the gate's digest": func(pod object) { _, _, gate := inside(pod); gate["image"] = "gate@sha256:2" },
	"the gate's order":  func(pod object) { _, _, gate := inside(pod); gate["env"].([]any)[0].(object)["value"] = "{}" },
	"no sidecar":        func(pod object) { _, _, gate := inside(pod); delete(gate, "restartPolicy") },
	"no gate":           func(pod object) { spec, _, _ := inside(pod); spec["initContainers"] = []any{} },
	"privileged":        func(pod object) { _, agent, _ := inside(pod); agent["securityContext"].(object)["privileged"] = true },
	"may escalate": func(pod object) {
		_, agent, _ := inside(pod)
		delete(agent["securityContext"].(object), "allowPrivilegeEscalation")
	},
	"the node's network": func(pod object) { spec, _, _ := inside(pod); spec["hostNetwork"] = true },
	"a folder of the node": func(pod object) {
		spec, _, _ := inside(pod)
		spec["volumes"] = append(spec["volumes"].([]any), object{"name": "n", "hostPath": object{"path": "/"}})
	},
	"a token":       func(pod object) { spec, _, _ := inside(pod); delete(spec, "automountServiceAccountToken") },
	"an annotation": func(pod object) { pod["metadata"].(object)["annotations"].(object)["io.example/runtime"] = "x" },
	"another's":     func(pod object) { pod["metadata"].(object)["ownerReferences"].([]any)[0].(object)["uid"] = "u2" },
	"another":       func(pod object) { pod["metadata"].(object)["uid"] = "p2" },
	"a command":     func(pod object) { _, agent, _ := inside(pod); agent["command"] = []any{"sh"} },
	"a hook": func(pod object) {
		_, agent, _ := inside(pod)
		agent["lifecycle"] = object{"postStart": object{}, "x": 1}
	},
}

// bySandbox has pods made by agent-sandbox.
func bySandbox(w *world) {
	w.t.Helper()
	w.set("by-sandbox", "")
	w.level.Maker = kubernetes.MakerSandbox
	w.remake()
}

// TestDoubleSandbox runs a command in a pod that agent-sandbox made, and leaves neither.
func TestDoubleSandbox(t *testing.T) {
	w := build(t, true, running)
	bySandbox(w)
	st, stdout, _, err := w.run([]string{"sh", "-c", `echo "$WORD"; exit 7`}, nil)
	if err != nil || st.Code != 7 || stdout != "a b\n" {
		t.Errorf("%+v, %q, %v", st, stdout, err)
	}
}

// TestDoubleSandboxTampered: a controller that makes another pod than it was asked for, or changes it later, has it
// removed before anything is run in it, or said to its gate.
func TestDoubleSandboxTampered(t *testing.T) {
	for name := range tampers {
		for _, when := range []string{"tamper", "tamper-later"} {
			later := []string{"another", "the agent's image", "one more container"}
			if slices.Contains(later, name) == (when == "tamper") {
				continue // one of both ways is enough, and there is no other before the first
			}
			t.Run(when+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := build(t, when == "tamper-later", running)
				bySandbox(w)
				w.set(when, name)
				ran := filepath.Join(t.TempDir(), "ran")
				_, _, _, err := w.run([]string{"touch", ran}, nil)
				u, refused := errors.AsType[*sandbox.Unsupported](err)
				if !refused || !strings.Contains(u.Reason, "what agent-sandbox made differs in") {
					t.Errorf("%v", err)
				}
				if _, err := os.Stat(ran); err == nil {
					t.Error("the command ran")
				}
			})
		}
	}
}

// TestDoubleSandboxNone: a cluster that has no Sandboxes, or a controller that makes no pods.
func TestDoubleSandboxNone(t *testing.T) {
	t.Run("unknown", func(t *testing.T) {
		w := build(t, false, pulling)
		bySandbox(w)
		w.set("refuse-create", `error: resource mapping not found for name: "x" namespace: "agents" from "STDIN": no matches for kind "Sandbox" in version "agents.x-k8s.io/v1beta1"`)
		w.set("sandbox", "{}")
		_, _, _, err := w.run([]string{"true"}, nil)
		if _, refused := errors.AsType[*sandbox.Unsupported](err); !refused || !strings.Contains(err.Error(), "no Sandboxes") {
			t.Error(err)
		}
	})
	t.Run("no controller", func(t *testing.T) {
		w := build(t, false, pulling)
		w.look = 50 * time.Millisecond
		bySandbox(w)
		w.set("no-controller", "")
		_, _, _, err := w.run([]string{"true"}, nil)
		if err == nil || !strings.Contains(err.Error(), "agent-sandbox made no pod within 200ms: its Sandbox says nothing") {
			t.Error(err)
		}
	})
}

// TestSandboxManifests: whoever has pods by Sandboxes makes no pods, and no volumes by them.
func TestSandboxManifests(t *testing.T) {
	l := kubernetes.Level{Instance: "me", Namespace: "agents", Gate: "gate@sha256:1", Image: "agent", Address: "10.0.0.1", Maker: "other"}
	if err := l.Check(); err == nil {
		t.Error("another maker is taken")
	}
	l.Maker = kubernetes.MakerSandbox
	text, err := l.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct {
			Kind  string
			Rules []struct{ Resources, Verbs []string }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, i := range list.Items {
		for _, r := range i.Rules {
			if makes := slices.Contains(r.Verbs, "create"); makes == slices.Contains(r.Resources, "pods") {
				t.Errorf("%v: %v", r.Resources, r.Verbs)
			}
		}
	}
	if !strings.Contains(string(text), "a Sandbox makes no volumes") {
		t.Error("no rule of admission about Sandboxes")
	}
}
