// Package wire is what a guest and the monitor that boots it say to each other: streams of
// yamux over one virtio-serial port, each of which begins with a line that says what it is.
//
// The promise: a direction of a connection ends, or is aborted, as it was at the other side,
// and nothing that a guest says makes its monitor keep more than the streams' windows. What
// a guest says beyond that is the payload's word. Most readers want [Head].
package wire

// Protocol is what both sides must speak. They are one program; another version of it could
// have been booted from an older initrd.
const Protocol = "4"

// Waits is what a guest writes on its port once nothing of a session is needed to go on. There it may be kept as a
// template, of which many machines are made, so that what it goes on with comes in the one line that it then reads.
const Waits = "waits\n"

// Wake is that line, from the monitor. The streams come after it.
type Wake struct {
	// Seed is of the host's randomness, [SeedSize] bytes: machines of one template share the state of its generator.
	Seed []byte `json:"seed"`
	Time int64  `json:"time"` // nanoseconds since 1970
}

// SeedSize is how many bytes of randomness a machine begins with.
const SeedSize = 128

// Head is the first line of a stream. One of its fields is set.
type Head struct {
	// From the guest.
	Hello string `json:"hello,omitempty"` // its Protocol; the answer is a Setup, the next word a Word
	TCP   string `json:"tcp,omitempty"`   // a program's connection to an address; Carry follows
	DNS   bool   `json:"dns,omitempty"`   // a program's question, as a datagram, and its answer; Frames
	// Refused: each frame is a destination as text, to which the guest's rules refused a datagram.
	Refused bool `json:"refused,omitempty"`
	// From the monitor.
	Run  *Run   `json:"run,omitempty"`  // Words follow, in both directions
	Std  *Std   `json:"std,omitempty"`  // bytes follow
	Dial uint16 `json:"dial,omitempty"` // a port of the guest's loopback; Carry follows
}

// Setup is what the guest becomes.
type Setup struct {
	Host     string `json:"host"`
	Network  bool   `json:"network"`
	Tmp      bool   `json:"tmp"` // /tmp is the guest's own memory
	Pids     uint64 `json:"pids"`
	Files    uint64 `json:"files"`
	Terminal int    `json:"terminals"`
	Engine   bool   `json:"engine"` // a private engine may be started, by
	User     int    `json:"user"`   // whose commands are
	Seen     uint64 `json:"seen"`   // how many files the server of the view may have open: one for each that was seen
}

// Run is a command.
type Run struct {
	ID       uint32   `json:"id"` // of its Std streams
	Argv     []string `json:"argv"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir"`
	User     int      `json:"user"`
	Writable []string `json:"writable"`
	Terminal [3]bool  `json:"terminal"` // which descriptors are one terminal, carried by the first of them
	Rows     uint16   `json:"rows"`
	Cols     uint16   `json:"cols"`
	First    bool     `json:"first"` // with its end all ends
}

// Std carries one descriptor of a command: what is written to it, or is to be read from it.
// The other direction ends once there is no reader.
type Std struct {
	Run uint32 `json:"run"`
	FD  int    `json:"fd"`
}

// Word is one line of a command's stream, or of the hello's.
type Word struct {
	// To the guest.
	Signal int    `json:"signal,omitempty"`
	Rows   uint16 `json:"rows,omitempty"`
	Cols   uint16 `json:"cols,omitempty"`
	// From the guest.
	Ready   bool    `json:"ready,omitempty"` // it is what its Setup says
	Started bool    `json:"started,omitempty"`
	Exec    int     `json:"exec,omitempty"` // the errno for which the command could not be executed
	End     *uint32 `json:"end,omitempty"`  // the command's wait status
	Failed  string  `json:"failed,omitempty"`
}

// MaxDestination bounds a destination as text.
const MaxDestination = 64

// Port is the name of the virtio-serial port.
const Port = "cloister"
