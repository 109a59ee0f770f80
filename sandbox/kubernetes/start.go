package kubernetes

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes/link"
	"cloister/sandbox/kubernetes/pod"
)

// box is one command in a pod.
type box struct {
	ctx  context.Context // of its start, without its end
	d    *Driver
	pod  string
	id   string // of the command, for signals
	cmd  *exec.Cmd
	tail *pod.End
	own  *owned // of the pod's owner; nil for one more command
	done chan struct{}
	end  sandbox.Status
	err  error
}

// owned is what the owner of a pod has of it.
type owned struct {
	d    *Driver
	pod  string
	dir  string
	stop context.CancelFunc
	over chan struct{} // closed when the gate's connection has ended
	once sync.Once
	err  error
}

// deleteWithin bounds the end of a pod, of which a cluster needs a few seconds.
const deleteWithin = 2 * time.Minute

// close ends the pod and what this host has of it.
func (o *owned) close(ctx context.Context) error {
	o.once.Do(func() {
		o.stop()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteWithin)
		defer cancel()
		_, o.err = o.d.call(ctx, nil, "delete", "pod", o.pod, "--ignore-not-found", "--wait=true", "--grace-period=1")
		o.err = errors.Join(o.err, os.RemoveAll(o.dir))
	})
	return o.err
}

// Start makes the pod and runs the command in it.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	if err := refuse(s); err != nil {
		return nil, err
	}
	o, err := d.enclose(ctx, s, w)
	if err != nil {
		return nil, fmt.Errorf("start kubernetes: %w", err)
	}
	b, err := d.run(ctx, o.pod, s, w, o)
	if err != nil {
		return nil, errors.Join(err, o.close(ctx))
	}
	return b, nil
}

// enclose makes the pod, and returns when its gate is served and its agent's container was
// looked at.
func (d *Driver) enclose(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (_ *owned, err error) {
	list, err := files(s)
	if err != nil {
		return nil, err
	}
	config, order, err := link.NewPair(time.Now())
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(d.o.Level.Address, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for the gate: %w", err)
	}
	defer l.Close()
	order.Address = l.Addr().String()
	text, err := d.describe(s, list, order)
	if err != nil {
		return nil, err
	}
	made := &owned{d: d, pod: name(s), dir: filepath.Join(d.o.Dir, s.ID), over: make(chan struct{})}
	served, stop := context.WithCancel(context.WithoutCancel(ctx))
	made.stop = stop
	defer func() {
		if err != nil {
			err = errors.Join(err, made.close(ctx))
		}
	}()
	g, streams, questions, err := sockets(made.dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	shim := link.NewShim(link.Setup{Files: list, Links: links(s)}, streams, questions)
	if _, err = d.call(ctx, text, "create", "--validate=false", "--filename=-"); err != nil {
		return nil, err
	}
	fails, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go d.failing(fails, made.pod, cancel)
	c, err := link.Accept(fails, l, config)
	if err != nil {
		return nil, cause(fails, err)
	}
	go func() {
		defer close(made.over)
		_ = shim.Serve(served, c) // its end is what is waited for
	}()
	select {
	case <-shim.Open():
	case <-made.over:
		return nil, cause(fails, errors.New("the gate ended before it stood"))
	case <-fails.Done():
		return nil, context.Cause(fails)
	}
	if err = d.watch(fails, made.pod, status.runs); err == nil {
		err = d.look(fails, made.pod, s.User.ID)
	}
	if err != nil {
		return nil, cause(fails, err)
	}
	armed := g
	g = sandbox.Gate{} // the taker's from here on
	return made, w.Arm(ctx, armed)
}

func (d *Driver) describe(s sandbox.Spec, list []sandbox.File, o link.Order) ([]byte, error) {
	described, err := describe(d.o.Level, s, list, o)
	if err != nil {
		return nil, err
	}
	return json.Marshal(described)
}

// cause is why a context ended, where that explains the error.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

// failing ends the wait for a pod that will not run.
func (d *Driver) failing(ctx context.Context, pod string, cancel context.CancelCauseFunc) {
	why := ""
	err := d.watch(ctx, pod, func(s status) bool {
		why = s.over()
		return why != ""
	})
	if why != "" {
		err = fmt.Errorf("%w: %s", errLost, why)
	}
	cancel(err)
}

// sockets are those that the guardian serves, and their paths.
func sockets(dir string) (g sandbox.Gate, streams, questions string, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return g, "", "", err
	}
	streams, questions = filepath.Join(dir, "t"), filepath.Join(dir, "q")
	for _, one := range []struct {
		path string
		to   **os.File
	}{{streams, &g.Streams}, {questions, &g.DNSStreams}} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: one.path, Net: "unix"})
		if err != nil {
			g.Close()
			return sandbox.Gate{}, "", "", err
		}
		l.SetUnlinkOnClose(false) // the file that is kept of it is the same socket
		*one.to, err = l.File()
		if err = errors.Join(err, l.Close()); err != nil {
			g.Close()
			return sandbox.Gate{}, "", "", err
		}
	}
	return g, streams, questions, nil
}

// look has the agent's container looked at from inside.
func (d *Driver) look(ctx context.Context, of string, uid int) error {
	text, err := d.call(ctx, nil, "exec", of, "--container="+agentName, "--", pod.Program, pod.RoleCanary)
	if err != nil {
		return fmt.Errorf("look at the pod from inside: %w", err)
	}
	var seen pod.Canary
	if err := json.Unmarshal(text, &seen); err != nil {
		return fmt.Errorf("look at the pod from inside: %w", err)
	}
	if wrong := seen.Wrong(uid); wrong != "" {
		return &sandbox.Unsupported{Guarantee: "a pod as it was asked for", Reason: wrong,
			Fix: "the cluster's runtime, or what changes its pods, ignores what was asked"}
	}
	return nil
}

// Exec runs one more command in a pod.
func (d *Driver) Exec(ctx context.Context, h sandbox.Handle, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	namespace, name, ok := strings.Cut(string(h), "/")
	if !ok || namespace != d.o.Level.Namespace || !label().MatchString(name) {
		return nil, fmt.Errorf("join cloister: %q is no pod of the namespace %s", string(h), d.o.Level.Namespace)
	}
	return d.run(ctx, name, s, w, nil)
}

func (d *Driver) run(ctx context.Context, name string, s sandbox.Spec, w sandbox.Wiring, o *owned) (*box, error) {
	b := &box{ctx: context.WithoutCancel(ctx), d: d, pod: name, id: strings.ToLower(rand.Text()), own: o,
		done: make(chan struct{})}
	text, err := json.Marshal(pod.Run{ID: b.id, Argv: s.Argv, Env: s.Env, Dir: string(s.Dir), Processes: s.Limits.Pids})
	if err != nil {
		return nil, err
	}
	b.cmd, err = d.kubectl(context.WithoutCancel(ctx), "exec", "--stdin", name, "--container="+agentName, "--",
		pod.Program, pod.RoleRun, base64.StdEncoding.EncodeToString(text))
	if err != nil {
		return nil, err
	}
	b.tail = pod.NewEnd(w.Stderr, b.id)
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = w.Stdin, w.Stdout, b.tail
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("run kubectl: %w", err)
	}
	go b.attend()
	return b, nil
}

// attend waits for the command, and for the gate's connection, without which nothing of it
// counts.
func (b *box) attend() {
	defer close(b.done)
	ended := make(chan error, 1)
	go func() { ended <- b.cmd.Wait() }()
	var over chan struct{}
	if b.own != nil {
		over = b.own.over
	}
	lost := false
	var err error
	select {
	case err = <-ended:
	case <-over:
		lost = true
		_ = b.cmd.Process.Signal(syscall.SIGTERM) // it has ended, else
		err = <-ended
	}
	_ = b.tail.Flush() // whoever reads no more gets nothing more
	code, come := b.tail.Code()
	switch {
	case come:
		b.end = sandbox.Status{Code: code}
	case lost:
		b.err = fmt.Errorf("%w: its gate is gone", errLost)
	default:
		b.err = errors.Join(fmt.Errorf("%w: kubectl ended before the command did", errLost), err)
	}
	if !come {
		b.end = sandbox.Status{Signal: int(syscall.SIGKILL)}
	}
	if b.own != nil {
		b.err = errors.Join(b.err, b.own.close(b.ctx))
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
