package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Report is what Verify saw, up to the first bad record if there is one.
type Report struct {
	Segments int
	Records  uint64
	Bytes    int64
	First    time.Time
	Last     time.Time
	Head     string // hash of the last good record
	Anchored uint64 // the record that the anchor names, 0 for none
	// TornBytes stand behind the last whole record: a crash left them, or a
	// guardian is writing right now. The next start of the guardian notes
	// and cuts what a crash left.
	TornBytes int64
}

// Verify reads the whole chain in dir. The error is a [*BadRecord] when a
// record was edited, removed, reordered, cut off or brought from elsewhere;
// any other error means that the files could not be read.
func Verify(dir string) (Report, error) {
	var r Report
	// The anchor first: it is never ahead of the records, so records written
	// meanwhile cannot look like a cut tail.
	anchored, haveAnchor, err := readAnchor(dir)
	if err != nil {
		return r, fmt.Errorf("verify audit: %w", err)
	}
	found, err := segments(dir)
	if err != nil {
		return r, fmt.Errorf("verify audit: %w", err)
	}
	if haveAnchor {
		r.Anchored = anchored.Seq
	}
	at := start()
	for i, s := range found {
		last := i == len(found)-1
		if at, err = r.segment(dir, s, at, anchored, last); err != nil {
			return r, err
		}
	}
	name := "audit-000001.jsonl"
	if len(found) > 0 {
		name = found[len(found)-1].name
	}
	switch {
	case at.Seq < anchored.Seq:
		return r, &BadRecord{File: name, Seq: at.Seq + 1, Reason: fmt.Sprintf("the record ends before; the anchor names record %d: the tail was cut off", anchored.Seq)}
	case !haveAnchor && at.Seq > 0:
		return r, &BadRecord{File: anchorFile, Seq: at.Seq, Reason: "the anchor is gone: a cut tail could not be noticed"}
	}
	return r, nil
}

// segment follows the chain through one file.
func (r *Report) segment(dir string, s segment, at, anchored head, last bool) (head, error) {
	f, err := openFile(filepath.Join(dir, s.name), os.O_RDONLY)
	if err != nil {
		return at, fmt.Errorf("verify audit: %w", err)
	}
	defer func() { _ = f.Close() }()
	r.Segments++
	for in := newLines(f, 0, 0); ; {
		one, err := in.next()
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		if err != nil {
			return at, fmt.Errorf("verify audit: %s: %w", s.name, err)
		}
		if one.torn && last {
			r.TornBytes = in.offset - one.offset
			return at, nil
		}
		e, err := at.follow(one)
		if err == nil && e.Seq == anchored.Seq && e.Hash != anchored.Hash {
			err = errors.New("it is not the record that the anchor names")
		}
		if err != nil {
			return at, &BadRecord{File: s.name, Line: one.number, Seq: at.Seq + 1, Reason: err.Error()}
		}
		at = head{Seq: e.Seq, Hash: e.Hash}
		r.saw(e, in.offset-one.offset)
	}
}

func (r *Report) saw(e Event, size int64) {
	if r.Records == 0 {
		r.First = e.Time
	}
	r.Records++
	r.Bytes += size
	r.Last, r.Head = e.Time, e.Hash
}
