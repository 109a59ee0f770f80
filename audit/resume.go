package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// own takes the folder for this process until it ends.
func (l *Log) own() error {
	f, err := openFile(filepath.Join(l.dir, lockFile), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	l.lock = f
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

// rekey makes the key for what comes next. The records so far are made durable
// before, so that the key never covers records that a power loss takes back.
func (l *Log) rekey() error {
	for _, f := range append(slices.Clone(l.pending), l.file) {
		if err := fdatasync(f); err != nil {
			return fmt.Errorf("sync: %w", err)
		}
	}
	if err := l.keys.add(l.head, l.now()); err != nil {
		return err
	}
	l.sign = l.keys.signer()
	return nil
}

// resume finds the end of the chain and opens the last segment there. The note is
// what the record is to say of what was missing or cut.
func (l *Log) resume(anchored head, haveAnchor bool) (note string, err error) {
	found, err := segments(l.dir)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		if haveAnchor && anchored.Seq > 0 {
			return "", &BadRecord{File: "audit-000001.jsonl", Seq: 1,
				Reason: fmt.Sprintf("all segments are gone; the anchor names record %d", anchored.Seq)}
		}
		if anchored.Seq > 0 {
			// A person may move the folder away as a whole: what comes says so.
			note = fmt.Sprintf("the record before this one is not in its folder; it ended with record %d, hash %s", anchored.Seq,
				anchored.Hash)
		}
		if err := l.keys.retire(); err != nil {
			return "", err
		}
		l.head = start()
		return note, l.create(1)
	}
	last := found[len(found)-1]
	at, err := l.before(found)
	if err != nil {
		return "", err
	}
	tail, err := scanTail(filepath.Join(l.dir, last.name), at, l.keys)
	if err != nil {
		return "", err
	}
	if tail.head.Seq < anchored.Seq {
		reason := fmt.Sprintf("the record ends here; the anchor names record %d", anchored.Seq)
		if tail.bad != nil {
			reason = tail.bad.Error()
		}
		return "", &BadRecord{File: last.name, Line: tail.lines + 1, Seq: tail.head.Seq + 1, Reason: reason}
	}
	// Beyond the anchor nothing was promised to be on the disk: what does not
	// fit there is what a crash left. Without an anchor only a last line that
	// was cut is believed to be that.
	if !haveAnchor && tail.bad != nil && !tail.torn {
		return "", &BadRecord{File: last.name, Line: tail.lines + 1, Seq: tail.head.Seq + 1, Reason: tail.bad.Error()}
	}
	f, err := openFile(filepath.Join(l.dir, last.name), os.O_RDWR|os.O_APPEND)
	if err != nil {
		return "", err
	}
	l.file, l.number, l.size, l.head = f, last.number, tail.end, tail.head
	if tail.size == tail.end {
		return "", nil
	}
	if err := f.Truncate(tail.end); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d bytes of a torn record were cut from the end of the audit", tail.size-tail.end), nil
}

// before is the head at the end of the segment before the last one, as far as
// its own last line tells: only Verify reads the whole chain.
func (l *Log) before(found []segment) (head, error) {
	if len(found) == 1 {
		return start(), nil
	}
	name := found[len(found)-2].name
	f, err := openFile(filepath.Join(l.dir, name), os.O_RDONLY)
	if err != nil {
		return head{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return head{}, err
	}
	from := max(0, info.Size()-2*MaxRecord)
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return head{}, err
	}
	at := head{}
	for in := newLines(f, from, 0); ; {
		one, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return head{}, err
		}
		if e, err := l.keys.decode(one.text); err == nil && !one.torn && !one.long {
			at = head{Seq: e.Seq, Hash: e.Hash}
		} else {
			at = head{}
		}
	}
	if at.Seq == 0 {
		return head{}, &BadRecord{File: name, Reason: "its last record cannot be read"}
	}
	return at, nil
}

// tail is what scanTail found in the last segment.
type tail struct {
	head  head
	end   int64 // offset behind the last good record
	size  int64
	lines int
	bad   error // why the record behind end does not fit
	torn  bool  // because its newline is missing: it is the last
}

// scanTail follows the chain through the last segment until the first record
// that does not fit. Segments are bounded: 64 MiB take about 0.3 s.
func scanTail(path string, at head, keys *keyring) (tail, error) {
	t := tail{head: at}
	f, err := openFile(path, os.O_RDONLY)
	if err != nil {
		return t, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return t, err
	}
	t.size = info.Size()
	for in := newLines(f, 0, 0); ; {
		one, err := in.next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		e, err := t.head.follow(one, keys)
		if err != nil {
			t.bad, t.torn = err, one.torn
			return t, nil
		}
		t.head = head{Seq: e.Seq, Hash: e.Hash}
		t.end = in.offset
		t.lines++
	}
}
