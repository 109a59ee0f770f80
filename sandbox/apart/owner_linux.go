package apart

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"cloister/internal/passfd"
	"cloister/sandbox"
)

// Main is the process that owns one box of a driver: the caller's line is its fourth
// descriptor, the command's streams are its first three. It gives an exit status.
func Main(ctx context.Context, driver sandbox.Driver) int {
	f := os.NewFile(3, "caller")
	c, err := net.FileConn(f)
	if err != nil {
		return 2
	}
	_ = f.Close() // the connection has a descriptor of its own
	own, ok := c.(*net.UnixConn)
	if !ok {
		return 2
	}
	o := newOwner(own, mostLine)
	b, _, err := o.line.ordered()
	if err != nil {
		return 2
	}
	std := sandbox.Wiring{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := o.own(ctx, driver, b, std); err != nil {
		return 1 // the caller alone could get the error, and is gone
	}
	return 0
}

// A Judge looks at an order of another user, with what that passed for it, and gives the
// driver for it. It may change the order. terminal takes the outer end of a terminal.
type Judge func(o *Order, files []*os.File, terminal func(*os.File) error) (sandbox.Driver, error)

// Own owns one box for the caller at the other end of a connection, who is another user:
// no line of it may be longer than most. An error says why the caller heard nothing.
func Own(ctx context.Context, c *net.UnixConn, most int, judge Judge) error {
	o := newOwner(c, most)
	b, files, err := o.line.ordered()
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return err
	}
	if len(files) < 3 && !b.Hold {
		return errors.New("hear an order: the command's streams are missing")
	}
	driver, err := judge(&b, files[min(3, len(files)):], func(f *os.File) error {
		return o.line.say(message{Terminal: true}, f)
	})
	if err != nil {
		return o.line.say(message{Failed: failed(err)})
	}
	if b.Hold {
		return o.hold(driver, b.Handle)
	}
	return o.own(ctx, driver, b, sandbox.Wiring{Stdin: files[0], Stdout: files[1], Stderr: files[2]})
}

// Refuse says why no box is built, and closes the connection.
func Refuse(c *net.UnixConn, why error) error {
	return errors.Join(line{passfd.New(c, nil, mostLine)}.say(message{Failed: failed(why)}), c.Close())
}

// hold holds a box still until the caller's word, or its end.
func (o *owner) hold(driver sandbox.Driver, h sandbox.Handle) error {
	thaw, err := sandbox.Hold(driver, h)
	if err != nil {
		return o.line.say(message{Failed: failed(err)})
	}
	err = o.line.say(message{Runs: &runs{Handle: h}})
	if err == nil {
		_, _ = o.line.hear() // whatever it is, all go on
	}
	after := thaw()
	return errors.Join(err, o.line.say(message{Ended: &ended{Failed: failed(after)}}))
}

func newOwner(c *net.UnixConn, most int) *owner {
	return &owner{line: line{passfd.New(c, nil, most)}, armed: make(chan error, 1),
		asked: make(chan message, mostAsked)}
}

// owner is the process's side of the line.
type owner struct {
	line  line
	armed chan error   // the caller's word about the gate
	asked chan message // what is asked of the box; closed when the caller is gone
}

// hear passes on what the caller says, until it is gone.
func (o *owner) hear(gone context.CancelCauseFunc) {
	defer close(o.asked)
	for {
		m, err := o.line.hear()
		if err != nil {
			gone(errGone)
			return
		}
		var kept bool
		if m.Armed != nil {
			select {
			case o.armed <- m.Armed.err():
				kept = true
			default: // it is said once
			}
		} else {
			select {
			case o.asked <- m:
				kept = true
			default: // more than a driver asks
			}
		}
		if !kept { // whoever stopped reading here would not notice that the caller is gone
			gone(errTooMuch)
			return
		}
	}
}

var (
	errGone    = errors.New("the caller is gone")
	errTooMuch = errors.New("the caller asks more than can be done")
)

// mostAsked bounds what waits to be done for a caller.
const mostAsked = 1024

func (o *owner) own(ctx context.Context, driver sandbox.Driver, b Order, w sandbox.Wiring) error {
	ctx, gone := context.WithCancelCause(ctx)
	go o.hear(gone) // ends with the process
	w.Arm, w.Peers = o.arm, o.peers
	if b.Watched {
		// Where it is not heard, the caller is gone, and with it the box.
		w.Watched = func(e sandbox.FileEvent) { _ = o.line.say(message{Event: &e}) }
	}
	var box sandbox.Box
	var err error
	if b.Handle != "" {
		box, err = driver.Exec(ctx, b.Handle, b.Spec, w)
	} else {
		box, err = driver.Start(ctx, b.Spec, w)
	}
	if err != nil {
		return o.line.say(message{Failed: failed(err)})
	}
	if err := o.line.say(message{Runs: &runs{box.Handle(), sandbox.ProcessOf(box)}}); err != nil {
		return errors.Join(err, box.Close())
	}
	return o.attend(ctx, box)
}

// arm hands the gate's sockets to the caller, and waits until they are served.
func (o *owner) arm(ctx context.Context, g sandbox.Gate) error {
	defer g.Close()
	// The order is the one that GateOf takes.
	files := []*os.File{g.TCP4, g.DNS4, g.DNSTCP4, g.TCP6, g.DNS6, g.DNSTCP6, g.Refusals}
	files = slices.DeleteFunc(files, func(f *os.File) bool { return f == nil })
	if err := o.line.say(message{Gate: len(files)}, files...); err != nil {
		return err
	}
	select {
	case err := <-o.armed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// peers hands the sockets of peers to the caller. Where that fails so does what comes next.
func (o *owner) peers(sockets []*os.File) {
	_ = o.line.say(message{Peers: len(sockets)}, sockets...)
	for _, f := range sockets {
		f.Close()
	}
}

// attend does what the caller asks, until the box is over.
func (o *owner) attend(ctx context.Context, box sandbox.Box) error {
	over := make(chan ended, 1)
	go func() {
		status, err := box.Wait()
		over <- ended{status, failed(err)}
	}()
	var dials sync.WaitGroup
	defer dials.Wait()
	var alone <-chan sandbox.Status
	if early, ok := box.(sandbox.EarlyEnder); ok {
		alone = early.Alone()
	}
	for {
		select {
		case status := <-alone:
			if err := o.line.say(message{Alone: &status}); err != nil {
				alone = nil // the caller is gone: asked tells
			}
		case e := <-over:
			return o.line.say(message{Ended: &e})
		case m, ok := <-o.asked:
			switch {
			case !ok || m.Close:
				_ = box.Close() // Wait tells
				e := <-over
				return o.line.say(message{Ended: &e})
			case m.Signal > 0:
				_ = box.Signal(syscall.Signal(m.Signal)) // an error means that it has ended: Wait tells
			case m.Dial != nil:
				dials.Go(func() { o.dial(ctx, box, *m.Dial) })
			}
		}
	}
}

// dial hands a connection to the caller.
func (o *owner) dial(ctx context.Context, box sandbox.Box, d dial) {
	say := func(err error, files ...*os.File) {
		_ = o.line.say(message{Dialed: &dialed{d.Number, failed(err)}}, files...) // a caller who is gone waits for none
	}
	to, ok := box.(sandbox.PeerDialer)
	if !ok {
		say(errors.New("this driver's boxes are not reached from outside"))
		return
	}
	reach := to.Dial
	if d.Peer {
		reach = to.DialPeer
	}
	c, err := reach(ctx, d.Port)
	if err != nil {
		say(err)
		return
	}
	defer c.Close()
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		say(errors.New("not a connection of the kernel's"))
		return
	}
	f, err := tcp.File()
	if err != nil {
		say(err)
		return
	}
	defer f.Close()
	say(nil, f)
}
