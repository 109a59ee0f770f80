// Package hostcommands decides about the commands that a session wants to have run on the
// host, those of git among them.
//
// Promise: a command runs only if a rule or a person approved exactly those bytes, and
// after the record has it; what is pushed is exactly what was judged.
//
// It knows no argument of a command (room hostexec does) and speaks no git (room git
// does).
//
// Most readers want [Session.Serve].
package hostcommands

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cloister/config"
	"cloister/git"
	"cloister/guardian/commands"
	"cloister/guardian/sessionctx"
	"cloister/host/resolve"
	"cloister/hostexec"
	"cloister/internal/cgroup"
	"cloister/policyset"
	"cloister/secret"
	"cloister/workspace/obeyed"
)

// Options of a Service.
type Options struct {
	Helper   []string // the program with its arguments that serves hostexec.Keep; empty: no command runs
	Env      []string // the whole environment of a host command, its PATH among it
	Runtime  string   // the folder that tells one instance from another
	Policies *policyset.Holder
	Commands *commands.List
	Depots   *git.Depots
	Notice   func(text string) // what a person should learn
	Resolver resolve.Now       // finds programs of the host
	Obeys    obeyed.Person     // whose git obeys what came back
	// Known are the credentials that no command's output brings inside; nil for none.
	// Where they cannot be read, no command runs.
	Known func() ([]secret.Scrubbed, error)
}

// A Service decides and starts the host commands of all sessions of one guardian.
type Service struct {
	o       Options
	prefix  string
	swept   chan struct{} // closed when what another guardian left has no control group any more
	running atomic.Int32
}

// New is a service that runs nothing before Sweep.
func New(o Options) *Service {
	return &Service{o: o, prefix: groupPrefix(o.Runtime), swept: make(chan struct{})}
}

// Sweep ends host commands that a guardian which was killed left, with the helper that
// would have ended them gone too. It must be called once.
func (s *Service) Sweep() error {
	defer close(s.swept)
	return cgroup.Sweep(s.prefix)
}

// Began counts something in that runs on the host for a cloister: while it does,
// nothing that comes of it is a person.
func (s *Service) Began() { s.running.Add(1) }

// Ended counts it out.
func (s *Service) Ended() { s.running.Add(-1) }

// Running says how many run.
func (s *Service) Running() int { return int(s.running.Load()) }

// Memory has the answers of a person that hold for a session.
type Memory interface {
	Remembered(kind config.DecisionKind, subject string) (config.Decision, bool)
}

// A Session is one whose host commands are served.
type Session struct {
	*sessionctx.Context
	Memory
	// Keep makes a checkpoint of its workspace; nil where that is none of which they are made.
	// next is the conversation that its agent goes on with, "" where that is not known.
	Keep func(ctx context.Context, why, next string) error

	service  *Service
	foreign  []string     // host folders that it can write, besides the project
	commands atomic.Int32 // that run for it
	brought  atomic.Int64 // bytes of objects that its project has of it
	pushes   pushes

	turning sync.Mutex
	turns   time.Time
}

// Session is one, with the folders of the host besides its project that it can write.
func (s *Service) Session(w *sessionctx.Context, m Memory, foreign []string) *Session {
	return &Session{Context: w, Memory: m, service: s, foreign: foreign}
}

// groupPrefix begins the names of the control groups of this instance's host
// commands: the next guardian ends what it finds under it.
func groupPrefix(runtime string) string {
	sum := sha256.Sum256([]byte(runtime))
	return "host-cloister-" + hex.EncodeToString(sum[:4]) + "-"
}

// way is how the next host command runs: in a control group of its own, where
// this host gives one. lacks says for the record what it does not give.
func (s *Service) way() (way hostexec.Way, lacks string, err error) {
	way = hostexec.Way{Helper: s.o.Helper}
	if s.o.Known != nil {
		known, err := s.o.Known()
		if err != nil {
			return way, "", fmt.Errorf("keep credentials out of its output: %w", err)
		}
		way.Redact = secret.NewScrubber(known)
	}
	if all := s.o.Policies.Current().Config(); all != nil {
		c := all.Hostexec.Limits
		way.Limits = hostexec.Limits{Time: time.Duration(c.Time), CPU: time.Duration(c.CPU), Memory: int64(c.Memory),
			PIDs: c.PIDs}
	}
	<-s.swept // its names are like this one
	group, memory, err := hostexec.NewGroup(s.prefix+sessionctx.Nonce()[:8], way.Limits)
	if err != nil {
		return way, "; its memory and processes are not bounded: " + err.Error(), nil
	}
	way.Group, way.Limits.Memory = group, memory
	return way, "", nil
}

func (s *Service) closeGroup(group *cgroup.Group) {
	if group == nil {
		return
	}
	if err := group.Close(); err != nil {
		s.o.Notice("a host command's control group: " + err.Error())
	}
}
