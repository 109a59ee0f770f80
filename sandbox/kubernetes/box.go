package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes/pod"
)

// What the boxes of this driver can besides.
var (
	_ sandbox.Dialer  = (*box)(nil)
	_ sandbox.Resizer = (*box)(nil)
	_ sandbox.Noticer = (*box)(nil)
)

// box is one command in a pod.
type box struct {
	ctx  context.Context // of its start, without its end
	d    *Driver
	pod  string
	id   string // of the command, for signals
	cmd  *exec.Cmd
	tail *pod.End
	term *attached
	own  *owned // of the pod's owner; nil for one more command
	done chan struct{}
	end  sandbox.Status
	err  error
}

// Exec runs one more command in a pod.
func (d *Driver) Exec(ctx context.Context, h sandbox.Handle, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	namespace, name, ok := strings.Cut(string(h), "/")
	if !ok || namespace != d.o.Level.Namespace || !label().MatchString(name) {
		return nil, fmt.Errorf("join cloister: %q is no pod of the namespace %s", string(h), d.o.Level.Namespace)
	}
	if err := folderless(w); err != nil {
		return nil, fmt.Errorf("join cloister: %w", err)
	}
	return d.run(ctx, name, s, w, nil)
}

func (d *Driver) run(ctx context.Context, name string, s sandbox.Spec, w sandbox.Wiring, o *owned) (_ *box, err error) {
	b := &box{ctx: context.WithoutCancel(ctx), d: d, pod: name, id: strings.ToLower(rand.Text()), own: o,
		done: make(chan struct{})}
	b.cmd, err = d.kubectl(context.WithoutCancel(ctx),
		"exec", "--stdin", "--tty="+strconv.FormatBool(terminal(w)), "--quiet", name, "--container="+agentName,
		"--", pod.Program, pod.RoleRun, b.id)
	if err != nil {
		return nil, err
	}
	b.term, err = b.wire(w, pod.Run{ID: b.id, Argv: s.Argv, Env: s.Env, Dir: string(s.Dir), Processes: s.Limits.Pids})
	if err != nil {
		return nil, fmt.Errorf("run kubectl: %w", err)
	}
	if err := b.cmd.Start(); err != nil {
		b.term.finish()
		return nil, fmt.Errorf("run kubectl: %w", err)
	}
	b.term.begun()
	go b.attend()
	return b, nil
}

// attend waits for the command, and for the gate's connection, without which nothing of it
// counts.
func (b *box) attend() {
	defer close(b.done)
	ended := make(chan error, 1)
	go func() { ended <- b.cmd.Wait() }()
	lost, err := b.follow(ended)
	b.term.drain()
	_ = b.tail.Flush() // whoever reads no more gets nothing more
	b.term.finish()
	code, come := b.tail.Code()
	switch {
	case come:
		b.end = sandbox.Status{Code: code}
	case lost:
		why := ""
		if b.own.lost = !b.own.shut.Load(); b.own.lost {
			why = b.d.why(b.ctx, b.pod)
		}
		b.err = fmt.Errorf("%w: its gate is gone%s%s", errLost, why, b.own.sync.lost())
	default:
		b.err = errors.Join(fmt.Errorf("%w: kubectl ended before the command did", errLost), err)
	}
	if !come {
		b.end = sandbox.Status{Signal: int(syscall.SIGKILL)}
	}
	if b.own != nil {
		if lost {
			b.err = errors.Join(b.err, b.own.sync.drop())
		} else {
			b.err = errors.Join(b.err, b.own.sync.bring(b.ctx, b.own.over, true))
		}
		b.err = errors.Join(b.err, b.own.close(b.ctx))
	}
}

// outputWithin bounds the wait for what a command wrote last, when it has ended: something else that
// it left may hold its output open.
const outputWithin = 2 * time.Second

// follow waits for kubectl's end, or the gate's, and brings back what changed meanwhile.
func (b *box) follow(ended <-chan error) (lost bool, err error) {
	var over chan struct{}
	var bring <-chan time.Time
	if b.own != nil {
		over = b.own.over
		next := time.NewTicker(bringEvery)
		defer next.Stop()
		bring = next.C
	}
	came := b.tail.Came()
	var late <-chan time.Time
	for {
		select {
		case err = <-ended:
			return false, err
		case <-came:
			came, bring = nil, nil
			if b.own != nil { // the cloister ends with its command, and its output then with it
				go func() { _ = b.own.sync.first.End() }() // without the gate its end is the end
			}
			t := time.NewTimer(outputWithin)
			defer t.Stop()
			late = t.C
		case <-late:
			_ = b.cmd.Process.Signal(syscall.SIGTERM) // it has ended, else
			return false, <-ended
		case <-over:
			_ = b.cmd.Process.Signal(syscall.SIGTERM) // it has ended, else
			return true, <-ended
		case <-bring:
			b.own.sync.note(b.own.sync.bring(b.ctx, b.own.over, false))
		}
	}
}

// Handle is the pod.
func (b *box) Handle() sandbox.Handle {
	return sandbox.Handle(b.d.o.Level.Namespace + "/" + b.pod)
}

// Signal passes a signal on.
func (b *box) Signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal cloister: %v is no signal", sig)
	}
	select {
	case <-b.done:
		return os.ErrProcessDone
	default:
	}
	_, err := b.d.call(b.ctx, nil, "exec", b.pod, "--container="+agentName, "--",
		pod.Program, pod.RoleSignal, b.id, strconv.Itoa(int(n)))
	return err
}

// Wait returns when the command has ended, and the pod where it is the pod's.
func (b *box) Wait() (sandbox.Status, error) {
	<-b.done
	return b.end, b.err
}

// Close ends the pod, or the one command.
func (b *box) Close() error {
	select {
	case <-b.done:
		return b.err
	default:
	}
	if b.own != nil {
		if b.own.sync.keeps() { // what it did is kept, where it can be
			b.finish()
		}
		b.own.shut.Store(true)
		b.own.stop() // the gate's connection: the rest follows
	} else if err := b.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = b.cmd.Process.Signal(syscall.SIGTERM) // it has ended, else
	}
	<-b.done
	if b.own != nil && errors.Is(b.err, errLost) && b.own.err == nil {
		return nil // it was to be
	}
	return b.err
}

// endWithin bounds the end of a command that is killed, with what is brought back after it.
const endWithin = time.Minute

// finish kills the command, and waits until what it did was brought back.
func (b *box) finish() {
	if err := b.Signal(syscall.SIGKILL); err != nil {
		return
	}
	t := time.NewTimer(endWithin)
	defer t.Stop()
	select {
	case <-b.done:
	case <-t.C:
	}
}

// Dial connects to a TCP port that something inside listens on.
func (b *box) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if b.own == nil {
		return nil, errors.New("dial cloister: this is one more command of it")
	}
	c, err := b.own.shim.Dial(ctx, port)
	if err != nil {
		return nil, fmt.Errorf("dial cloister: %w", err)
	}
	return c, nil
}

// Resize gives the command's terminal the size of the caller's.
func (b *box) Resize() error { return b.term.resize() }

// Notices are for the person, when the command has ended.
func (b *box) Notices() []string {
	if b.own == nil {
		return nil
	}
	return b.own.sync.notices()
}
