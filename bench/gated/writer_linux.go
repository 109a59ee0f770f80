package gated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Learn is how the writer learns what the payload wrote.
type Learn string

// The ways to learn.
const (
	Inotify  Learn = "inotify"
	Fanotify Learn = "fanotify" // root alone
	Walk     Learn = "walk"     // each 25 ms
)

// Options are the two sides. All folders are absolute and real.
type Options struct {
	Project string // of the host: the overlay's lower
	Upper   string // the overlay's
	View    string // where the overlay is mounted for the writer
	Stage   string // an empty folder on the project's file system that no payload sees
	Learn   Learn
	Ungated bool // holds nothing: the control of the tests
}

// Told is a path that stays where it is, with the reason.
type Told struct{ Path, Why string }

// Counts are what the writer did.
type Counts struct {
	Out, In, Again, Walks, Refreshed int
	Bytes                            int64
}

// Writer brings changes from one side to the other.
type Writer struct {
	Options

	project, upper, view, stage, inbox int
	uid, gid                           int
	began                              int64 // by the clock of the project's file system
	known                              map[string]pair
	due                                [2]queue
	inside, outside                    learner
	stop                               context.CancelFunc
	done                               chan struct{}
	lookAgain                          bool      // all is to be looked at
	looked                             time.Time // when a walk ended
	took                               time.Duration

	held sync.Mutex // while paths are brought over

	mu     sync.Mutex
	told   map[string]string
	counts Counts
	err    error
}

// pair is what both sides had when they were alike.
type pair struct{ in, out entry }

const (
	toHost = 0
	toView = 1
)

// Open begins to bring changes over, from now on.
func Open(ctx context.Context, o Options) (_ *Writer, err error) {
	w := &Writer{
		Options: o, uid: -1, gid: -1, known: map[string]pair{}, told: map[string]string{}, done: make(chan struct{}),
		due: [2]queue{newQueue(), newQueue()},
	}
	var opened []int
	defer func() {
		if err != nil {
			for _, fd := range opened {
				_ = unix.Close(fd)
			}
		}
	}()
	if err := os.Mkdir(filepath.Join(o.View, inbox), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	for name, fd := range map[string]*int{
		o.Project: &w.project, o.Upper: &w.upper, o.View: &w.view, o.Stage: &w.stage, filepath.Join(o.View, inbox): &w.inbox,
	} {
		if *fd, err = unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
			return nil, fmt.Errorf("open %s: %w", name, err)
		}
		opened = append(opened, *fd)
	}
	if err := w.start(); err != nil {
		return nil, err
	}
	ctx, w.stop = context.WithCancel(ctx)
	go w.run(ctx)
	return w, nil
}

func (w *Writer) start() (err error) {
	var st unix.Stat_t
	if err := unix.Fstat(w.project, &st); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		w.uid, w.gid = int(st.Uid), int(st.Gid)
	}
	if w.outside, err = watch(w.project, passing); err != nil {
		return fmt.Errorf("watch project: %w", err)
	}
	switch w.Learn {
	case Fanotify:
		w.inside, err = mark(w.Upper)
	case Walk:
		w.inside = walk(25 * time.Millisecond)
	default:
		w.inside, err = watch(w.upper, passing)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("watch upper: %w", err), w.outside.close())
	}
	if w.began, err = w.clock(0); err == nil {
		w.began, err = w.clock(w.began)
	}
	w.looked = time.Now()
	return err
}

// clock gives the time that the project's file system writes to what changes now, once it is
// later than another: it moves in ticks of some milliseconds.
func (w *Writer) clock(after int64) (int64, error) {
	for {
		var st unix.Stat_t
		fd, err := unix.Openat(w.stage, "clock", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err == nil {
			err = errors.Join(unix.Fstat(fd, &st), unix.Close(fd), unix.Unlinkat(w.stage, "clock", 0))
		}
		if now := st.Ctim.Nano(); err != nil || now > after {
			return now, err
		}
		<-time.After(time.Millisecond)
	}
}

// Close ends the writer. What is due is left.
func (w *Writer) Close() error {
	w.stop()
	<-w.done
	err := errors.Join(w.err, w.inside.close(), w.outside.close())
	for _, l := range []learner{w.inside, w.outside} {
		for range l.events() { // until it has ended
		}
	}
	for _, fd := range []int{w.project, w.upper, w.view, w.stage, w.inbox} {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}

// Waiting is what stays where it is, sorted.
func (w *Writer) Waiting() []Told {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Told
	for p, why := range w.told {
		out = append(out, Told{p, why})
	}
	slices.SortFunc(out, func(a, b Told) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// Done is what was brought over until now.
func (w *Writer) Done() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

// Hold keeps the writer from bringing anything over until its result is called.
func (w *Writer) Hold() (resume func()) {
	w.held.Lock()
	return w.held.Unlock
}

// Idle reports whether nothing is due.
func (w *Writer) Idle() bool {
	w.held.Lock()
	defer w.held.Unlock()
	return w.due[toHost].len()+w.due[toView].len() == 0
}

func (w *Writer) count(do func(*Counts)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do(&w.counts)
}

func (w *Writer) tell(rel, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if why == "" {
		delete(w.told, rel)
	} else {
		w.told[rel] = why
	}
}

func (w *Writer) run(ctx context.Context) {
	defer close(w.done)
	timer := time.NewTimer(0)
	for {
		timer.Reset(w.pause())
		side, batch := toHost, []event(nil)
		select {
		case <-ctx.Done():
			return
		case batch = <-w.inside.events():
		case batch = <-w.outside.events():
			side = toView
		case <-timer.C:
		}
		w.held.Lock()
		w.note(side, batch)
		w.drain()
		w.turn(ctx)
		w.held.Unlock()
	}
}

// drain notes what is told already, so that it is looked at once.
func (w *Writer) drain() {
	for {
		select {
		case b := <-w.inside.events():
			w.note(toHost, b)
		case b := <-w.outside.events():
			w.note(toView, b)
		default:
			return
		}
	}
}

// pause is how long there is nothing to do.
func (w *Writer) pause() time.Duration {
	next := w.looked.Add(w.nextWalk())
	if w.lookAgain {
		next = w.looked.Add(w.took)
	}
	for i := range w.due {
		next = w.due[i].next(next)
	}
	return max(0, time.Until(next))
}

// nextWalk is when all is looked at again, for what no event tells: a file that is written
// through a mapping. It takes a fiftieth of the time.
func (w *Writer) nextWalk() time.Duration { return max(2*time.Second, 50*w.took) }

func (w *Writer) note(side int, batch []event) {
	now := time.Now()
	for _, e := range batch {
		switch {
		case e.rel == all:
			w.lookAgain = true
		case !passing(e.rel):
			w.due[side].add(e, now, w.first)
		}
	}
}

// first reports whether a path goes before others: a person looks at what was there before, and
// what git names has an order.
func (w *Writer) first(rel string) bool {
	if _, known := w.known[rel]; known || strings.HasPrefix(rel, ".git/") {
		return true
	}
	e, err := at(w.project, rel)
	return err == nil && e.kind != none && e.kind != dir
}

// slice is how long new files keep what is due meanwhile waiting.
const slice = 10 * time.Millisecond

// turn brings over what is settled.
func (w *Writer) turn(ctx context.Context) {
	now := time.Now()
	if passed := now.Sub(w.looked); passed >= w.nextWalk() || w.lookAgain && passed >= w.took {
		w.lookAgain = false
		w.all(toHost)
	}
	for side := range w.due {
		list, gone := w.due[side].take(now)
		if side == toView && gone {
			if err := w.refresh(); err != nil {
				w.tell(inbox, err.Error())
			}
		}
		slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
		for _, rel := range list {
			w.bring(side, rel)
		}
		for until := time.Now().Add(slice); ctx.Err() == nil && time.Now().Before(until); {
			rel, more := w.due[side].takeNew(now)
			if !more {
				break
			}
			w.bring(side, rel)
		}
	}
}

func (w *Writer) bring(side int, rel string) {
	way := w.out
	if side == toView {
		way = w.in
	}
	if err := way(rel); err != nil {
		w.tell(rel, err.Error())
	}
}

// all notes every entry of a side that is not what it was when both were alike.
func (w *Writer) all(side int) {
	began := time.Now()
	top := w.upper
	if side == toView {
		top = w.project
	}
	seen := map[string]bool{}
	w.look(side, top, ".", seen)
	for rel, k := range w.known {
		// What the upper has no more, or the project, is told by its absence.
		there := k.in.kind
		if side == toView {
			there = k.out.kind
		}
		if there != none && !seen[rel] {
			w.note(side, []event{{rel: rel}})
		}
	}
	w.looked = time.Now()
	w.took = w.looked.Sub(began)
	w.count(func(c *Counts) { c.Walks++ })
}

func (w *Writer) look(side, top int, rel string, seen map[string]bool) {
	fd, err := beneath(top, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), rel)
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, n := range names {
		sub := path.Join(rel, n)
		if passing(sub) {
			continue
		}
		e, err := entryAt(fd, n)
		if err != nil {
			continue
		}
		seen[sub] = true
		k, have := w.known[sub]
		switch was := [2]entry{k.in, k.out}[side]; {
		case have && was == e:
		case side == toView && !have && (e.kind == dir || e.ctime < w.began):
		default:
			if !w.due[side].has(sub) {
				w.note(side, []event{{rel: sub, rest: soon}})
			}
		}
		if e.kind == dir {
			w.look(side, top, sub, seen)
		}
	}
}
