// Package kubernetes is the driver whose cloisters are pods: --isolation kubernetes.
//
// A pod has two containers that this driver describes. The gate is a native sidecar, which takes
// the pod's interface and carries what comes out to the shim by one connection that it dials
// (package link); the agent's container starts when the gate stands, and has no interface but
// loopback and no capability (package pod). The shim hands two sockets to the guardian, which
// serves them with the engine of every other cloister.
//
// The promise: before the command runs the agent's container was looked at from inside, and what
// the cluster ignored of what was asked ends the start. When the gate ends so does the agent's
// container. A pod that is lost is an error, and never begun again. Nothing of this host's files
// is shown: a Spec with binds is refused.
//
// It keeps no promise against whoever rules the cluster or its nodes: what runs there may read
// the pod's memory. The API server is asked by kubectl, with the person's own kubeconfig. Most
// readers want [New].
package kubernetes
