package kubernetes

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/kubernetes/link"
	"cloister/sandbox/kubernetes/pod"
)

// owned is what the owner of a pod has of it.
type owned struct {
	d    *Driver
	pod  string
	dir  string
	held *os.File // dir, locked while this process has the pod
	stop context.CancelFunc
	over chan struct{} // closed when the gate's connection has ended
	shim *link.Shim
	sync *synced
	once sync.Once
	err  error
	lost bool        // there may be no node that confirms its end
	shut atomic.Bool // this host ends it: its node is not to blame
}

// deleteWithin bounds the end of a pod, of which a cluster needs a few seconds.
const deleteWithin = 2 * time.Minute

// close ends the pod and what this host has of it.
func (o *owned) close(ctx context.Context) error {
	o.once.Do(func() {
		o.stop()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteWithin)
		defer cancel()
		flags := []string{"--ignore-not-found", "--wait=true", "--grace-period=1"}
		if o.lost {
			flags = append(flags, lostWithin)
		}
		if o.err = o.d.maker().remove(ctx, []string{o.pod}, flags...); o.err != nil && o.lost {
			o.err = fmt.Errorf("the pod %s may be there still, and each sweep asks for its end: %w", o.pod, o.err)
		}
		o.err = errors.Join(o.err, os.RemoveAll(o.dir))
		if o.held != nil {
			o.err = errors.Join(o.err, o.held.Close())
		}
	})
	return o.err
}

// Start makes the pod and runs the command in it.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	if err := folderless(w); err != nil {
		return nil, fmt.Errorf("start kubernetes: %w", err)
	}
	p, err := planOf(s)
	if err == nil {
		err = p.hold(d.o.Level)
	}
	if err != nil {
		return nil, err
	}
	o, err := d.enclose(ctx, p, w)
	if err != nil {
		return nil, fmt.Errorf("start kubernetes: %w", err)
	}
	b, err := d.run(ctx, o.pod, s, w, o)
	if err != nil {
		return nil, errors.Join(err, o.close(ctx))
	}
	return b, nil
}

// folderless refuses a folder or a disk as a standard descriptor, of which nothing could be carried.
func folderless(w sandbox.Wiring) error {
	for i, f := range []*os.File{w.Stdin, w.Stdout, w.Stderr} {
		if f == nil {
			continue
		}
		st, err := f.Stat()
		if err != nil {
			return err
		}
		if m := st.Mode(); m.IsDir() || m&os.ModeDevice != 0 && m&os.ModeCharDevice == 0 {
			return fmt.Errorf("standard descriptor %d is a folder or a disk", i)
		}
	}
	return nil
}

// enclose makes the pod, and returns when its gate is served and its agent's container was
// looked at.
func (d *Driver) enclose(ctx context.Context, p *plan, w sandbox.Wiring) (_ *owned, err error) {
	s := p.spec
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
	asked, err := p.describe(d.o.Level, order)
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
	if made.held, err = hold(made.dir); err != nil {
		return nil, err
	}
	proof := rand.Text()
	shim := link.NewShim(link.Setup{Files: p.files, Links: p.links, Proof: proof}, streams, questions)
	made.shim = shim
	tell, err := refusals(&g)
	if err != nil {
		return nil, err
	}
	shim.Refused, shim.Look = tell, d.o.Look
	hold, err := d.maker().make(ctx, asked)
	if err != nil {
		return nil, err
	}
	fails, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go d.failing(fails, made.pod, cancel)
	c, err := link.Accept(fails, l, config)
	if err != nil {
		return nil, d.o.Level.late(cause(fails, err))
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
	var now status
	err = d.watch(fails, made.pod, func(s status) bool {
		now = s
		return s.runs()
	})
	if err == nil && hold != nil {
		err = hold(now.text)
	}
	if err == nil {
		err = d.look(fails, made.pod, s.User.ID, proof, now.Spec.Class)
	}
	if err == nil {
		made.sync, err = fill(fails, shim, p.trees)
	}
	if err != nil {
		return nil, cause(fails, err)
	}
	armed := g
	g = sandbox.Gate{} // the taker's from here on
	return made, w.Arm(ctx, armed)
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
func (d *Driver) look(ctx context.Context, of string, uid int, proof, class string) error {
	text, err := d.call(ctx, nil, "exec", of, "--container="+agentName, "--", pod.Program, pod.RoleCanary)
	if err != nil {
		return fmt.Errorf("look at the pod from inside: %w", err)
	}
	var seen pod.Canary
	if err := json.Unmarshal(text, &seen); err != nil {
		return fmt.Errorf("look at the pod from inside: %w", err)
	}
	wrong := seen.Wrong(uid, proof)
	if wrong == "" {
		wrong = d.o.Level.held(class, seen)
	}
	if wrong != "" {
		return &sandbox.Unsupported{Guarantee: "a pod as it was asked for", Reason: wrong,
			Fix: "the cluster's runtime, or what changes its pods, ignores what was asked"}
	}
	return nil
}
