package monitor

import (
	"context"
	"fmt"
	"os"
	"os/signal"
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

// ordered is a box as its order says, which has not begun.
func ordered(r *report) (*box, error) {
	f, err := os.Open(OrderPath)
	if err != nil {
		return nil, err
	}
	o, err := readOrder(f)
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("read the order: %w", err)
	}
	if o.Setup.Seen, err = seen(); err != nil {
		return nil, err
	}
	r.say("hello %s", wire.Protocol)
	return &box{o: o, head: headWithin, over: make(chan error, 8), gone: make(chan error, 2)}, nil
}

// runBox is the life of a box, which begins from a template if it is given one.
func runBox(ctx context.Context, r *report, from *os.File) error {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals) // none of them ends the monitor: they are the command's
	b, err := ordered(r)
	if err != nil {
		return err
	}
	stop, err := b.boot(ctx, from)
	if err != nil {
		return err
	}
	defer stop()
	if err := b.open(); err != nil {
		return err
	}
	o := b.o
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
