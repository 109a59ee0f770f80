// Package session owns one cloister, from the plan of its view to its last change.
//
// The promise: what it made on the host is taken away when the command is over, and a
// cloister outlives the guardian that granted it, without a network.
//
// It decides nothing, and keeps no list: the guardian does (session/registry).
//
// Most readers want [Shim].
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/sandbox"
	"cloister/sandbox/judge"
	"cloister/session/heldpath"
	"cloister/workspace"
	"cloister/workspace/review"
)

// Shim is what one cloister is run with: the process that calls Run owns the
// cloister's life.
type Shim struct {
	Client *client.Client
	// Begun is the box in the making; Run closes what it does not start.
	Begun   sandbox.Begun
	Request api.SessionRequest
	Project workspace.Project
	View    workspace.Options
	Argv    []string
	Env     []string // what the inside gets besides what it always has
	Term    Locale   // what a terminal program needs to know of the host's user
	User    sandbox.User
	Limits  sandbox.Limits
	Judged  []sandbox.Judged // of files and programs, by Judge, which Run closes
	Judge   *judge.Kernel
	Permits sandbox.Permits
	Watched sandbox.Watched // of the same, where no kernel judges
	// Restate compiles newer statements of the configuration: nil for what is in force already, or
	// what calls put when it is.
	Restate func([]api.CedarFile) (next *Statements, put func(), err error)
	// Root is the image that the cloister has instead of the host's system; Path
	// are the folders of its PATH.
	Root sandbox.Root
	Path []string
	// CAFile is a file of the host with the certificate authorities, PEM, that
	// programs inside trust, CA are further ones, and the session's own comes to
	// them. Java is the host's store of authorities for Java; "" for none. Sums is
	// the file that remembers its checksum.
	CAFile sandbox.HostPath
	CA     []byte
	Java   string
	Sums   string
	// Caller is the program of the host that is shown inside as hostexec; "" for
	// none.
	Caller sandbox.HostPath
	// Commands says that a rule could let a command run on the host, and Turns that agents
	// ask for a checkpoint before each turn, both by Caller.
	Commands, Turns bool
	// Clones is the branch of the project from which the command has a clone of its own, by Caller; empty for
	// none.
	Clones string
	// Shims are the programs that inside stand for hostexec and their own name.
	Shims []string
	// Remotes are those that git inside reaches by way of the guardian alone.
	Remotes []string
	Author  workspace.Author
	// Submodules are those that git inside has to find configured already.
	Submodules []workspace.Submodule
	Denied     []string
	// Peers are the cloisters beside this one, and OnPeers is given their sockets.
	Peers   *sandbox.Peers
	OnPeers func(sockets []*os.File)
	// Volumes are places inside that lead to folders of the private home.
	Volumes []Volume

	// Order is what started the cloister, as JSON: what its children are started by.
	Order json.RawMessage

	Stdin, Stdout, Stderr *os.File
	// Signals are passed on to the command; the channel is the caller's.
	Signals <-chan os.Signal
	// Reviews keeps what the command changed until a person has decided.
	Reviews review.Store
	// Timeout ends the command; 0 means never.
	Timeout time.Duration
	// StartWithin bounds the building of the box and the start of the command, once the guardian
	// has granted it; 0 means native's bound. The guardian's answers have a bound of their own.
	StartWithin time.Duration
	// End yields a reason when the caller wants the command to end; nil never does.
	End <-chan string
	// Granted is given the grant before anything is built; its error ends the run.
	Granted func(api.SessionGrant) error
	// Planned is given the view before anything is built.
	Planned func(*workspace.View)
	// Box is given the box and its Spec when the command runs, for what only its owner may
	// do with it (sandbox/abilities.go), until Run returns.
	Box func(sandbox.Box, sandbox.Spec)
	// Running is called when the command runs.
	Running func()
	// Notify tells the person something while the command runs, from any goroutine.
	Notify func(text string)
	// Held says where the person is notified of errors at protected paths.
	Held heldpath.Options
}

// Volume is a place inside that leads to a folder of the private home, which is kept
// for the project. Who uses it makes the folder.
type Volume struct {
	At  sandbox.GuestPath
	Dir string // relative to the home
}

// Result is what a run came to.
type Result struct {
	Name     string
	ID       string
	Ran      bool // the command was executed
	Status   sandbox.Status
	Duration time.Duration
	Summary  api.SessionSummary
	// Autorun are the changed files that the host's programs would obey.
	Autorun   []string
	Truncated bool // the project was too large to look for all of them
	TimedOut  bool
	Stopped   string // who or what asked for the end; empty for a natural one
	Notices   []string
}

// hangUpAfter is when a command that has not ended yet is notified that its terminal is
// gone.
const hangUpAfter = time.Second

// Run builds the cloister, runs the command and removes every trace of it. An
// error means that the command did not run, or that something could not be
// removed.
func (s *Shim) Run(ctx context.Context) (res Result, err error) {
	// Until the command runs, the caller's signals are this process's own.
	ctx, granted, started := s.untilStarted(ctx)
	defer started()
	defer func() { err = errors.Join(err, s.Begun.Close()) }()
	if s.Judge != nil {
		defer func() { err = errors.Join(err, s.Judge.Close()) }()
	}
	view, link, err := s.prepare(ctx)
	if err != nil {
		return res, cause(ctx, err)
	}
	granted()
	release := sync.OnceValue(view.Release)
	defer func() { err = errors.Join(err, release(), link.Close()) }()
	grant := link.Grant()
	res.Name, res.ID, res.Notices = grant.Name, grant.ID, append(grant.Notices, view.Notices...)

	if s.Planned != nil {
		s.Planned(view)
	}
	if s.Granted != nil {
		if err := s.Granted(grant); err != nil {
			return res, errors.Join(err, s.lost(ctx, link, err))
		}
	}
	spec, err := s.spec(grant, view)
	if err != nil {
		return res, errors.Join(err, s.lost(ctx, link, err))
	}
	home := s.agentHome(grant)
	res.Notices = append(res.Notices, furnish(homeFiles(grant, home), home.Answers, view)...)
	ports, err := publish(ctx, s.Request.Publish)
	if err != nil {
		return res, errors.Join(err, s.lost(ctx, link, err))
	}
	defer ports.close()
	began := time.Now()
	pending, err := s.beginReview(grant, began)
	if err != nil {
		return res, errors.Join(err, s.lost(ctx, link, err))
	}
	words := heldpath.New(spec.Protect, view.Stubs, s.Held)
	tell := func(e sandbox.FileEvent) { link.Judged(api.FileEvent(e)) }
	var kernel judging
	killed, watchDisk := kills(), s.watchDisk() // a command may fill it before anything else here goes on
	box, err := s.Begun.Start(ctx, spec, sandbox.Wiring{
		Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, Heard: words.Heard, Peers: s.OnPeers, Watched: tell,
		Ask: func(ctx context.Context, q sandbox.FileQuestion) error {
			return s.Client.AskFile(ctx, grant.ID, api.FileQuestion(q))
		},
		Judge: s.judge(&kernel, tell),
		Arm: func(ctx context.Context, g sandbox.Gate) error {
			ctx, cancel := context.WithTimeoutCause(ctx, client.OpenWithin, client.ErrNoAnswer)
			defer cancel()
			return cause(ctx, link.Arm(ctx, client.Listeners{
				TCP4: g.TCP4, TCP6: g.TCP6, DNS: g.DNS4, DNS6: g.DNS6, DNSTCP: g.DNSTCP4, DNSTCP6: g.DNSTCP6,
				Refusals: g.Refusals, Streams: g.Streams, DNSStreams: g.DNSStreams,
			}))
		},
	})
	if err != nil {
		err = cause(ctx, err)
		return res, errors.Join(err, pending.drop(), s.lost(context.WithoutCancel(ctx), link, err))
	}
	ctx, late := started()
	if err := ports.serve(ctx, box); err != nil {
		return res, errors.Join(err, box.Close(), s.lost(ctx, link, err))
	}
	link.Started(string(box.Handle()), sandbox.ProcessOf(box))
	res.Ran = true
	if late != nil {
		pass(box, late)
	}
	defer s.follow(link, &kernel, spec)()
	if s.Box != nil {
		s.Box(box, spec)
	}
	if s.Running != nil {
		s.Running()
	}
	disk, looked := watchDisk(ctx), s.lookBefore(ctx, pending, view)
	// The end has been reported, the stubs are gone: once, as soon as it is known.
	var once sync.Once
	var endErr, reviewErr error
	over := func(status sandbox.Status, lost error) {
		once.Do(func() {
			disk()
			before := looked()
			mended := view.Mend()
			res.Autorun, res.Truncated = s.changed(ctx, began, view, before, release)
			reviewErr = pending.end(mended, slices.DeleteFunc(slices.Clone(res.Autorun),
				func(p string) bool { return slices.Contains(mended, p) }), res.Truncated, view)
			res.Autorun = append(mended, res.Autorun...)
			shown, more := workspace.Grouped(res.Autorun)
			for _, m := range more {
				shown = append(shown, fmt.Sprintf("%s/ (%d more)", m.Folder, m.Count))
			}
			if res.Stopped == "" && wasKilled(status) && kills() > killed {
				res.Stopped = starved
			}
			end := api.SessionEnd{ExitStatus: status.ExitCode(), AutorunChanged: shown, Stopped: res.Stopped}
			if lost != nil {
				end.Failure = lost.Error() // the enclosure went away under the command
			}
			res.Summary, endErr = link.End(ctx, end)
		})
	}
	res.Status, err = s.attend(ctx, link, box, spec, &res, over)
	res.Duration = time.Since(began)
	res.Notices = append(res.Notices, words.Left()...)
	if n, ok := box.(sandbox.Noticer); ok {
		res.Notices = append(res.Notices, n.Notices()...)
	}
	over(res.Status, err)
	if n := link.Unrecorded(); n > 0 {
		res.Notices = append(res.Notices, fmt.Sprintf("no guardian said to have recorded %d events of files and programs", n))
	}
	if endErr != nil && !errors.Is(endErr, client.ErrGuardianGone) {
		err = errors.Join(err, endErr)
	}
	return res, errors.Join(err, reviewErr)
}

// prepare plans the view while the guardian opens the session. Where one fails,
// the other is undone. Nothing here is a goroutine's: to get one going on another
// thread takes as long as a third of the plan.
func (s *Shim) prepare(ctx context.Context) (*workspace.View, *client.Link, error) {
	asked, err := s.Client.Ask(ctx, s.Request)
	if err != nil {
		return nil, nil, err
	}
	view, planErr := workspace.Plan(s.Project, s.View)
	link, err := asked.Answer()
	switch {
	case err == nil && planErr == nil:
		return view, link, nil
	case planErr == nil:
		return nil, nil, errors.Join(err, view.Release())
	case err == nil:
		return nil, nil, errors.Join(planErr, s.lost(ctx, link, planErr), link.Close())
	default:
		return nil, nil, planErr
	}
}

// lost tells the guardian why no command ran. It keeps the first error first:
// that the guardian did not hear of it is worth a word only beside it.
func (s *Shim) lost(ctx context.Context, link *client.Link, why error) error {
	end := api.SessionEnd{ExitStatus: 125, Failure: why.Error()}
	if missing, ok := errors.AsType[*sandbox.ExecError](why); ok {
		end.ExitStatus = 126
		if missing.NotFound {
			end.ExitStatus = 127
		}
	}
	_, err := link.End(ctx, end)
	if errors.Is(err, client.ErrGuardianGone) {
		return nil
	}
	return err
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}
