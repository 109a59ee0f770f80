package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"cloister/sandbox"
	"cloister/sandbox/gate"
	"cloister/sandbox/kubernetes/link"
	"cloister/sandbox/kubernetes/pod"
	"cloister/sandbox/kubernetes/tree"
)

// plan is a Spec as a pod has it.
type plan struct {
	spec    sandbox.Spec
	files   []sandbox.File
	links   []sandbox.Link
	trees   []tree.Tree
	also    map[string]int // further places of a tree, by path
	program []string       // places of this very program
	volume  string         // the claim at VolumeAt; empty for none
}

// planOf refuses what this level cannot do for a Spec.
func planOf(s sandbox.Spec) (*plan, error) {
	p := &plan{spec: s, also: map[string]int{}}
	if err := p.refuse(s); err != nil {
		return nil, err
	}
	var folders []sandbox.Bind
	for _, b := range s.Binds {
		switch {
		case b.Target == caller: // the pod has this very program
		case itself(b):
			p.program = append(p.program, string(b.Target))
		case b.Overlay && !b.File && b.Access == sandbox.ReadWrite:
			folders = append(folders, b)
		default:
			return nil, &sandbox.Unsupported{Guarantee: "files of this host",
				Reason: fmt.Sprintf("a pod is shown none, and %s was to be", b.Target),
				Fix:    "use --workspace overlay, whose files are copied and come back for cloister apply, or none"}
		}
	}
	var err error
	of := s
	of.Binds = folders
	if p.trees, err = tree.Trees(of); err != nil {
		return nil, err
	}
	if err = p.link(s); err != nil {
		return nil, err
	}
	p.files, err = p.copied(s)
	return p, err
}

// itself reports whether a bind shows this very program.
func itself(b sandbox.Bind) bool {
	if !b.File || b.Access != sandbox.ReadOnly {
		return false
	}
	self, err := os.Executable()
	if err != nil {
		return false
	}
	one, err := os.Stat(self)
	two, err2 := os.Stat(string(b.Source))
	return err == nil && err2 == nil && os.SameFile(one, two)
}

// link sorts the links: those in the gate's folder the gate makes, and one to a folder that is
// copied is a second place of that.
func (p *plan) link(s sandbox.Spec) error {
	p.links = []sandbox.Link{{Path: caller, Target: "../" + pod.Name}}
	for _, l := range s.Links {
		at := slices.IndexFunc(p.trees, func(t tree.Tree) bool { return t.Target == l.Target })
		switch {
		case strings.HasPrefix(string(l.Path), pod.Folder+"/"):
			p.links = append(p.links, l)
		case at >= 0:
			p.also[string(l.Path)] = at
		default:
			return &sandbox.Unsupported{Guarantee: "links", Reason: fmt.Sprintf("%s would lie in the image", l.Path),
				Fix: "leave it out"}
		}
	}
	return nil
}

// refuse says what this level cannot do at all.
func (*plan) refuse(s sandbox.Spec) error {
	no := func(guarantee, reason, fix string) error {
		return &sandbox.Unsupported{Guarantee: guarantee, Reason: reason, Fix: fix}
	}
	switch {
	case s.Root.Dir != "":
		return no("the image", "a pod's image is the one that was set up", "leave --image out")
	case !s.Network:
		return no("no network", "a pod without a gate would have the cluster's", "leave --no-network out: policy refuses all")
	case s.Peers != nil:
		return no("cloisters beside each other", "pods have no way to each other", "use --isolation docker or native")
	case len(s.Judged) > 0 || s.InKernel:
		return no("files and programs judged by the kernel", "the kernel is the node's", "use --isolation native")
	case len(s.Devices) > 0:
		return no("devices", "they would be the node's", "leave them out")
	case s.User.ID == 0:
		return no("an ordinary user", "the agent's container runs as none but root", "name another user")
	}
	return nil
}

// caller is where hostexec lies inside.
const caller = pod.Folder + "/bin/hostexec"

// object is JSON.
type object = map[string]any

// Labels of a pod.
const (
	labelInstance = "cloister/instance"
	labelSession  = "cloister/session"
)

// Containers of a pod.
const (
	gateName  = "gate"
	agentName = "agent"
)

// copied are the files of a Spec that the pod is to have, whole, with the user's entry. What Kubernetes
// makes itself is left to it.
func (p *plan) copied(s sandbox.Spec) ([]sandbox.File, error) {
	id := strconv.Itoa(s.User.ID)
	out := []sandbox.File{
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/root:/sbin/nologin\n" +
			s.User.Name + ":x:" + id + ":" + id + "::" + string(s.User.Home) +
			":/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\n" + s.User.Name + ":x:" + id + ":\nnogroup:x:65534:\n")},
	}
	git := sandbox.File{Path: "/etc/gitconfig", Mode: 0o644}
	for _, f := range s.Files {
		switch f.Path {
		case "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd", "/etc/group":
			continue
		}
		text, err := f.Content()
		if err != nil {
			return nil, fmt.Errorf("copy %s: %w", f.Path, err)
		}
		if f.Path == git.Path {
			git.Data = text
			continue
		}
		out = append(out, sandbox.File{Path: f.Path, Data: text, Mode: f.Mode})
	}
	if git.Data = append(git.Data, p.safe()...); len(git.Data) > 0 {
		out = append(out, git)
	}
	return out, nil
}

// safe has git take the copies for the user's own: the top folder of a volume is root's, and git refuses
// to work in another user's repository.
func (p *plan) safe() (out []byte) {
	at := slices.Sorted(maps.Keys(p.also))
	for _, t := range p.trees {
		at = append(at, t.Target)
	}
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	for _, dir := range at {
		out = fmt.Appendf(out, "[safe]\n\tdirectory = \"%s\"\n", quote.Replace(dir))
	}
	return out
}

// prefix begins the names of pods, which end with their sessions'.
const prefix = "cloister-"

// name is the pod's.
func name(s sandbox.Spec) string { return prefix + strings.ToLower(s.ID) }

// place is the volume of a tree.
func place(i int) string { return "tree-" + strconv.Itoa(i) }

// mounts are those of the agent's container, and volumes those that they need.
func (p *plan) mounts() (mounts, volumes []object) {
	mounts = []object{{"name": "cloister", "mountPath": pod.Folder, "subPath": pod.Inside, "readOnly": true}}
	volumes = []object{{"name": "cloister", "emptyDir": object{"medium": "Memory", "sizeLimit": "256Mi"}}}
	home := string(p.spec.User.Home)
	if !slices.ContainsFunc(p.trees, func(t tree.Tree) bool { return t.Target == home }) {
		mounts = append(mounts, object{"name": "home", "mountPath": home})
		volumes = append(volumes, object{"name": "home", "emptyDir": object{}})
	}
	for i, t := range p.trees {
		mounts = append(mounts, object{"name": place(i), "mountPath": t.Target})
		volumes = append(volumes, object{"name": place(i), "emptyDir": object{}})
	}
	for _, at := range slices.Sorted(maps.Keys(p.also)) {
		mounts = append(mounts, object{"name": place(p.also[at]), "mountPath": at})
	}
	lies := func(at, in string) {
		mounts = append(mounts, object{"name": "cloister", "readOnly": true, "mountPath": at, "subPath": in})
	}
	for i, f := range p.files {
		lies(path.Clean(string(f.Path)), path.Join(pod.Files, strconv.Itoa(i)))
	}
	for _, at := range p.program {
		lies(at, path.Join(pod.Inside, pod.Name))
	}
	more, claimed := p.claimed()
	return append(mounts, more...), append(volumes, claimed...)
}

// describe writes the pod down.
func (p *plan) describe(l Level, o link.Order) (object, error) {
	s := p.spec
	order, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	mounts, volumes := p.mounts()
	agent := object{
		"name": agentName, "image": l.Image, "imagePullPolicy": "IfNotPresent",
		"command": []string{pod.Program, pod.RoleInit}, "workingDir": "/", "volumeMounts": mounts,
		"securityContext": object{
			"runAsUser": s.User.ID, "runAsGroup": s.User.ID, "runAsNonRoot": true,
			"privileged": false, "allowPrivilegeEscalation": false,
			"capabilities": object{"drop": []string{"ALL"}}, "seccompProfile": object{"type": "RuntimeDefault"},
		},
	}
	if r := resources(s.Limits); len(r) > 0 {
		agent["resources"] = object{"limits": r, "requests": r}
	}
	sidecar := object{
		"name": gateName, "image": l.Gate, "imagePullPolicy": "IfNotPresent", "restartPolicy": "Always",
		"command": []string{"/" + pod.Name, pod.RoleGate},
		"env":     []object{{"name": pod.Variable, "value": string(order)}},
		"startupProbe": object{"exec": object{"command": []string{"/" + pod.Name, pod.RoleReady}},
			"periodSeconds": 1, "failureThreshold": 120},
		"volumeMounts": []object{{"name": "cloister", "mountPath": pod.Volume}},
		"securityContext": object{
			"runAsUser": 0, "privileged": false, "readOnlyRootFilesystem": true,
			"seccompProfile": object{"type": "RuntimeDefault"},
			"capabilities":   object{"drop": []string{"ALL"}, "add": []string{"NET_ADMIN", "SYS_ADMIN", "NET_BIND_SERVICE"}},
		},
	}
	described := object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{"name": name(s), "namespace": l.Namespace,
			"labels": object{labelInstance: l.Instance, labelSession: strings.ToLower(s.ID)}},
		"spec": object{
			"restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false,
			"hostNetwork": false, "hostPID": false, "hostIPC": false, "shareProcessNamespace": false,
			"terminationGracePeriodSeconds": 1, "hostname": hostname(s.Name),
			"dnsPolicy": "None", "dnsConfig": object{"nameservers": []string{gate.Addr4}},
			"volumes":        volumes,
			"initContainers": []object{sidecar}, "containers": []object{agent},
		},
	}
	if p.volume != "" { // a new volume is root's
		described["spec"].(object)["securityContext"] = object{"fsGroup": s.User.ID, "fsGroupChangePolicy": "OnRootMismatch"}
	}
	if l.Class != "" {
		described["spec"].(object)["runtimeClassName"] = l.Class
	}
	return described, nil
}

// hostname makes a label of a session's name.
func hostname(name string) string {
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	if out = strings.Trim(out[:min(len(out), 63)], "-"); out == "" {
		return "cloister"
	}
	return out
}

func resources(l sandbox.Limits) object {
	out := object{}
	if l.Memory > 0 {
		out["memory"] = strconv.FormatInt(l.Memory, 10)
	}
	if l.CPUs > 0 {
		out["cpu"] = strconv.FormatFloat(l.CPUs, 'f', 3, 64)
	}
	return out
}
