package gated

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// How long a path rests before it counts as settled, by what was seen of it last.
const (
	atOnce  = 0
	soon    = 15 * time.Millisecond // made, or its mode changed
	writing = 50 * time.Millisecond // written to, and not closed
	longest = time.Second           // however often it is written to
)

// event is a path that changed.
type event struct {
	rel  string
	rest time.Duration
	gone bool // a folder was there and was taken away, whatever is there now
}

// backlog is how many batches wait before the kernel's own queue fills (16,384 events), after which
// all is looked at.
const backlog = 4096

// all is the path of an event that says that anything may have changed.
const all = ""

// A learner tells which paths of a folder change, in batches, until it is closed. Its channel
// is closed then.
type learner interface {
	events() <-chan []event
	close() error
}

// watches learns by inotify: a watch on each folder. On an overlay's upper folder it sees what
// is written through the overlay (Linux 6.18: names, writes, closes and copies from below),
// and only the folders in which something changed need one.
type watches struct {
	top   int
	raw   int // the descriptor of ino: Fd would make its reads block
	ino   *os.File
	out   chan []event
	paths map[int32]string
	wds   map[string]int32
	skip  func(rel string) bool
}

const watched = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_MOVED_FROM |
	unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW

// watch begins to watch a folder with all folders in it. What is there already is not told.
func watch(top int, skip func(string) bool) (*watches, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	w := &watches{
		top: top, raw: fd, ino: os.NewFile(uintptr(fd), "inotify"), out: make(chan []event, backlog), skip: skip,
		paths: map[int32]string{}, wds: map[string]int32{},
	}
	if err := w.add(".", nil); err != nil {
		return nil, errors.Join(err, w.ino.Close())
	}
	go w.read()
	return w, nil
}

func (w *watches) events() <-chan []event { return w.out }
func (w *watches) close() error           { return w.ino.Close() }

// add watches a folder and those in it. The watch comes before the list, so that nothing is
// missed between them. found takes what is in it.
func (w *watches) add(rel string, found *[]event) error {
	if w.skip != nil && w.skip(rel) {
		return nil
	}
	fd, err := beneath(w.top, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		if absent(err) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EACCES) {
			return nil // gone, another file system, or closed: it is told when it changes above
		}
		return err
	}
	f := os.NewFile(uintptr(fd), rel)
	defer func() { _ = f.Close() }()
	wd, err := unix.InotifyAddWatch(w.raw, "/proc/self/fd/"+strconv.Itoa(fd)+"/.", watched)
	if err != nil {
		return err
	}
	if was, ok := w.paths[int32(wd)]; ok {
		delete(w.wds, was)
	}
	w.paths[int32(wd)], w.wds[rel] = rel, int32(wd)
	list, err := f.ReadDir(-1)
	if err != nil {
		return nil // removed meanwhile
	}
	for _, e := range list {
		sub := path.Join(rel, e.Name())
		if found != nil {
			*found = append(*found, event{sub, soon, false})
		}
		if e.IsDir() {
			if err := w.add(sub, found); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget ends the watches of a folder that was moved away.
func (w *watches) forget(rel string) {
	for name, wd := range w.wds {
		if name == rel || strings.HasPrefix(name, rel+"/") {
			_, _ = unix.InotifyRmWatch(w.raw, uint32(wd)) // ended by itself where the folder is gone
			delete(w.wds, name)
			delete(w.paths, wd)
		}
	}
}

func (w *watches) read() {
	defer close(w.out)
	buf := make([]byte, 256<<10)
	for {
		n, err := w.ino.Read(buf)
		if err != nil {
			return
		}
		var batch []event
		for at := buf[:n]; len(at) >= unix.SizeofInotifyEvent; {
			wd, mask := int32(binary.NativeEndian.Uint32(at)), binary.NativeEndian.Uint32(at[4:])
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(at[12:]))
			name := string(bytes.TrimRight(at[unix.SizeofInotifyEvent:size], "\x00"))
			at = at[size:]
			batch = w.one(wd, mask, name, batch)
		}
		if len(batch) > 0 {
			w.out <- batch
		}
	}
}

func (w *watches) one(wd int32, mask uint32, name string, batch []event) []event {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		return append(batch, event{rel: all})
	}
	in, known := w.paths[wd]
	if mask&unix.IN_IGNORED != 0 {
		if known {
			delete(w.paths, wd)
			delete(w.wds, in)
		}
		return batch
	}
	if !known || name == "" {
		return batch
	}
	rel := path.Join(in, name)
	if w.skip != nil && w.skip(rel) {
		return batch
	}
	if mask&unix.IN_ISDIR != 0 {
		if mask&(unix.IN_MOVED_FROM|unix.IN_DELETE) != 0 {
			w.forget(rel)
		}
		batch = append(batch, event{rel, atOnce, mask&(unix.IN_MOVED_FROM|unix.IN_DELETE) != 0})
		if mask&(unix.IN_MOVED_TO|unix.IN_CREATE) != 0 {
			if err := w.add(rel, &batch); err != nil {
				batch = append(batch, event{rel: all}) // no more watches: the walk finds it
			}
		}
		return batch
	}
	switch {
	case mask&(unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM|unix.IN_DELETE) != 0:
		return append(batch, event{rel: rel})
	case mask&unix.IN_MODIFY != 0:
		return append(batch, event{rel: rel, rest: writing})
	}
	return append(batch, event{rel: rel, rest: soon})
}

// walker learns by looking at all that an upper folder has, again and again.
type walker struct {
	every time.Duration
	out   chan []event
	stop  chan struct{}
}

func walk(every time.Duration) *walker {
	w := &walker{every: every, out: make(chan []event), stop: make(chan struct{})}
	go func() {
		defer close(w.out)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
			select {
			case <-w.stop:
				return
			case w.out <- []event{{rel: all}}:
			}
		}
	}()
	return w
}

func (w *walker) events() <-chan []event { return w.out }
func (w *walker) close() error           { close(w.stop); return nil }
