package kubernetes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes"
)

// wire is a connection that a node which is lost leaves: it ends at neither side, and carries
// nothing more.
type wire struct {
	net.Conn
	once sync.Once
	out  chan struct{} // closed when the node is lost
}

func (w *wire) cut() { w.once.Do(func() { close(w.out) }) }

// Write swallows what comes too late.
func (w *wire) Write(p []byte) (int, error) {
	select {
	case <-w.out:
		return len(p), nil
	default:
		return w.Conn.Write(p)
	}
}

// Read gives nothing any more, until the other side has given up.
func (w *wire) Read(p []byte) (int, error) {
	for {
		n, err := w.Conn.Read(p)
		select {
		case <-w.out:
			if err == nil {
				continue
			}
		default:
		}
		return n, err
	}
}

const onNode = `{"spec":{"nodeName":"n1","runtimeClassName":"%s"},"status":{"phase":"Running","initContainerStatuses":[` +
	`{"name":"gate","state":{"running":{}}}],"containerStatuses":[{"name":"agent","state":{"running":{}}}]%s}}`

// TestDoubleNodeLost: the connection to the gate of a node that is lost does not end, and the session
// is lost all the same, and says so. Its pod is asked to end once, which nothing confirms, and it is
// not begun anew.
func TestDoubleNodeLost(t *testing.T) {
	for name, tt := range map[string]struct{ conditions, want string }{
		"running still": {"", ": the cluster has it as running still, on the node n1"},
		"noticed": {`,"conditions":[{"type":"DisruptionTarget","status":"True","reason":"DeletionByTaintManager",` +
			`"message":"Taint manager: deleting due to NoExecute taint"}]`, "Taint manager"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := build(t, true, fmt.Sprintf(onNode, "", tt.conditions))
			w.look = patience
			w.remake()
			w.set("refuse-delete", "error: timed out waiting for the condition on pods/cloister-s1")
			_, _, _, err := w.run(w.staying(), func(sandbox.Box) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.conn.cut()
			})
			if !errors.Is(err, kubernetes.ErrLost) || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), "the pod cloister-s1 may be there still") {
				t.Errorf("%v; want %q", err, tt.want)
			}
			if n := w.count("create"); n != 1 {
				t.Errorf("%d pods were asked for", n)
			}
			if err := os.Remove(filepath.Join(w.dir, "pod")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDoubleGateKilled: of a gate that is gone it is said where the cluster has its pod, and no node is blamed.
func TestDoubleGateKilled(t *testing.T) {
	w := build(t, true, fmt.Sprintf(onNode, "", ""))
	_, _, _, err := w.run(w.staying(), func(sandbox.Box) { w.killGate() })
	if want := "its gate is gone: the cluster has it as running still, on the node n1"; !errors.Is(err, kubernetes.ErrLost) ||
		!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "the way to it") {
		t.Errorf("%v; want %q", err, want)
	}
}

// count is how often the double was asked for something.
func (w *world) count(verb string) int {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "asked"))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Count(string(text), verb+"\n")
}

// TestDoubleClass: a RuntimeClass is asked for by name, and nothing runs in a pod that does not have it.
func TestDoubleClass(t *testing.T) {
	for name, tt := range map[string]struct {
		kernel, has, seen, refuse, want string
	}{
		"held":           {"gvisor", "box", "gvisor", "", ""},
		"of the node":    {"node", "box", "", "", ""},
		"ignored":        {"gvisor", "box", "", "", "gave the pod no kernel of gvisor"},
		"another kernel": {"kata", "box", "gvisor", "", "gave the pod no kernel of kata"},
		"taken away":     {"gvisor", "", "gvisor", "", `has the RuntimeClass ""`},
		"replaced":       {"node", "other", "", "", `has the RuntimeClass "other"`},
		"none": {"gvisor", "", "", `Error from server (Forbidden): error when creating "STDIN": pods "x" is forbidden: pod rejected: ` +
			`RuntimeClass "box" not found`, "the cluster has none of that name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := build(t, true, fmt.Sprintf(onNode, tt.has, ""))
			w.level.Class, w.level.Kernel = "box", tt.kernel
			w.remake()
			w.set("canary", strings.Replace(canary, "{", `{"kernel":"`+tt.seen+`",`, 1))
			if tt.refuse != "" {
				w.set("refuse-create", tt.refuse)
			}
			st, _, _, err := w.run([]string{"sh", "-c", "exit 5"}, nil)
			_, unsupported := errors.AsType[*sandbox.Unsupported](err)
			switch {
			case tt.want == "" && (err != nil || st.Code != 5):
				t.Errorf("%+v, %v", st, err)
			case tt.want != "" && (!unsupported || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v; want %q", err, tt.want)
			}
		})
	}
}

func TestClassDescribed(t *testing.T) {
	l := kubernetes.Level{Instance: "me", Namespace: "agents", Gate: "gate@sha256:1", Image: "agent", Address: "10.0.0.1"}
	for _, tt := range []struct {
		class, kernel string
		good          bool
	}{
		{"", "", true}, {"gvisor", "gvisor", true}, {"kata-qemu", "kata", true}, {"crun", "node", true},
		{"crun", "", false}, {"", "gvisor", false}, {"a,b", "node", false}, {"gvisor", "other", false},
	} {
		l.Class, l.Kernel = tt.class, tt.kernel
		if err := l.Check(); (err == nil) != tt.good {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	for class, want := range map[string]string{"gvisor": "gvisor", "runsc-fast": "gvisor", "kata-qemu": "kata", "crun": ""} {
		if got := kubernetes.KernelOf(class); got != want {
			t.Errorf("%s: %q", class, got)
		}
	}
	l.Class, l.Kernel = "gvisor", "gvisor"
	text, err := kubernetes.Described(l, sandbox.Spec{ID: "S", Name: "n", Argv: []string{"true"}, Network: true,
		User: sandbox.User{ID: user, Name: "agent", Home: "/h"}})
	var pod struct {
		Spec struct {
			Class string `json:"runtimeClassName"`
		} `json:"spec"`
	}
	if err == nil {
		err = json.Unmarshal(text, &pod)
	}
	if err != nil || pod.Spec.Class != "gvisor" {
		t.Errorf("%+v, %v", pod, err)
	}
	rules, err := l.Manifests()
	if err != nil || !strings.Contains(string(rules), `object.spec.runtimeClassName == \"gvisor\"`) {
		t.Errorf("no rule of admission about the class: %v", err)
	}
}

// patience is long on a machine that is busy, and shorter than what it would be by itself.
const patience = 10 * time.Second
