// Package monitor is what native's enclosure of a microvm cloister executes: it starts QEMU and
// the server of the view's files, each behind walls of its own, speaks to the guest, and hands
// the guest's connections to the enclosure's gate.
//
// The promise: the guest has no network device and no file but the view's, by a server that has
// no other; what breaks out of the guest into QEMU finds the enclosure, of which QEMU may read
// its own libraries and the kernel alone. When QEMU, the server or the first command ends, so
// does the monitor, and with it the enclosure. Nothing that the guest says is believed: an address
// is judged by the gate as any program's would be. Most readers want [Main].
package monitor

// Name is what the program is called in the enclosure; by it main knows what to be.
const Name = "cloister-microvm"

// The roles, as the first argument.
const (
	RoleBox  = "box"
	RoleMore = "more" // one more command in a box
	RoleKeep = "keep" // a box that becomes a template
)

// Where things lie on the enclosure's stage.
const (
	OrderPath  = "/bundle/order.json"
	KernelPath = "/bundle/kernel"
	InitrdPath = "/bundle/initrd"
	door       = "c" // in the state folder: where more commands are asked for
	files      = "f" // the view's server
)

// DialPort is where a process of the enclosure's own network says which port of the guest it
// wants: two bytes, and one as the answer, which is not 0 if the port is reached.
const DialPort = 2
