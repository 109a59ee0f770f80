// Package exact compares a pod that someone else made with the one that was asked for.
//
// The promise: [Differs] is empty for a pod whose description has what was asked for, word for word, and
// nothing besides but what API servers add to every pod and what says where it runs. What it does not know is
// a difference. It looks at the description alone: what the node makes of it is seen from inside.
//
// Most readers want [Differs].
package exact

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// An Owner is the one object that a pod is to belong to.
type Owner struct{ Group, Kind, Name, UID string }

// object is JSON.
type object = map[string]any

// described is a pod as the API has it.
type described struct {
	Metadata struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Deleted     string            `json:"deletionTimestamp"`
		Owners      []struct {
			Version    string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
			UID        string `json:"uid"`
			Controller bool   `json:"controller"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec object `json:"spec"`
}

// Differs says in what a pod is not as it was asked for; empty for nothing. Labels whose names begin with ours
// are those that were asked for and no more.
func Differs(asked, has []byte, ours string, o Owner) (string, error) {
	var want, got described
	if err := json.Unmarshal(asked, &want); err != nil {
		return "", fmt.Errorf("read the pod that was asked for: %w", err)
	}
	if err := json.Unmarshal(has, &got); err != nil {
		return "", fmt.Errorf("read the pod: %w", err)
	}
	m := got.Metadata
	switch {
	case m.Name != want.Metadata.Name:
		return "its name", nil
	case m.Deleted != "":
		return "it is being deleted", nil
	case len(m.Owners) != 1 || !m.Owners[0].Controller || m.Owners[0].Kind != o.Kind || m.Owners[0].Name != o.Name ||
		m.Owners[0].UID != o.UID || o.UID == "" || !strings.HasPrefix(m.Owners[0].Version, o.Group+"/"):
		return "who it belongs to", nil
	}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		if strings.HasPrefix(name, ours) && m.Labels[name] != want.Metadata.Labels[name] {
			return "the label " + name, nil
		}
	}
	for name, value := range want.Metadata.Labels {
		if m.Labels[name] != value {
			return "the label " + name, nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Annotations)) {
		before, _, _ := strings.Cut(name, "/")
		if !slices.Contains(annotated, before) && !slices.Contains(annotated, name) {
			return "the annotation " + name, nil // runtimes obey some
		}
	}
	return differs("", "", want.Spec, got.Spec), nil
}

// annotated are the annotations that controllers, networks and quotas write on pods, by what stands before the
// stroke or whole: none that a runtime or a network obeys, as Calico does most of its own.
var annotated = []string{"agents.x-k8s.io", "kubernetes.io/limit-ranger", "cni.projectcalico.org/containerID",
	"cni.projectcalico.org/podIP", "cni.projectcalico.org/podIPs", "k8s.ovn.org/pod-networks",
	"k8s.v1.cni.cncf.io/network-status"}

// anything is a value that is not looked at.
type anything struct{}

// added is what API servers and schedulers add to every pod, and the value that each has. Where it runs is not
// looked at.
var added = map[string]any{
	"nodeName": anything{}, "schedulerName": anything{}, "tolerations": anything{}, "nodeSelector": anything{},
	"affinity": anything{}, "topologySpreadConstraints": anything{}, "priority": anything{}, "overhead": anything{},
	"priorityClassName": anything{}, "preemptionPolicy": anything{},
	"serviceAccount": "default", "serviceAccountName": "default", // without its token, which is asked for
	"imagePullSecrets": anything{}, // the node's

	"containers.terminationMessagePath":            "/dev/termination-log",
	"containers.terminationMessagePolicy":          "File",
	"initContainers.terminationMessagePath":        "/dev/termination-log",
	"initContainers.terminationMessagePolicy":      "File",
	"initContainers.startupProbe.timeoutSeconds":   1.0,
	"initContainers.startupProbe.successThreshold": 1.0,

	// Of a LimitRange. A device of the node's is none of them: a limit by its name has it in the container.
	"containers.resources.limits.cpu": anything{}, "containers.resources.requests.cpu": anything{},
	"containers.resources.limits.memory": anything{}, "containers.resources.requests.memory": anything{},
	"containers.resources.limits.ephemeral-storage":   anything{},
	"containers.resources.requests.ephemeral-storage": anything{},
	"initContainers.resources.limits.cpu":             anything{}, "initContainers.resources.requests.cpu": anything{},
	"initContainers.resources.limits.memory": anything{}, "initContainers.resources.requests.memory": anything{},
	"initContainers.resources.limits.ephemeral-storage":   anything{},
	"initContainers.resources.requests.ephemeral-storage": anything{},
}

// absent are the fields whose false the API does not write.
var absent = []string{"hostNetwork", "hostPID", "hostIPC"}

// differs names the first place where two values differ. At is where they are, and kind the same without numbers.
func differs(at, kind string, want, got any) string {
	switch want := want.(type) {
	case object:
		got, ok := got.(object)
		if !ok {
			return at
		}
		return members(at, kind, want, got)
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return at
		}
		for i := range want {
			if d := differs(fmt.Sprintf("%s[%d]", at, i), kind, want[i], got[i]); d != "" {
				return d
			}
		}
		return ""
	case string:
		if text, ok := got.(string); ok && (text == want || quantity(kind) && same(want, text)) {
			return ""
		}
		return at
	}
	if want != got {
		return at
	}
	return ""
}

func members(at, kind string, want, got object) string {
	below := func(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, there := got[name]
		if !there && want[name] == false && slices.Contains(absent, below(kind, name)) {
			continue
		}
		if !there {
			return below(at, name)
		}
		if d := differs(below(at, name), below(kind, name), want[name], value); d != "" {
			return d
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, asked := want[name]; asked {
			continue
		}
		if !mayAdd(below(kind, name), got[name]) {
			return below(at, name)
		}
	}
	return ""
}

// mayAdd says that a field that was not asked for may be there with a value. One that is empty says nothing.
func mayAdd(kind string, value any) bool {
	if v, known := added[kind]; known {
		_, any := v.(anything)
		return any || v == value
	}
	switch v := value.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case object:
		for name := range v {
			if !mayAdd(kind+"."+name, v[name]) {
				return false
			}
		}
		return true
	}
	return false
}

// quantity says that the API writes a number there in the shortest way.
func quantity(kind string) bool {
	return strings.HasPrefix(kind, "containers.resources.") || kind == "volumes.emptyDir.sizeLimit"
}

var number = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$`)
})

// same compares quantities.
func same(one, two string) bool {
	a, ok := value(one)
	b, ok2 := value(two)
	return ok && ok2 && a.Cmp(b) == 0
}

func value(text string) (*big.Rat, bool) {
	part := number().FindStringSubmatch(text)
	if part == nil || len(text) > 64 {
		return nil, false
	}
	n, ok := new(big.Rat).SetString(part[1])
	if !ok {
		return nil, false
	}
	unit, base := part[2], int64(1000)
	if unit == "m" {
		return n.Quo(n, big.NewRat(1000, 1)), true
	}
	if strings.HasSuffix(unit, "i") {
		unit, base = unit[:1], 1024
	}
	for range strings.Index("kMGTPE", strings.Replace(unit, "K", "k", 1)) + 1 {
		if unit != "" {
			n.Mul(n, big.NewRat(base, 1))
		}
	}
	return n, true
}
