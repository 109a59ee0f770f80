package monitor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"cloister/sandbox/microvm/wire"
)

// box is a running guest with what serves it.
type box struct {
	o    Order
	s    *yamux.Session
	over chan error    // why the box ends, besides its command's end
	gone chan error    // which of its two programs ended, and how
	own  atomic.Int64  // streams that this side opened
	head time.Duration // bounds what begins a stream
	mu   sync.Mutex
	last uint32
}

// runBox is the life of a box.
func runBox(ctx context.Context, r *report) error {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals) // none of them ends the monitor: they are the command's
	f, err := os.Open(OrderPath)
	if err != nil {
		return err
	}
	o, err := readOrder(f)
	f.Close()
	if err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	if o.Setup.Seen, err = seen(); err != nil {
		return err
	}
	r.say("hello %s", wire.Protocol)
	b := &box{o: o, head: headWithin, over: make(chan error, 8), gone: make(chan error, 2)}
	stop, err := b.boot(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := b.open(); err != nil {
		return err
	}
	done := make(chan error, 1)
	o.Command.First = true
	std := [3]*os.File{os.Stdin, os.Stdout, os.Stderr}
	go func() { done <- b.command(r, o.Command, std, forwarded(signals, o.Command)) }()
	select {
	case err = <-done:
	case err = <-b.over:
	case err := <-b.gone:
		return err
	}
	return b.cause(err)
}

// causeWithin bounds the wait for a program whose end is already seen by its closed socket.
const causeWithin = 10 * time.Second

// cause is the end of a program, where that is why the guest is gone.
func (b *box) cause(err error) error {
	if err == nil {
		return nil
	}
	select {
	case program := <-b.gone:
		return program
	case <-time.After(causeWithin):
		return err
	}
}

// open serves what others of the enclosure ask for: further commands, and ports.
func (b *box) open() error {
	if err := b.doors(); err != nil {
		return fmt.Errorf("open the door for commands: %w", err)
	}
	if err := b.ports(); err != nil {
		return fmt.Errorf("open the way to ports: %w", err)
	}
	return nil
}

// boot starts the view's server and QEMU, and waits until the guest is what its setup says.
func (b *box) boot(ctx context.Context) (stop func(), err error) {
	v := &machine{o: b.o, gone: b.gone}
	defer func() {
		if err != nil {
			v.end()
		}
	}()
	if err := v.serve(ctx, filepath.Join(b.o.State, files)); err != nil {
		return nil, fmt.Errorf("start %s: %w", b.o.Server, err)
	}
	port, err := v.start(filepath.Join(b.o.State, files))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", b.o.QEMU, err)
	}
	if b.s, err = wire.Monitor(port); err != nil {
		return nil, err
	}
	booted := make(chan error, 1)
	go func() { booted <- b.meet() }()
	timer := time.NewTimer(time.Duration(b.o.Boot) * time.Second)
	defer timer.Stop()
	select {
	case err = <-booted:
	case err = <-b.gone:
	case err = <-b.over:
	case <-timer.C:
		err = fmt.Errorf("the guest did not boot within %d s", b.o.Boot)
	}
	if err != nil {
		return nil, v.explain(err)
	}
	go b.accept(ctx)
	return v.end, nil
}

// meet reads the guest's first words and says what it is to be.
func (b *box) meet() error {
	s, err := b.s.AcceptStream()
	if err != nil {
		return fmt.Errorf("wait for the guest: %w", err)
	}
	var h wire.Head
	if err := wire.HearHead(s, &h); err != nil {
		return fmt.Errorf("wait for the guest: %w", err)
	}
	if h.Hello != wire.Protocol {
		return fmt.Errorf("the guest speaks %q, and this is %q", h.Hello, wire.Protocol)
	}
	if err := wire.Say(s, b.o.Setup); err != nil {
		return err
	}
	var w wire.Word
	if err := wire.HearWord(s, &w); err != nil {
		return fmt.Errorf("wait for the guest: %w", err)
	}
	if !w.Ready {
		return errors.New("the guest: " + w.Failed)
	}
	return nil
}
