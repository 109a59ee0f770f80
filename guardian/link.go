package guardian

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloister/api"
	"cloister/audit"
	"cloister/egress"
	"cloister/guardian/apierror"
	"cloister/guardian/folders"
	"cloister/guardian/hostcommands"
	"cloister/guardian/listeners"
	"cloister/guardian/livefiles"
	"cloister/guardian/mcpservice"
	"cloister/guardian/process"
	"cloister/guardian/sealed"
	"cloister/guardian/sessionctx"
	"cloister/guardian/uploads"
	"cloister/hostexec"
	"cloister/internal/budget"
	"cloister/internal/exactjson"
	"cloister/internal/passfd"
	"cloister/policyset"
	"cloister/secret/inject"
	"cloister/session/registry"
)

const (
	// sendWithin bounds one frame to a shim; frames fit the socket's buffer,
	// so only a shim that has stopped reading for long runs into it.
	sendWithin = 5 * time.Second
	// countEvery is how often a shim learns the numbers while they move.
	countEvery = time.Second
	// defaultGrace is how long a session may take to end when asked.
	defaultGrace = 10 * time.Second
	// maxAutorun bounds the files that one session's end records one by one.
	maxAutorun = 1000
)

// live is one session with its link, its policy and its egress. The link's
// goroutine owns it.
type live struct {
	sessionctx.Context
	secrets atomic.Pointer[inject.Session] // nil where none is bound
	adopted bool                           // from an earlier guardian
	g       *guardian
	rules   policyset.SessionRules
	shim    *process.Process
	ready   chan struct{} // closed when conn is set
	conn    *passfd.Conn
	hosts   map[string]string
	foreign []string // host folders that it can write, besides the project
	roots   *x509.CertPool
	ca      *egress.CA      // nil for an adopted session
	hostKey *egress.HostKey // nil for an adopted session, and where no rule reads SSH
	state   sealed.State    // for the next guardian; empty where it is lost
	memory  *budget.Share
	tools   *mcpservice.Service
	host    *hostcommands.Session
	uploads uploads.Known // the resumable uploads that it began itself
	files   livefiles.Session
	started time.Time

	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	gone   chan struct{} // closed when the session is over for this guardian

	mu     sync.Mutex
	engine *egress.Engine // nil before it is armed, and without network
	armed  bool
	served sync.WaitGroup // the engine's Serve, and the numbers

	acked atomic.Bool   // the shim has read the last numbers
	filed atomic.Uint64 // the last event of files that was recorded, as the shim numbers them

	sealing  sync.Mutex
	sealedOf atomic.Uint64 // the version of the values that the shim's sealed state has
}

// serve handles frames until the session or the guardian ends.
func (l *live) serve() {
	defer close(l.gone)
	defer l.shim.Close()
	l.served.Go(l.tell)
	unhook := context.AfterFunc(l.g.ctx, func() { _ = l.conn.EndRead() })
	end, err := l.listen()
	unhook()

	// Egress first: every flow is over, counted and recorded before the
	// session's own last record.
	l.cancel()
	if end == nil && l.g.ctx.Err() != nil {
		// What ends slowly, as a command of the host may, keeps no shim waiting.
		defer time.AfterFunc(countEvery, l.pass).Stop()
	}
	l.served.Wait()
	switch {
	case end != nil:
		l.finish(*end)
	case l.g.ctx.Err() != nil:
		l.pass()
	default:
		l.lose(err)
	}
	_ = l.conn.Close()
	l.conn.Discard()
	l.g.forget(l)
	l.Queue.Forget(l.Info.ID)
}

// pass is not an end of the session: the shim sees the link close and looks for the
// next guardian, which goes on from these numbers.
func (l *live) pass() {
	_ = l.sendNumbers()
	_ = l.conn.Close()
}

// listen returns the shim's last word, or why there is none.
func (l *live) listen() (*api.SessionEnd, error) {
	for {
		line, err := l.conn.Read()
		if err != nil {
			return nil, err
		}
		var frame api.Frame
		if err := exactjson.Unmarshal(line, &frame); err != nil {
			return nil, fmt.Errorf("read frame: %w", err)
		}
		if frame.Type == api.FrameEnd && frame.End != nil {
			return frame.End, nil
		}
		if err := l.handle(frame); err != nil {
			_ = l.send(api.Frame{Type: api.FrameError, Error: apierror.Of(err)})
			return nil, err
		}
	}
}

func (l *live) handle(frame api.Frame) error {
	switch frame.Type {
	case api.FrameArm:
		if frame.Arm == nil {
			return errors.New("arm session: an empty frame")
		}
		return l.arm(*frame.Arm)
	case api.FrameStarted:
		if frame.Started == nil {
			return errors.New("start session: an empty frame")
		}
		return l.run(*frame.Started)
	case api.FrameDescribe:
		if len(frame.Exec) > api.MaxExec {
			return errors.New("describe session: too long")
		}
		l.g.sessions.Describe(l.Info.ID, frame.Exec)
	case api.FrameFile:
		if frame.File == nil {
			return errors.New("record a file: an empty frame")
		}
		l.RecordFile(l.ctx, *frame.File, frame.Again)
		l.filed.Store(frame.Filed)
		if l.Tally.Mark(); frame.Filed > 0 && frame.Filed%32 == 0 {
			return l.sendFiled()
		}
	case api.FrameApplied:
		if frame.Applied != nil {
			l.files.Answer(*frame.Applied)
		}
	case api.FrameAck:
		l.acked.Store(true)
		l.Tally.Mark() // what moved meanwhile
	default:
		return fmt.Errorf("read frame: %q is not a shim's word", frame.Type)
	}
	return nil
}

// arm begins to serve the gate's sockets.
func (l *live) arm(a api.Arm) error {
	files, err := l.conn.Take(len(a.Listeners))
	if err != nil {
		return fmt.Errorf("arm session: %w", err)
	}
	defer func() {
		for _, f := range files {
			_ = f.Close() // the listeners have their own descriptors
		}
	}()
	switch {
	case l.armed:
		return errors.New("arm session: armed already")
	case !l.Info.Network && len(files) > 0:
		return errors.New("arm session: listeners for a session without network")
	}
	l.armed = true
	if l.Info.Network {
		if err := l.engage(a.Listeners, files); err != nil {
			return fmt.Errorf("arm session: %w", err)
		}
	}
	return l.send(api.Frame{Type: api.FrameArmed})
}

// known are the names that an adopted session asked for before: the record tells
// them, and programs inside may have kept their addresses.
func (l *live) known() []string {
	if !l.adopted {
		return nil
	}
	var names []string
	for e, err := range audit.Read(folders.Audit(l.g.o.Dirs), audit.Filter{Session: l.Info.ID, Kind: audit.NetDNS}) {
		if err != nil {
			break // verify reports a broken record; a name that is not known is asked for again
		}
		if e.Verdict != "deny" && !slices.Contains(names, e.Host) {
			names = append(names, e.Host)
		}
	}
	return names
}

// engage makes the session's egress and serves it until the session ends.
func (l *live) engage(kinds []api.ListenerKind, files []*os.File) error {
	engine, err := egress.New(egress.Config{
		Session: l.Info.ID,
		Names:   l.known(),
		Decider: l,
		Journal: l,
		Hosts:   l.hosts,
		Local:   map[uint16]func(context.Context, net.Conn){hostexec.Port: l.host.Serve},
		Within:  l.bridges(),
		CA:      l.ca,
		Redact:  l.redacted(),
		Memory:  l.memory,
		SSH:     egress.SSH{Key: l.hostKey, Known: l.g.knownHosts(), Identity: l.identity},
		Roots:   l.roots,
		Logger:  l.g.log.With("session", l.Info.Name),
	})
	if err != nil {
		return err
	}
	accepted, err := listeners.Adopt(kinds, files)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.engine = engine
	// With the engine in sight of a reload, so that none falls between.
	engine.SetQuota(l.Scope.Load().Quota)
	l.mu.Unlock()
	l.served.Go(func() {
		if err := engine.Serve(l.ctx, accepted); err != nil && l.ctx.Err() == nil {
			// A session without its egress is not what was promised.
			l.g.log.Error("egress ended", "session", l.Info.Name, "error", err)
			l.ask("its egress ended: " + err.Error())
		}
	})
	return nil
}

// run records that the command runs.
func (l *live) run(s api.Started) error {
	e := l.Event()
	e.Kind, e.Action, e.PID = audit.Exec, "start", s.PID
	e.Resource = strings.Join(l.Info.Command, " ")
	if err := l.Records.Append(l.ctx, e); err != nil {
		return err
	}
	info, err := l.g.sessions.Apply(l.Info.ID, registry.Started, func(i *api.SessionInfo) {
		i.Handle, i.CommandPID = s.Handle, s.PID
	})
	if err == nil {
		l.g.bus.Publish(api.EventSession, info)
	}
	return err
}

// recheck closes what the new policy no longer allows.
func (l *live) recheck(ctx context.Context) {
	l.mu.Lock()
	engine := l.engine
	l.mu.Unlock()
	if engine != nil {
		engine.Recheck(ctx)
	}
}

// tell sends the numbers while they move, so that the next guardian can go on
// from them. One frame at a time is under way: a shim that sleeps gets one.
func (l *live) tell() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.Tally.Changed():
		}
		if !l.acked.CompareAndSwap(true, false) {
			continue // its ack marks the tally again
		}
		_ = l.sendNumbers()
		timer := time.NewTimer(countEvery)
		select {
		case <-l.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// sendFiled tells the shim which events of files are on record.
func (l *live) sendFiled() error {
	return l.send(api.Frame{Type: api.FrameFiled, Filed: l.filed.Load()})
}

// sendNumbers tells the shim what the session came to so far.
func (l *live) sendNumbers() error {
	_ = l.sendFiled() // a link that broke fails below, too
	sum := l.Tally.Summary()
	return l.send(api.Frame{Type: api.FrameCounts, Summary: &sum})
}

// linked waits until the shim has its grant, and reports whether it is not gone.
func (l *live) linked() bool {
	select {
	case <-l.ready:
		return true
	case <-l.gone:
		return false
	}
}

// ask asks the shim to end the session.
func (l *live) ask(reason string) {
	if l.linked() {
		_ = l.send(api.Frame{Type: api.FrameStop, Stop: &api.StopRequest{Reason: reason}})
	}
}

// send writes one frame; a broken link ends in listen.
func (l *live) send(frame api.Frame) error {
	line, err := exactjson.Marshal(frame)
	if err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	if err := l.conn.Write(line, nil, time.Now().Add(sendWithin)); err != nil {
		_ = l.conn.Close()
		return err
	}
	return nil
}

// finish records the end that the shim reported, and answers with the summary.
func (l *live) finish(end api.SessionEnd) {
	// The session's context has ended; its last records have not.
	ctx := context.WithoutCancel(l.ctx)
	for i, file := range end.AutorunChanged {
		e := l.Event()
		e.Kind, e.Action, e.Resource = audit.AutorunChanged, "change", file
		if i == maxAutorun {
			e.Resource, e.Reason = "", fmt.Sprintf("%d further files", len(end.AutorunChanged)-i)
		}
		l.Record(ctx, e)
		if i == maxAutorun {
			break
		}
	}
	event, reason := registry.Ended, end.Stopped
	if end.Failure != "" {
		event, reason = registry.Broke, end.Failure
	}
	sum := l.Tally.Summary()
	changed := registry.Short(slices.Concat(end.AutorunChanged, sum.Brought))
	l.g.sessions.Note(l.Info.ID, func(i *api.SessionInfo) { i.AutorunChanged = changed })
	l.over(ctx, event, "stop", reason, &end.ExitStatus)
	if end.Failure != "" {
		l.g.sweepSoon()
	}
	_ = l.sendFiled()
	_ = l.send(api.Frame{Type: api.FrameSummary, Summary: &sum})
}

// lose records that the shim is gone without a word, and has removed what it left.
func (l *live) lose(why error) {
	ctx := context.WithoutCancel(l.ctx)
	l.over(ctx, registry.Lost, "lost", "the shim is gone: "+why.Error(), nil)
	l.g.sweepSoon()
}

func (l *live) over(ctx context.Context, event registry.Event, action, reason string, status *int) {
	sum := l.Tally.Summary()
	ms := time.Since(l.started).Milliseconds()
	e := l.Event()
	e.Kind, e.Action, e.ExitStatus, e.DurationMS = audit.SessionStop, action, status, &ms
	e.Resource = l.Info.Project
	e.Reason = strings.TrimPrefix(fmt.Sprintf("%s; %d allowed, %d asked, %d denied",
		reason, sum.Allowed, sum.Asked, sum.Denied), "; ")
	l.Record(ctx, e)
	info, err := l.g.sessions.Apply(l.Info.ID, event, func(i *api.SessionInfo) {
		i.ExitStatus, i.Reason = status, reason
	})
	if err != nil {
		l.g.log.Error("session end", "session", l.Info.Name, "error", err)
		return
	}
	l.g.bus.Publish(api.EventSession, info)
}

// forget takes l off the desk.
func (g *guardian) forget(l *live) {
	g.touch()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.live[l.Info.ID] == l {
		delete(g.live, l.Info.ID)
	}
}
