// Package hostexec runs a command on the host for a program in a cloister.
//
// The promise: what runs is exactly what was judged. There is no shell; the
// program is an absolute file outside everything that the cloister may write;
// arguments, program, folder, environment and the files that arguments name are
// bound by one digest, which is computed again before anything starts; the
// command has no terminal, no descriptors but its three streams, a deadline and
// a bound on its output, and nothing of it outlives it or its caller.
//
// It does not judge: hostexec/rules says what a rule says, and the caller decides
// about asks, records, and then runs. What an approved program does with the
// rights of the person is that program's own: package managers and builds run
// what the project says.
//
// Most readers want [Prepare] and [Command.Run].
package hostexec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloister/host/resolve"
	"cloister/internal/cgroup"
	"cloister/internal/termsafe"
	"cloister/secret"
)

// Port is where the gate takes requests for host commands.
const Port = 9998

// Bounds of a request.
const (
	MaxArgs  = 4096
	MaxArgv  = 128 << 10 // bytes of all arguments
	MaxShown = 16 << 10  // bytes of all arguments that a person can be asked about
	maxHead  = 512 << 10 // bytes of a request on the wire
	// MaxOperands and MaxOperand bound the files that are bound by digest.
	MaxOperands = 64
	MaxOperand  = 64 << 20
)

// MaxOutput bounds what a running command writes.
const MaxOutput = 256 << 20

// Limits bound a running command with everything that it starts. Zero bounds
// nothing.
type Limits struct {
	Time   time.Duration // from its start
	CPU    time.Duration // of processors; of each process alone where there is no Group
	Memory int64         // bytes, with swap; nothing where there is no Group
	PIDs   int64         // processes and threads; nothing where there is no Group
}

// Way is how a command is run.
type Way struct {
	Helper []string // the program that serves Keep
	Limits Limits
	// Redact takes credentials out of what the command writes, before anyone sees it;
	// nil where there is none.
	Redact *secret.Scrubber
	// Group is the control group that it runs in. Where nil, memory and processes
	// are not bounded, and what kills its helper lives on.
	Group *cgroup.Group
}

// helperPIDs are the threads of the helper, which is in the group too.
const helperPIDs = 32

// NewGroup makes the control group of one command; memory is what it bounds:
// three quarters of the machine's unless the limits say it.
func NewGroup(name string, l Limits) (g *cgroup.Group, memory int64, err error) {
	if l.Memory == 0 {
		if l.Memory, err = machineMemory(); err != nil {
			return nil, 0, err
		}
		l.Memory -= l.Memory / 4
	}
	if l.PIDs > 0 {
		l.PIDs += helperPIDs
	}
	g, err = cgroup.New(name, cgroup.Bounds{Memory: l.Memory, PIDs: l.PIDs, Tree: true})
	return g, l.Memory, err
}

// Request is what a program inside asks for.
type Request struct {
	Argv [][]byte `json:"argv"` // bytes: an argument need not be text
	Dir  []byte   `json:"dir"`
	// Said is what stood on the command line where Argv is made of it, as with
	// git: words of the cloister, which no one can verify.
	Said [][]byte `json:"said,omitempty"`
}

// Host is what Prepare knows of the host, from the person's side.
type Host struct {
	Project string   // the project's host path
	Inside  string   // another name that the project has inside; "" for none
	Foreign []string // host folders that a cloister can write, besides the project
	Path    string   // PATH to look programs up in
	Env     []string // the whole environment of the command
	Self    []string // programs that never run: cloister itself
	// Resolver finds programs where no payload and no lesser user could put one.
	Resolver resolve.Now
}

// Command is a request that was looked at: pure data. Two are the same thing to
// run when their grants are equal.
type Command struct {
	Argv     []string  `json:"argv"`
	Program  string    `json:"program"`  // absolute, as it is executed
	Real     string    `json:"real"`     // the file behind it
	Inode    string    `json:"inode"`    // device:inode
	Sum      string    `json:"sum"`      // SHA-256 of the file
	Dir      string    `json:"dir"`      // absolute, below the project
	Env      []string  `json:"env"`      // all of it
	Operands []Operand `json:"operands"` // files in what the cloister can write
}

// Operand is a file that an argument names or, with Arg 0, one that the program is
// known to look for by itself.
type Operand struct {
	Arg  int    `json:"arg"`
	Path string `json:"path"`
	Sum  string `json:"sum"`
}

// Grant names what would run, on whatever day: what a remembered answer is
// bound to.
func (c *Command) Grant() string { return sum(c.plain()) }

// Digest names one request to run it: what one answer is bound to.
func (c *Command) Digest(session, project, policy, nonce string) string {
	return sum(struct {
		Version                         int
		Command                         any
		Session, Project, Policy, Nonce string
	}{1, c.plain(), session, project, policy, nonce})
}

// plain is c with its arguments as bytes: JSON would make two different
// arguments that are no text look the same.
func (c *Command) plain() any {
	type command Command
	type bytes struct {
		*command
		Argv, Env      [][]byte
		Dir, Prog, Rea []byte
		Operands       []string
	}
	b := bytes{command: (*command)(c), Dir: []byte(c.Dir), Prog: []byte(c.Program), Rea: []byte(c.Real)}
	for _, a := range c.Argv {
		b.Argv = append(b.Argv, []byte(a))
	}
	for _, e := range c.Env {
		b.Env = append(b.Env, []byte(e))
	}
	for _, o := range c.Operands {
		b.Operands = append(b.Operands, fmt.Sprintf("%d %s %x", o.Arg, o.Sum, o.Path))
	}
	return b
}

func sum(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "" // strings and numbers: JSON can say them
	}
	h := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(h[:])
}

// Size is how many bytes all arguments have.
func (c *Command) Size() int {
	n := 0
	for _, a := range c.Argv {
		n += len(a)
	}
	return n
}

// Refused says why a request is not even judged, or why what was judged does
// not run.
type Refused struct {
	Reason   string
	Hint     string
	NotFound bool // the program is not there
	Changed  bool // something is not as it was judged
}

func (r *Refused) Error() string { return r.Reason }

func refuse(format string, args ...any) error { return &Refused{Reason: fmt.Sprintf(format, args...)} }

// Result is how a command ended.
type Result struct {
	Status   int
	Up, Down int64  // bytes of its streams
	Ended    string // why it was ended; "" where it ended by itself
	Redacted int64  // credentials that were taken out of what it wrote
}

// Line is the canonical quoting that patterns are held against: words of plain
// letters as they are, every other in single quotes as a POSIX shell reads
// them, with single spaces between.
func Line(argv []string) string {
	words := make([]string, 0, len(argv))
	for _, a := range argv {
		words = append(words, word(a))
	}
	return strings.Join(words, " ")
}

func word(a string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_@%+=:,./-", r)
	}
	if a != "" && !strings.ContainsFunc(a, func(r rune) bool { return !plain(r) }) {
		return a
	}
	return "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
}

// Shown is what a person looks at: labelled lines, one for each argument.
func (c *Command) Shown() [][2]string {
	out := [][2]string{{"program", termsafe.Quote(c.Program)}}
	if c.Real != c.Program {
		out = append(out, [2]string{"which is", termsafe.Quote(c.Real)})
	}
	for i, a := range c.Argv[1:] {
		out = append(out, [2]string{fmt.Sprintf("argument %d", i+1), fmt.Sprintf("%s (%d bytes)", termsafe.Quote(a), len(a))})
	}
	out = append(out, [2]string{"in folder", termsafe.Quote(c.Dir)})
	for _, o := range c.Operands {
		label := fmt.Sprintf("file of argument %d", o.Arg)
		if o.Arg == 0 {
			label = "file that it looks for"
		}
		out = append(out, [2]string{label, termsafe.Quote(o.Path) + " " + o.Sum[:19]})
	}
	return append(out, [2]string{"environment", termsafe.Quote(strings.Join(c.Env, " "))})
}

// Marks says what in the command could fool an eye.
func (c *Command) Marks() string {
	for _, s := range append(slices.Clone(c.Argv), c.Program, c.Dir) {
		if m := termsafe.Marks(s); m != "" {
			return m
		}
	}
	return ""
}
