// Package engine is the private container engine of a guest: Docker's daemon as it is installed
// in the view, started by the guest's first process when a process connects to its socket.
//
// The promise: its data lie in the guest's memory and end with the guest, and what it or its
// containers send leaves as a program's does, by the gate. It is root in the guest, and so is
// whoever may use its socket: the guest's own walls do not hold such a command, those of the
// enclosure around the guest do. Most readers want [Main].
package engine

// Name is what the program is called that becomes the engine; by it main knows what to be.
const Name = "cloister-engine"

// Socket is where the engine is reached, in the guest; Log is what it says.
const (
	Socket = "/run/docker.sock"
	Log    = "/run/docker.log"
)

// Settings is the folder that must be in the view. The engine keeps a key of its own there.
const Settings = "/etc/docker"

// Programs are those that an engine is, as they are called on PATH.
func Programs() []string { return []string{"dockerd", "containerd", "runc", "iptables"} }

// Folders are where they are looked for in a guest.
func Folders() []string {
	return []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
}
