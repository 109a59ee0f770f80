// Package sandbox says what an enclosure is, so that drivers can be exchanged.
//
// A Spec is pure data: what a cloister sees, runs and may use. A Driver turns
// a Spec into a Box or refuses with the reason. A driver promises that the
// payload sees nothing of the host but what the Spec names, reaches no network
// but the gate it hands out, and that a layer it cannot build stops the start.
// The package builds nothing itself, decides nothing about policy, and knows no
// driver by name. What a driver or box may also do is in abilities.go. Most readers
// want Driver and Spec.
package sandbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Driver is a way of building the enclosure. sandboxtest defines its meaning.
type Driver interface {
	// Name is the word of --isolation.
	Name() string
	// Probe looks at the host and says which guarantee it can keep, and by what.
	Probe(ctx context.Context) Report
	// Start builds the enclosure and runs the command of the Spec in it. An
	// error means that nothing is left behind. arm is called once, when the
	// gate's sockets exist and before the command runs; its error ends the start.
	Start(ctx context.Context, s Spec, w Wiring) (Box, error)
	// Exec runs one more command in a box that another process may own.
	Exec(ctx context.Context, h Handle, s Spec, w Wiring) (Box, error)
}

// Handle names a box to the driver that built it, also in another process. Only that driver
// knows what it says.
type Handle string

// Box is one running enclosure, or one more process in it.
type Box interface {
	// Handle is what Exec takes.
	Handle() Handle
	// Signal passes a signal on to the command.
	Signal(sig os.Signal) error
	// Wait returns when the command has ended and nothing of it is left.
	Wait() (Status, error)
	// Close ends everything inside at once and removes what Start made.
	Close() error
}

// Status tells how a command ended: by exit code, or by signal when Signal > 0.
type Status struct{ Code, Signal int }

// ExitCode is the status as a shell gives it: 128+n for signal n.
func (s Status) ExitCode() int {
	if s.Signal > 0 {
		return 128 + s.Signal
	}
	return s.Code
}

// Wiring is what a box is connected to: the caller's three descriptors, and the
// taker of the gate.
type Wiring struct {
	Stdin, Stdout, Stderr *os.File
	// Arm receives the gate's sockets. It returns when they are served.
	Arm func(ctx context.Context, g Gate) error
	// Heard reads what the command writes to a terminal of the cloister's own; what it
	// says is written behind chunk[:at]. lines reports whether that terminal is used line
	// by line. Nil reads nothing.
	Heard func(chunk []byte, lines func() bool) (at int, say []byte)
	// Peers receives the sockets of the Spec's Peers, in their order. They are the
	// taker's, also where the start fails later.
	Peers func(sockets []*os.File)
	// Judge has the kernel judge, as the Spec's Judged wants it, what all processes of a
	// control group do; process pid sees the box's view. lost is called once if they are
	// not judged any more, and the box is to be ended. It may be nil where a Spec has no Judged.
	Judge Judging
	// Watched is given what the Spec's Watched wants reported, by one goroutine. Where it is nil
	// nothing is watched.
	Watched func(FileEvent)
	// Ask asks a person about a use of what the Spec's Asked name, and waits. Without an error it
	// is allowed. Where it is nil, a Spec that has some is refused.
	Ask func(context.Context, FileQuestion) error
	// Left is given what goes on to report, when a command that joined has ended before what it
	// left running. It is the taker's. Where it is nil, Wait waits for that as well.
	Left func(Recorder)
}

// Recorder reports what a command left running.
type Recorder interface {
	// Close waits until nothing of it is left, or it was given up, and all has been reported.
	Close() error
	// GiveUp reports no more: what still runs can then open and execute nothing that is asked about.
	GiveUp()
}

// Judging begins to judge; its Closer ends that.
type Judging func(ctx context.Context, group string, pid int, s Spec, lost func(error)) (io.Closer, error)

// FileEvent is what the kernel judged of a Spec's Judged: something that it refused, or a
// program that was executed.
type FileEvent struct {
	When    time.Time `json:"when"`
	Op      string    `json:"op"`      // open, create, execute, …
	Path    string    `json:"path"`    // a name of the object, for people
	Rule    string    `json:"rule"`    // of the Judged
	Why     string    `json:"why"`     // empty for what was not refused
	Program string    `json:"program"` // as it calls itself
	PID     int       `json:"pid"`     // as the host numbers it
	Argv    []string  `json:"argv,omitempty"`
	Let     bool      `json:"let,omitempty"`    // it is forbidden, and was let pass: the mode is not enforce
	Unseen  string    `json:"unseen,omitempty"` // why so many as More says were not seen one by one
	// More is how many events like it were not listed since, or of any kind found no room.
	More uint64 `json:"more,omitempty"`
}

// FileQuestion is what a person is asked about a file that is held closed.
type FileQuestion struct {
	Path    string `json:"path"`
	Source  string `json:"source,omitempty"` // the host's file, where it has another path
	Write   bool   `json:"write,omitempty"`  // to read and to write; otherwise to read
	Rule    string `json:"rule"`
	Program string `json:"program"` // as it calls itself
	PID     int    `json:"pid"`     // as the host numbers it
	// What is handed in after a yes.
	Size   int64     `json:"size"`
	Time   time.Time `json:"time"`             // when it was last written
	Digest string    `json:"digest,omitempty"` // of its content, sha256:HEX, where that is what is handed in
	// Execute says that it is a program, and RunBy which interpreter its content names.
	Execute bool   `json:"execute,omitempty"`
	RunBy   string `json:"run_by,omitempty"`
}

// Gate is the only network of a box: sockets that were opened inside and are
// served outside. Any may be nil where the kernel has no such protocol. Refusals is
// the netlink socket by which the kernel tells which datagrams it refused. A gate that is not
// on this host has Streams, whose connections say where they were going (internal/origin), and
// DNSStreams instead.
type Gate struct{ TCP4, TCP6, DNS4, DNS6, DNSTCP4, DNSTCP6, Refusals, Streams, DNSStreams *os.File }

// GateOf gives sockets their names, in the order in which package gate lists them.
func GateOf(files []*os.File) Gate {
	last := len(files) - 1
	g := Gate{TCP4: files[0], DNS4: files[1], DNSTCP4: files[2], Refusals: files[last]}
	if last > 3 {
		g.TCP6, g.DNS6, g.DNSTCP6 = files[3], files[4], files[5]
	}
	return g
}

// Files lists the sockets that exist.
func (g Gate) Files() []*os.File {
	var out []*os.File
	for _, f := range []*os.File{
		g.TCP4, g.TCP6, g.DNS4, g.DNS6, g.DNSTCP4, g.DNSTCP6, g.Refusals, g.Streams, g.DNSStreams,
	} {
		if f != nil {
			out = append(out, f)
		}
	}
	return out
}

// Close closes every socket.
func (g Gate) Close() {
	for _, f := range g.Files() {
		f.Close()
	}
}

// ExecError says that the box stood but its command could not be executed.
type ExecError struct {
	Command  string
	NotFound bool
	Err      error
}

func (e *ExecError) Error() string {
	if e.NotFound {
		return fmt.Sprintf("execute %s: not found in the cloister", e.Command)
	}
	return fmt.Sprintf("execute %s: %v", e.Command, e.Err)
}

func (e *ExecError) Unwrap() error { return e.Err }

// Unsupported says that this host cannot keep a guarantee, and what would fix it.
type Unsupported struct {
	Guarantee string
	Reason    string
	Fix       string
	// Residue is the word for --accept where a person may go on without it;
	// empty where no one may.
	Residue string
}

func (e *Unsupported) Error() string {
	return e.Guarantee + ": " + e.Reason
}

// Hints are the words of what to do.
func (e *Unsupported) Hints() []string {
	var h []string
	if e.Fix != "" {
		h = append(h, e.Fix)
	}
	if e.Residue != "" {
		h = append(h, "or go on without it: --accept residue:"+e.Residue)
	}
	return h
}

// Level is how well a host keeps a guarantee. The zero value is Absent.
type Level uint8

// The levels, from nothing to all of it.
const (
	Absent Level = iota
	Partial
	Enforced
)

func (l Level) String() string { return [...]string{"absent", "partial", "enforced"}[l] }

// Guarantee is one line of a report: what is promised, by which mechanism it
// is kept here, and what was seen that shows it.
type Guarantee struct {
	Name     string
	Level    Level
	By       string
	Evidence string
	Fix      string
	Needed   bool // an absent needed guarantee makes the driver unavailable
}

// Report is what a driver can do on this host.
type Report struct {
	Driver     string
	Guarantees []Guarantee
}

// Missing lists the needed guarantees that are absent.
func (r Report) Missing() []Guarantee {
	var out []Guarantee
	for _, g := range r.Guarantees {
		if g.Needed && g.Level == Absent {
			out = append(out, g)
		}
	}
	return out
}

// Reason says in one line why the driver is unavailable; empty if it is not.
func (r Report) Reason() string {
	var parts []string
	for _, g := range r.Missing() {
		parts = append(parts, g.Name+": "+g.Evidence)
	}
	return strings.Join(parts, "; ")
}
