package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"cloister/internal/durable"
)

const (
	// DefaultSegment is where a segment is closed and the next begun.
	DefaultSegment = 64 << 20
	// syncWithin is the longest a record waits for its fdatasync(2): what a
	// power loss may cost, RESILIENCE RS-03.
	syncWithin = 10 * time.Millisecond
)

// ErrInUse says that another process appends to the same folder.
var ErrInUse = errors.New("another process writes this audit")

// Options of a Log; the zero value is right for the guardian.
type Options struct {
	SegmentBytes int64            // DefaultSegment when 0
	Now          func() time.Time // time.Now when nil
	// KeyAge is how long a key is used before the next one; 30 days when 0.
	KeyAge time.Duration
	// Appended is given each record once the kernel has it, in order; nil for
	// no one. It is called under the log's lock: it must not wait.
	Appended func(Event)
}

// Log appends events. It is safe for use by several goroutines.
type Log struct {
	dir      string
	segment  int64
	now      func() time.Time
	appended func(Event)
	keyAge   time.Duration
	lock     *os.File
	anchor   *os.File
	kept     *os.File // the head beside the keys

	syncing sync.Mutex // held by the one sync under way; taken before mu
	mu      sync.Mutex
	keys    *keyring
	sign    *signer
	file    *os.File
	number  int
	size    int64
	head    head
	waiting []byte     // lines that the kernel does not have yet
	untold  []Event    // their events
	soon    int        // how many of them were acknowledged
	pending []*os.File // full segments that wait for their last sync
	broken  error      // the first failure; set once
	closed  bool

	dirty  chan struct{} // one token: something waits for a sync
	done   chan struct{}
	synced chan struct{} // closed when the syncer has returned
}

// Open continues the record in dir, which is created if need be. What a crash
// left of a last record is cut away, and an event says so. A record that does
// not fit the chain is an error: [*BadRecord].
func Open(dir string, o Options) (*Log, error) {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = DefaultSegment
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.KeyAge <= 0 {
		o.KeyAge = keyAge
	}
	l := &Log{
		dir:      dir,
		keyAge:   o.KeyAge,
		segment:  o.SegmentBytes,
		now:      o.Now,
		appended: o.Appended,
		dirty:    make(chan struct{}, 1),
		done:     make(chan struct{}),
		synced:   make(chan struct{}),
	}
	if err := l.open(); err != nil {
		l.release()
		return nil, fmt.Errorf("open audit: %w", err)
	}
	go l.syncer()
	return l, nil
}

func (l *Log) open() error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	if err := l.own(); err != nil {
		return err
	}
	var err error
	if l.keys, err = readKeys(l.dir); err != nil {
		return err
	}
	anchored, ok, err := anchors(l.dir, l.keys)
	if err != nil {
		return err
	}
	note, err := l.resume(anchored, ok)
	if err != nil {
		return err
	}
	l.sign = l.keys.signer()
	if l.keys.due(l.now(), l.keyAge) {
		if err := l.rekey(); err != nil {
			return err
		}
	}
	at := l.keys.sealed(l.head)
	if l.anchor, err = openAnchor(filepath.Join(l.dir, anchorFile), at); err != nil {
		return err
	}
	if l.kept, err = openAnchor(filepath.Join(l.keys.dir, headFile), at); err != nil {
		return err
	}
	if note != "" {
		if err := l.append(&Event{Kind: GuardianStart, Action: "recover", Reason: note}); err != nil {
			return err
		}
	}
	// The first sync proves that this disk takes what will be promised, and
	// writes the anchor of an empty record: from now on a missing one tells.
	return l.sync()
}

// create begins segment number; its name is durable before a record is in it.
func (l *Log) create(number int) error {
	f, err := openFile(segmentPath(l.dir, number), os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	if err := durable.SyncDir(l.dir); err != nil {
		_ = f.Close()
		return err
	}
	l.file, l.number, l.size = f, number, 0
	return nil
}

// Append writes e as one record and returns when the kernel has all of it.
// After the first failure every Append fails with the same error.
func (l *Log) Append(ctx context.Context, e Event) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("append audit: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.append(&e); err != nil {
		return fmt.Errorf("append audit: %w", err)
	}
	return nil
}

// mostWaiting bounds what AppendSoon leaves in memory, in bytes.
const mostWaiting = 32 << 10

// AppendSoon is Append of what has happened already, so that no one waits for its
// record: the kernel is given it with the next one, and at the latest with the
// group sync, 5 ms later (and the time of one that is under way). The order is that
// of the calls. An error that comes after the return is returned by the next Append and
// by Err, which say how many records went with it.
func (l *Log) AppendSoon(e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.add(&e)
	if err == nil {
		l.soon++
		if len(l.waiting) > mostWaiting {
			err = l.write()
		}
	}
	if err != nil {
		return fmt.Errorf("append audit: %w", err)
	}
	return nil
}

// Flush gives the kernel what waits.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write()
}

// append is Append under l.mu, or before anyone else knows l.
func (l *Log) append(e *Event) error {
	if err := l.add(e); err != nil {
		return err
	}
	return l.write()
}

// add puts e behind what waits.
func (l *Log) add(e *Event) error {
	switch {
	case l.broken != nil:
		return l.broken
	case l.closed:
		return os.ErrClosed
	}
	if e.Time.IsZero() {
		e.Time = l.now()
	}
	// Without its monotonic reading and zone the time reads the same
	// everywhere.
	e.Time = e.Time.UTC().Round(0)
	e.Seq, e.Prev = l.head.Seq+1, l.head.Hash
	text, hash, err := encode(l.waiting, e, l.sign)
	if err != nil {
		return err // what waits is as it was: the log is whole
	}
	e.Hash = hash
	l.waiting, l.untold = text, append(l.untold, *e)
	l.head = head{Seq: e.Seq, Hash: hash}
	select {
	case l.dirty <- struct{}{}:
	default:
	}
	return nil
}

// write gives the kernel what waits, in one call.
func (l *Log) write() error {
	if l.broken != nil || len(l.waiting) == 0 {
		return l.broken
	}
	if l.size > 0 && l.size+int64(len(l.waiting)) > l.segment {
		if err := l.rotate(); err != nil {
			return l.latch(err)
		}
	}
	if _, err := l.file.Write(l.waiting); err != nil {
		// Part of it may be in the file. Cutting it is a kindness to readers; Open
		// does it again.
		_ = l.file.Truncate(l.size)
		return l.latch(err)
	}
	l.size += int64(len(l.waiting))
	if l.appended != nil {
		for _, e := range l.untold {
			l.appended(e)
		}
	}
	clear(l.untold)
	l.waiting, l.untold, l.soon = l.waiting[:0], l.untold[:0], 0
	return nil
}

// rotate begins the next segment; the full one is synced and closed with the
// next group sync, before the anchor moves past it.
func (l *Log) rotate() error {
	full := l.file
	if err := l.create(l.number + 1); err != nil {
		return err
	}
	l.pending = append(l.pending, full)
	return nil
}

// latch remembers the first failure. A sync that failed once may succeed when
// repeated although pages were lost, so nothing is ever retried here: only a
// new Open, which reads what is really there, continues.
func (l *Log) latch(err error) error {
	if l.broken == nil {
		l.broken = err
		if l.soon > 0 {
			l.broken = fmt.Errorf("%w; with it went %d records of what had ended", err, l.soon)
		}
	}
	return l.broken
}

// Err is the failure that latched the log, nil while it records.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// syncer makes records durable in groups: one fdatasync for all that came
// within syncWithin.
func (l *Log) syncer() {
	defer close(l.synced)
	for {
		select {
		case <-l.done:
			return
		case <-l.dirty:
		}
		timer := time.NewTimer(syncWithin / 2) // the other half is for the disk
		select {
		case <-l.done:
			timer.Stop()
			return // Close syncs
		case <-timer.C:
		}
		_ = l.sync() // latched: the next Append says so
	}
}

// sync makes everything appended so far durable, then moves the anchor. One at
// a time: a second would close a full segment that the first still syncs, and
// the first would move the anchor back.
func (l *Log) sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	broken := l.write()
	if broken == nil && l.keys.due(l.now(), l.keyAge) {
		if broken = l.rekey(); broken != nil {
			_ = l.latch(broken)
		}
	}
	file, at, full := l.file, l.keys.sealed(l.head), l.pending
	l.pending = nil
	l.mu.Unlock()
	if broken != nil {
		for _, f := range full {
			_ = f.Close()
		}
		return broken
	}
	if err := l.settle(file, full, at); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.latch(err)
	}
	return nil
}

func (l *Log) settle(file *os.File, full []*os.File, at head) error {
	var failed error
	for _, f := range full {
		failed = errors.Join(failed, fdatasync(f), f.Close())
	}
	if failed != nil {
		return fmt.Errorf("sync: %w", failed)
	}
	if err := fdatasync(file); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	slot := at.slot()
	for _, f := range []*os.File{l.anchor, l.kept} {
		if _, err := f.WriteAt(slot, int64(at.Seq%2)*slotSize); err != nil {
			return fmt.Errorf("move anchor: %w", err)
		}
	}
	return nil
}

// Close makes everything durable and lets the folder go. It returns the
// failure that latched the log, if any.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	close(l.done)
	<-l.synced
	err := l.sync()
	l.release()
	if err != nil {
		return fmt.Errorf("close audit: %w", err)
	}
	return nil
}

func (l *Log) release() {
	for _, f := range append(l.pending, l.file, l.anchor, l.kept, l.lock) {
		if f != nil {
			_ = f.Close()
		}
	}
}
