// Package pod is what runs in the pod of a cloister: the gate, which is a container of its own,
// and in the agent's container the first process and what starts each command.
//
// The promise: the gate takes every interface but loopback out of the pod's network into a
// namespace of its own before it says that it stands, and ends when one comes later, when the
// shim is gone or when its rules could not be made; a gate that is started a second time opens
// nothing. When the gate ends, so does the first process, and with it all that is inside. The
// agent's container has none of the gate's privileges, and tries that before its first command.
//
// It speaks to no API server. Most readers want [Main].
package pod

// Name is what the program is called in pods; by it main knows what to be.
const Name = "cloister-pod"

// The roles, as the first argument.
const (
	RoleGate   = "gate"
	RoleReady  = "ready" // the gate's container: does the gate stand?
	RoleInit   = "init"
	RoleRun    = "run"
	RoleSignal = "signal"
	RoleCanary = "canary"
)

// Where things lie. The volume is whole in the gate's container; the agent's has only Inside of
// it, at Folder, and single files.
const (
	Volume  = "/cloister"
	Inside  = "inside" // a folder of Volume
	Files   = "files"  // a folder of Volume: the setup's files, by number
	opened  = Volume + "/opened"
	stands  = Volume + "/stands"
	Folder  = "/.cloister"
	Program = Folder + "/" + Name
	door    = "/gate" // in Inside and Folder: its end is the gate's
	proof   = "/proof"
	// Variable has the gate's order.
	Variable = "CLOISTER_GATE"
	// Termination is where Kubernetes reads why a container ended.
	Termination = "/dev/termination-log"
)

// Canary is what RoleCanary sees of its own container.
type Canary struct {
	Interfaces   []string `json:"interfaces"`
	Capabilities string   `json:"capabilities"` // all sets but the empty ones, as proc(5) has them
	NoNewPrivs   bool     `json:"no_new_privs"`
	Seccomp      bool     `json:"seccomp"`
	UID          int      `json:"uid"`
	Gate         bool     `json:"gate"`             // its door answers
	Kernel       string   `json:"kernel,omitempty"` // KernelGVisor or KernelKata; empty for another
	// Proof is what the gate shows of what the shim gave it.
	Proof string `json:"proof"`
}

// Kernels that say what they are.
const (
	KernelGVisor = "gvisor"
	KernelKata   = "kata"
)

// Wrong says what is not as the pod was asked to be; empty for nothing.
func (c Canary) Wrong(uid int, proof string) string {
	switch {
	case len(c.Interfaces) > 0:
		return "the agent's container has the network interface " + c.Interfaces[0]
	case c.Capabilities != "":
		return "the agent's container has capabilities: " + c.Capabilities
	case !c.NoNewPrivs:
		return "the agent's container may gain privileges"
	case !c.Seccomp:
		return "the agent's container has no filter of system calls"
	case c.UID != uid:
		return "the agent's container runs as another user than was asked for"
	case !c.Gate:
		return "the agent's container does not see its gate"
	case c.Proof != proof:
		return "the gate that the shim speaks with is another pod's"
	}
	return ""
}
