package monitor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"cloister/sandbox/microvm/template"
	"cloister/sandbox/microvm/wire"
)

// boot starts the view's server and QEMU, and waits until the guest is what its setup says.
func (b *box) boot(ctx context.Context, from *os.File) (stop func(), err error) {
	v := &machine{o: b.o, gone: b.gone}
	defer func() {
		if err != nil {
			v.end()
		}
	}()
	if err := v.serve(ctx, filepath.Join(b.o.State, files)); err != nil {
		return nil, fmt.Errorf("start %s: %w", b.o.Server, err)
	}
	how := boots
	if from != nil {
		how = goesOn
	}
	q, err := v.start(how)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", b.o.QEMU, err)
	}
	if err := b.within(v, func() error { return b.meet(q, from) }); err != nil {
		return nil, err
	}
	go b.accept(ctx)
	return v.end, nil
}

// within waits for a guest's beginning, as long as it may take, and explains why there is none.
func (b *box) within(v *machine, do func() error) (err error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	timer := time.NewTimer(time.Duration(b.o.Boot) * time.Second)
	defer timer.Stop()
	select {
	case err = <-done:
	case err = <-b.gone:
	case err = <-b.over:
	case <-timer.C:
		err = fmt.Errorf("the guest did not boot within %d s", b.o.Boot)
	}
	if err == nil || errors.Is(err, template.ErrChanged) {
		return err // with a template of another, what the programs said is of no use
	}
	return v.explain(err)
}

// meet wakes the guest, reads its first words and says what it is to be.
func (b *box) meet(q started, from *os.File) error {
	var err error
	if from != nil {
		err = goOn(q, from, b.o)
	} else {
		err = waits(q.port)
	}
	q.memory.Close() // QEMU has it
	if err != nil {
		return err
	}
	if err := wake(q.port); err != nil {
		return fmt.Errorf("wake the guest: %w", err)
	}
	if b.s, err = wire.Monitor(q.port); err != nil {
		return err
	}
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

// waits reads that a guest which boots can go no further without its monitor.
func waits(port io.Reader) error {
	said := make([]byte, len(wire.Waits))
	if _, err := io.ReadFull(port, said); err != nil {
		return fmt.Errorf("wait for the guest: %w", err)
	}
	if string(said) != wire.Waits {
		return fmt.Errorf("the guest speaks %q", said)
	}
	return nil
}

// wake gives a guest what none but it has.
func wake(port io.Writer) error {
	w := wire.Wake{Seed: make([]byte, wire.SeedSize)}
	_, _ = rand.Read(w.Seed) // it never fails
	w.Time = time.Now().UnixNano()
	return wire.Say(port, w)
}

// goOn has a machine go on from a template. Afterwards no process can tell QEMU anything.
func goOn(q started, from *os.File, o Order) error {
	state, err := template.Read(from, o.Template, q.memory, o.Memory<<20)
	from.Close()
	if err != nil {
		return fmt.Errorf("the template of this machine: %w: cloister setup microvm makes another", err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		_, err := in.Write(state)
		written <- errors.Join(err, in.Close())
	}()
	err = q.qmp.load(out)
	out.Close() // QEMU has it; without it, the write ends
	if err = errors.Join(err, <-written); err != nil {
		return fmt.Errorf("go on from the template: %w", err)
	}
	if err := q.qmp.plug(); err != nil {
		return err
	}
	if err := q.qmp.do("cont", none{}); err != nil {
		return err
	}
	return q.qmp.to.Close()
}

// keep boots a machine in which nothing of a session is, and writes it to a file as it stands when its guest waits.
func (b *box) keep(to *os.File) error {
	v := &machine{o: b.o, gone: b.gone}
	defer v.end()
	q, err := v.start(tobeKept)
	if err != nil {
		return fmt.Errorf("start %s: %w", b.o.QEMU, err)
	}
	defer q.close()
	var state []byte
	if err := b.within(v, func() (err error) {
		if err := waits(q.port); err != nil {
			return err
		}
		state, err = stateOf(q.qmp)
		return err
	}); err != nil {
		return err
	}
	return template.Write(to, q.memory, state)
}

// stateOf stops a machine and reads its devices' state.
func stateOf(q *qmp) ([]byte, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	type read struct {
		state []byte
		err   error
	}
	done := make(chan read, 1)
	go func() {
		state, err := io.ReadAll(io.LimitReader(out, template.MaxState+1))
		out.Close()
		done <- read{state, err}
	}()
	err = q.save(in)
	in.Close()
	if err != nil {
		return nil, err
	}
	r := <-done
	if r.err == nil && len(r.state) > template.MaxState {
		r.err = fmt.Errorf("the devices' state has more than %d bytes", template.MaxState)
	}
	return r.state, r.err
}
