package kubernetes

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"

	"cloister/sandbox/kubernetes/pod"
)

// Users is the group of the cluster's users that may have cloisters.
const Users = "cloister-users"

// Manifests are what whoever rules the cluster applies once, as a List in JSON: the namespace, who
// may make pods there and nothing else, a network policy as a second fence, and an admission
// policy that lets no pod pass but those of this driver with exactly this gate.
func (l Level) Manifests() ([]byte, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if !strings.Contains(l.Gate, "@sha256:") {
		return nil, fmt.Errorf("the gate's image %s has no digest: anything of that name would be allowed", l.Gate)
	}
	bits := 32
	if net.ParseIP(l.Address).To4() == nil {
		bits = 128
	}
	in := object{"namespace": l.Namespace, "name": "cloister"}
	list := []object{
		// The gate needs SYS_ADMIN, to take the interface. What else a pod may be the admission
		// policy says.
		{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": l.Namespace,
			"labels": object{"pod-security.kubernetes.io/enforce": "privileged"}}},
		{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": in, "rules": append(l.makes(),
			object{"apiGroups": []string{""}, "resources": []string{"pods/exec"}, "verbs": []string{"create", "get"}})},
		{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": in,
			"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "cloister"},
			"subjects": []object{{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": Users}}},
		{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": in, "spec": object{
			"podSelector": object{}, "policyTypes": []string{"Ingress", "Egress"},
			"egress": []object{{"to": []object{{"ipBlock": object{"cidr": fmt.Sprintf("%s/%d", l.Address, bits)}}}}},
		}},
	}
	list = append(list, l.admission("cloister-"+l.Namespace, "", []string{"CREATE", "UPDATE"},
		[]string{"pods", "pods/ephemeralcontainers"}, l.validations())...)
	list = append(list, l.admission("cloister-exec-"+l.Namespace, "", []string{"CONNECT"},
		[]string{"pods/exec", "pods/attach"}, []object{{
			"expression": fmt.Sprintf("has(object.container) && object.container == %q", agentName),
			"message":    "commands run in the agent's container, none in the gate's"}})...)
	if l.Maker == MakerSandbox { // its controller would make both for anyone
		list = append(list, l.admission("cloister-sandboxes-"+l.Namespace, sandboxGroup, []string{"CREATE", "UPDATE"},
			[]string{"sandboxes"}, []object{
				{"expression": "!has(object.spec.volumeClaimTemplates) || object.spec.volumeClaimTemplates.size() == 0",
					"message": "a Sandbox makes no volumes"},
				{"expression": "!has(object.spec.service) || !object.spec.service", "message": "a Sandbox makes no service"},
			})...)
	}
	return json.MarshalIndent(object{"apiVersion": "v1", "kind": "List", "items": list}, "", "  ")
}

// makes is what may be done with pods, and what they are made by.
func (l Level) makes() []object {
	rest := []string{"get", "list", "watch", "delete"}
	all := append([]string{"create"}, rest...)
	if l.Maker != MakerSandbox {
		return []object{{"apiGroups": []string{""}, "resources": []string{"pods"}, "verbs": all}}
	}
	return []object{
		{"apiGroups": []string{""}, "resources": []string{"pods"}, "verbs": rest},
		{"apiGroups": []string{sandboxGroup}, "resources": []string{"sandboxes"}, "verbs": all},
	}
}

// admission is a policy for the namespace, and that it rules.
func (l Level) admission(name, group string, operations, resources []string, validations []object) []object {
	const version = "admissionregistration.k8s.io/v1"
	named, of := object{"name": name}, "v1"
	if group == sandboxGroup {
		of = "v1beta1" // requests in others are looked at as this one
	}
	return []object{
		{"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": named, "spec": object{
			"failurePolicy": "Fail",
			"matchConstraints": object{"resourceRules": []object{{"apiGroups": []string{group}, "apiVersions": []string{of},
				"operations": operations, "resources": resources}}},
			"validations": validations,
		}},
		{"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": named, "spec": object{
			"policyName": name, "validationActions": []string{"Deny"},
			"matchResources": object{"namespaceSelector": object{
				"matchLabels": object{"kubernetes.io/metadata.name": l.Namespace}}},
		}},
	}
}

// validations say what a pod of this namespace is. Each is an expression of CEL over the pod.
func (l Level) validations() []object {
	const agents = "object.spec.containers.all(c, "
	const gates = "object.spec.initContainers.all(c, "
	const filtered = "has(c.securityContext.seccompProfile) && " +
		"c.securityContext.seccompProfile.type == 'RuntimeDefault' && " +
		"!has(c.securityContext.appArmorProfile) && " +
		"(!has(c.securityContext.procMount) || c.securityContext.procMount == 'Default'))"
	out := []object{}
	for _, one := range [][2]string{
		{"has(object.spec.initContainers) && object.spec.initContainers.size() == 1 && " +
			fmt.Sprintf("object.spec.initContainers[0].image == %q", l.Gate),
			"the one init container is the gate, by its digest"},
		{"object.spec.initContainers.all(c, has(c.restartPolicy) && c.restartPolicy == 'Always' && " +
			"c.command == ['/cloister-pod', 'gate'] && !has(c.args) && has(c.startupProbe))",
			"the gate is a sidecar and nothing else"},
		{"object.spec.initContainers.all(c, c.securityContext.capabilities.add.all(n, " +
			"n in ['NET_ADMIN', 'SYS_ADMIN', 'NET_BIND_SERVICE']) && " +
			"(!has(c.securityContext.privileged) || !c.securityContext.privileged))", "the gate has three capabilities"},
		{agents + "has(c.securityContext) && has(c.securityContext.capabilities) && " +
			"!has(c.securityContext.capabilities.add) && " +
			"c.securityContext.capabilities.drop == ['ALL'] && c.securityContext.runAsNonRoot == true && " +
			"c.securityContext.allowPrivilegeEscalation == false && " +
			"(!has(c.securityContext.privileged) || !c.securityContext.privileged))",
			"the agent's container has no privilege"},
		// It has power over its node: nothing runs in it but its own program, which nothing writes to.
		{gates + "c.startupProbe.exec.command == ['/cloister-pod', 'ready'] && !has(c.livenessProbe) && " +
			"!has(c.readinessProbe) && !has(c.lifecycle))", "the gate's container runs nothing but the gate"},
		{gates + fmt.Sprintf("has(c.env) && c.env.size() == 1 && c.env[0].name == %q && !has(c.envFrom) && ", pod.Variable) +
			"has(c.volumeMounts) && c.volumeMounts.size() == 1 && c.volumeMounts[0].name == 'cloister' && " +
			fmt.Sprintf("c.volumeMounts[0].mountPath == %q && !has(c.volumeDevices))", pod.Volume),
			"the gate has one volume and its order"},
		{gates + filtered, "the gate's system calls are filtered"},
		{agents + filtered, "the agent's system calls are filtered"},
		{agents + "!has(c.volumeMounts) || c.volumeMounts.all(m, m.name != 'cloister' || (has(m.readOnly) && m.readOnly)))",
			"the agent's container writes nothing of the gate's volume"},
		{"!(has(object.spec.shareProcessNamespace) && object.spec.shareProcessNamespace)",
			"the gate's processes are its own"},
		{agents + "!has(c.ports) && !has(c.volumeDevices))", "the agent's container has neither ports nor devices"},
		{"!has(object.spec.ephemeralContainers) || object.spec.ephemeralContainers.size() == 0",
			"no container comes later"},
		{"!(has(object.spec.hostNetwork) && object.spec.hostNetwork) && " +
			"!(has(object.spec.hostPID) && object.spec.hostPID) && " +
			"!(has(object.spec.hostIPC) && object.spec.hostIPC)", "a pod has none of the node's namespaces"},
		{"has(object.spec.automountServiceAccountToken) && !object.spec.automountServiceAccountToken",
			"a pod has no token of the cluster"},
		{l.ownVolumes(), "a pod has no volume but its own"},
	} {
		out = append(out, object{"expression": one[0], "message": one[1]})
	}
	if l.Class != "" {
		out = append(out, object{
			"expression": fmt.Sprintf("has(object.spec.runtimeClassName) && object.spec.runtimeClassName == %q", l.Class),
			"message":    "a pod has the RuntimeClass " + l.Class})
	}
	return out
}
