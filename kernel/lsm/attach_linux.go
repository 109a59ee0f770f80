package lsm

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// Bits are what a policy says of one label; those of label 0 are of everything.
type Bits = objectsBits

// A Backend is what of the kernel one session needs: its maps, or a service that has them.
type Backend interface {
	// Label is that of a file, which Swap and events name it by.
	Label(f *os.File) (uint64, error)
	// Swap makes bits, by labels, the policy in one step; files are those of the labels but 0.
	Swap(bits map[uint64]Bits, files map[uint64]*os.File) error
	// Read is that of a Session, with an event as the kernel writes it.
	Read(until time.Time) ([]byte, error)
	Counts() (Counts, error)
	Drain() error
	Close() error
}

// Attached is a control group that the programs judge.
type Attached struct {
	k      *Kernel
	id     uint64
	ring   *ebpf.Map
	events *ringbuf.Reader
}

// ErrJudged says that a control group is a session already.
var ErrJudged = errors.New("the kernel judges this control group already")

// Attach makes a control group, by its folder, a session whose tasks open nothing. Of owner, where
// it is not 0, tasks of that user alone come to be of the session.
func (k *Kernel) Attach(group *os.File, owner uint32) (*Attached, error) {
	if owner == math.MaxUint32 {
		return nil, errors.New("begin a session of the LSM: no user has this number")
	}
	id, levels, err := groupOf(group)
	if err != nil {
		return nil, err
	}
	unlock, err := lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := k.pin(); err != nil {
		return nil, err
	}
	if _, err := k.sweep(); err != nil {
		return nil, err
	}
	var known objectsSession
	if err := k.maps[objectsMapSessions].Lookup(id, &known); err == nil {
		return nil, ErrJudged
	}
	s := objectsSession{}
	if owner != 0 {
		s.Owner = owner + 1
	}
	a := &Attached{k: k, id: id}
	if err := a.begin(levels, s); err != nil {
		return nil, errors.Join(fmt.Errorf("begin a session of the LSM: %w", err), a.end())
	}
	return a, nil
}

func (a *Attached) begin(levels uint64, s objectsSession) error {
	var err error
	if a.ring, err = ebpf.NewMap(innerRing.Copy()); err != nil {
		return err
	}
	if a.events, err = ringbuf.NewReader(a.ring); err != nil {
		return err
	}
	if err := a.k.maps[objectsMapRings].Put(a.id, a.ring); err != nil {
		return err
	}
	if err := a.Swap(nil, nil); err != nil {
		return err
	}
	if err := a.k.maps[objectsMapSessions].Update(a.id, s, ebpf.UpdateNoExist); err != nil {
		return err
	}
	var known uint64
	if err := a.k.maps[objectsMapLevels].Lookup(uint32(0), &known); err != nil {
		return err
	}
	return a.k.maps[objectsMapLevels].Put(uint32(0), known|levels)
}

// Label gives a file its label.
func (a *Attached) Label(f *os.File) (uint64, error) { return labelOf(a.k.maps[objectsMapLabels], f) }

// Swap returns when no program reads the old policy any more: the kernel waits for that when a
// map in a map is replaced.
func (a *Attached) Swap(all map[uint64]Bits, _ map[uint64]*os.File) error {
	spec := innerPolicy.Copy()
	spec.MaxEntries = uint32(max(1, len(all)))
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return err
	}
	defer m.Close()
	for label, bits := range all {
		if err := m.Put(label, bits); err != nil {
			return err
		}
	}
	return a.k.maps[objectsMapPolicies].Put(a.id, m)
}

// Read waits for the next event.
func (a *Attached) Read(until time.Time) ([]byte, error) {
	a.events.SetDeadline(until)
	record, err := a.events.Read()
	if errors.Is(err, ringbuf.ErrClosed) || errors.Is(err, ringbuf.ErrFlushed) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("read events of the LSM: %w", err)
	}
	return record.RawSample, nil
}

// Drain has Read give the events that there are, and then io.EOF.
func (a *Attached) Drain() error {
	if err := a.events.Flush(); err != nil {
		return fmt.Errorf("read events of the LSM: %w", err)
	}
	return nil
}

// Counts are the session's numbers.
func (a *Attached) Counts() (Counts, error) {
	var c objectsSession
	if err := a.k.maps[objectsMapSessions].Lookup(a.id, &c); err != nil {
		return Counts{}, err
	}
	return Counts{Denied: c.Denied, Dropped: c.Dropped, Repeated: c.Repeated}, nil
}

// Close ends the session: what of it still lives opens nothing any more.
func (a *Attached) Close() error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	return a.end()
}

func (a *Attached) end() error {
	err := a.k.forget(a.id)
	if a.events != nil {
		err = errors.Join(err, a.events.Close())
	}
	if a.ring != nil {
		a.ring.Close()
	}
	return err
}
