package gvisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/streams"
)

// wiring is how the caller's three descriptors come to the command.
//
// The kernel writes to a regular file at offsets of its own, from the beginning on, over
// what the caller wrote before: files are relayed through pipes. It takes either no
// terminal or one for all three descriptors: others beside a terminal are passed under
// further numbers, and the first process puts them in their place.
type wiring struct {
	std      [3]*os.File // what the enclosure gets
	aside    [3]*os.File // those that lie beside a terminal
	terminal bool
	close    []*os.File // this side's copies of what the box has
	abandon  []*os.File
	relays   *sync.WaitGroup
	failed   *relayError
}

type relayError struct {
	mu  sync.Mutex
	err error
}

func (e *relayError) set(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = errors.Join(e.err, err)
}

func (e *relayError) get() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// firstAside is the number inside of the first descriptor that lies aside; before it
// stand the three and the report.
const firstAside = 4

// wire looks at the caller's descriptors and makes what lies between.
func wire(w sandbox.Wiring) (wiring, error) {
	out := wiring{relays: &sync.WaitGroup{}, failed: &relayError{}}
	given := [3]*os.File{w.Stdin, w.Stdout, w.Stderr}
	var looks [3]streams.Stream
	tty := -1
	for i, f := range given {
		s, err := streams.Look(i, f, os.Geteuid() == 0)
		if err != nil {
			return out, fmt.Errorf("start gvisor: %w", err)
		}
		looks[i] = s
		if s.Terminal && tty < 0 {
			tty = i
		}
	}
	var err error
	for i, f := range given {
		out.std[i] = f
		if !looks[i].File && !streams.Memory(int(f.Fd())) {
			continue
		}
		switch {
		case i == 0:
			out.std[0], err = out.input(f)
		case i == 2 && sameFile(given[1], f):
			out.std[2] = out.std[1]
		default:
			out.std[i], err = out.output(f)
		}
		if err != nil {
			out.give()
			return out, fmt.Errorf("start gvisor: %w", err)
		}
	}
	if tty >= 0 {
		out.terminal = true
		for i := range given {
			if !looks[i].Terminal {
				out.aside[i] = out.std[i]
			}
			out.std[i] = given[tty]
		}
	}
	return out, nil
}

func sameFile(a, b *os.File) bool {
	x, err1 := a.Stat()
	y, err2 := b.Stat()
	return err1 == nil && err2 == nil && x.Mode().IsRegular() && os.SameFile(x, y)
}

// input is a file to be read. At its beginning it can be handed in as it is: the kernel
// only reads what was opened for reading, from the beginning.
func (w *wiring) input(f *os.File) (*os.File, error) {
	at, err := unix.Seek(int(f.Fd()), 0, io.SeekCurrent)
	flags, ferr := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	asItIs := ferr == nil && flags&unix.O_ACCMODE == unix.O_RDONLY || streams.Memory(int(f.Fd()))
	if err == nil && at == 0 && asItIs {
		return f, nil
	}
	r, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w.close = append(w.close, r)
	w.abandon = append(w.abandon, in)
	// Its reader may end before: the rest is not wanted then.
	go func() {
		defer in.Close()
		_, _ = io.Copy(in, f)
	}()
	return r, nil
}

// output is a file that is written to as the command writes.
func (w *wiring) output(f *os.File) (*os.File, error) {
	out, wr, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w.close = append(w.close, wr)
	w.abandon = append(w.abandon, out)
	w.relays.Go(func() {
		defer out.Close()
		if _, err := io.Copy(f, out); err != nil {
			w.failed.set(fmt.Errorf("write the command's output: %w", err))
		}
	})
	return wr, nil
}

// given closes what the box has by now.
func (w *wiring) given() {
	for _, f := range w.close {
		f.Close()
	}
	w.close = nil
}

// give closes everything, for a box that is not.
func (w *wiring) give() {
	w.given()
	w.relays.Wait()
	for _, f := range w.abandon {
		f.Close()
	}
}

// moves says which passed descriptor is to stand where.
func (w wiring) moves() string {
	var out []string
	next := firstAside
	for i, f := range w.aside {
		if f != nil {
			out = append(out, strconv.Itoa(next)+":"+strconv.Itoa(i))
			next++
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ",")
}

// shape makes the wiring like that of the box whose memory goes on here, as the program that
// saved it said it ("TERMINAL MOVES VERSION"): a program that had a
// terminal has a descriptor in its place, whatever it is, and those that lay aside lie there.
func (w *wiring) shape(like string) error {
	var terminal bool
	var moves, pin string
	if _, err := fmt.Sscanf(like, "%t %s %s", &terminal, &moves, &pin); err != nil {
		return fmt.Errorf("start gvisor: the image's descriptors %q: %w", like, err)
	}
	if pin != keptBy {
		return fmt.Errorf("start gvisor: the memory was kept by gVisor %s, and this is %s: keep it again", pin, keptBy)
	}
	for i, f := range w.aside {
		if f != nil {
			w.std[i] = f
		}
	}
	w.terminal, w.aside = terminal, [3]*os.File{}
	for move := range strings.SplitSeq(moves, ",") {
		_, to, _ := strings.Cut(move, ":")
		n, err := strconv.Atoi(to)
		if move != "-" && (err != nil || n < 0 || n >= len(w.aside)) {
			return fmt.Errorf("start gvisor: the image's descriptors %q", like)
		}
		if move != "-" {
			w.aside[n] = w.std[n]
		}
	}
	return nil
}

// passed are the descriptors that lie aside.
func (w wiring) passed() []*os.File {
	var out []*os.File
	for _, f := range w.aside {
		if f != nil {
			out = append(out, f)
		}
	}
	return out
}
