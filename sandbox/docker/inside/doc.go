// Package inside is what runs in a cloister's two containers before anything of
// the agent does: the gate, which makes network and view, and the first process.
//
// The promise: the command starts only after the gate has said that every mount
// and socket stands, and after the process that becomes it has tried the walls
// from inside; a wall that does not answer as written ends the start. The gate
// hands its sockets out and listens to nothing. The package speaks to no engine
// and reads no configuration: what to do comes over one socket from the shim.
// Most readers want Main.
package inside

import "cloister/sandbox"

// Name is what the program is called inside; by it main knows what to be.
const Name = "cloister-inside"

// Where things lie in both containers.
const (
	Folder  = "/.cloister"
	Program = Folder + "/" + Name
	Door    = Folder + "/s" // the socket to the shim
	Store   = Folder + "/u" // before a number, in the gate's alone: where overlays keep what is written
)

// The roles, as the first argument.
const (
	RoleGate    = "gate"
	RoleInit    = "init"
	rolePayload = "payload"
	RoleHold    = "hold"   // on the host: holds a user namespace
	RoleBorder  = "border" // the network that the steps of a build join
)

// MaxLine bounds a message: the certificate authorities twice, and a long list of
// protected paths.
const MaxLine = 16 << 20

// Message is one line in either direction. Exactly one field is set,
// but for At.
type Message struct {
	Hello   *Hello   `json:"hello,omitempty"`   // first word of gate and first process
	Control bool     `json:"control,omitempty"` // to the first process, with the socket to go on with
	Build   *Build   `json:"build,omitempty"`   // to the gate
	Gate    bool     `json:"gate,omitempty"`    // from the gate, with its sockets
	Built   bool     `json:"built,omitempty"`   // from the gate
	Command *Command `json:"command,omitempty"` // to the first process, with descriptors
	Join    bool     `json:"join,omitempty"`    // to the first process, with the socket of one more command
	Master  bool     `json:"master,omitempty"`  // from the first process, with the terminal
	Ready   bool     `json:"ready,omitempty"`   // the payload has tried the walls
	Go      bool     `json:"go,omitempty"`      // to the payload: execute
	Signal  int      `json:"signal,omitempty"`
	Dial    uint16   `json:"dial,omitempty"`    // a port inside, with the socket for the answer
	At      string   `json:"at,omitempty"`      // with Dial: the address inside, not the loopback's
	Peers   bool     `json:"peers,omitempty"`   // from the gate, with the sockets of peers
	Dialled bool     `json:"dialled,omitempty"` // with the connection
	End     *int     `json:"end,omitempty"`     // wait status of the command
	Failed  *Failure `json:"failed,omitempty"`
}

// Hello says who speaks.
type Hello struct {
	Role string `json:"role"`
	// IDs is the user namespace's map, as /proc/self/uid_map has it.
	IDs string `json:"ids"`
	// Spaces are the namespaces, as OwnNamespaces tells them.
	Spaces map[string]string `json:"spaces"`
	// Lacks is what the engine did not give that it was asked for.
	Lacks string `json:"lacks,omitempty"`
}

// Failure is why something could not be done.
type Failure struct {
	Text string `json:"text"`
	// Exec tells that the command itself could not be executed; Errno says why.
	Exec  bool `json:"exec,omitempty"`
	Errno int  `json:"errno,omitempty"`
}

func (f *Failure) Error() string { return f.Text }

// Bind is a bind that the engine made, as the gate finishes it.
type Bind struct {
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// Device and Inode are the source's: what the engine mounted is compared.
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// Space is which of the passed user namespaces maps its owner, from 1; 0: none.
	Space int `json:"space,omitempty"`
	// Overlay has what is written there kept in memory, or by Upper.
	Overlay bool   `json:"overlay,omitempty"`
	Upper   *Upper `json:"upper,omitempty"`
}

// Upper is where an overlay keeps what is written to it: folders of a bind that the gate's
// container has and the agent's has not.
type Upper struct {
	sandbox.Upper
	At     string `json:"at"`     // in the gate's container
	Device uint64 `json:"device"` // as of a Bind, of the store
	Inode  uint64 `json:"inode"`
	Space  int    `json:"space,omitempty"`
}

// Build is what the gate makes. With it come the agent's mount, UTS and network
// namespaces, then the user namespaces that Bind.Space counts.
type Build struct {
	Host    string            `json:"host"`
	User    User              `json:"user"`
	Network bool              `json:"network"`
	Peers   *sandbox.Peers    `json:"peers,omitempty"`
	Binds   []Bind            `json:"binds"`
	Files   []sandbox.File    `json:"files"` // with whole contents
	Links   []sandbox.Link    `json:"links"`
	Protect []sandbox.Protect `json:"protect"`
}

// User is who the payload is.
type User struct {
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Name string `json:"name"`
	Home string `json:"home"`
}

// Command is what the first process starts. With it come the caller's standard
// descriptors that are no terminals, in order.
type Command struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	TTY  [3]bool  `json:"tty"`
	User User     `json:"user"`
	// What the probe holds against the walls.
	Network bool     `json:"network"`
	Denied  []string `json:"denied"`
	Held    []string `json:"held"`   // guest paths that must be read-only
	Hidden  []string `json:"hidden"` // guest paths that must be so where they are there
	Over    []string `json:"over"`   // guest paths that must be overlays, none of the host's folders
}
