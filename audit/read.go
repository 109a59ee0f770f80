package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// followEvery is how often Follow looks for more: soon enough for a person
// who watches, and 10 stat(2) a second cost nothing.
const followEvery = 100 * time.Millisecond

// Filter selects events; the zero value selects all.
type Filter struct {
	Session string // name, ID, or 8 and more first digits of an ID
	Kind    Kind
	Verdict string
	Since   time.Time
	// Last keeps only so many of the newest events that fit; 0 keeps all.
	// In Follow it bounds what is shown of the past.
	Last int
}

// Match reports whether the filter selects e.
func (f Filter) Match(e Event) bool {
	switch {
	case f.Session != "" && f.Session != e.Session && !f.id(e):
	case f.Kind != "" && f.Kind != e.Kind:
	case f.Verdict != "" && f.Verdict != e.Verdict:
	case e.Time.Before(f.Since):
	default:
		return true
	}
	return false
}

func (f Filter) id(e Event) bool {
	return len(f.Session) >= 8 && strings.HasPrefix(e.SessionID, f.Session)
}

// Read yields the events of dir in order. A line that cannot be read yields a
// [*BadRecord], after which reading goes on; a torn last line yields nothing.
// Read checks each line's own hash; [Verify] checks the chain.
func Read(dir string, f Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		Lines(dir, f)(func(l Line, err error) bool { return yield(l.Event, err) })
	}
}

// Line is an event with the bytes that record it, without their newline: what its
// hash was made of, and what to print, for an older record may lack members that
// one written now has. The bytes are valid until the next line.
type Line struct {
	Event
	Text []byte
}

// Lines is Read for callers that want the record itself.
func Lines(dir string, f Filter) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		r, err := newReader(dir, f)
		if err != nil {
			yield(Line{}, err)
			return
		}
		defer r.close()
		r.past(yield)
	}
}

// Follow is Lines, then every event as it comes, until ctx ends.
func Follow(ctx context.Context, dir string, f Filter) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		r, err := newReader(dir, f)
		if err != nil {
			yield(Line{}, err)
			return
		}
		defer r.close()
		if !r.past(yield) {
			return
		}
		tick := time.NewTicker(followEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if !r.more(yield) {
				return
			}
		}
	}
}

// reader stands at a place in the record.
type reader struct {
	dir    string
	keys   *keyring
	filter Filter
	file   *os.File
	number int   // of the segment that is open
	line   int   // whole lines read of it
	offset int64 // behind them
}

func newReader(dir string, f Filter) (*reader, error) {
	keys, err := readKeys(dir)
	return &reader{dir: dir, keys: keys, filter: f}, err
}

func (r *reader) close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// past yields what is there; with Last, only the newest.
func (r *reader) past(yield func(Line, error) bool) bool {
	if r.filter.Last <= 0 {
		return r.more(yield)
	}
	newest := make([]Line, 0, min(r.filter.Last, 1024))
	oldest := 0
	if !r.more(func(l Line, err error) bool {
		switch {
		case err != nil:
			return yield(l, err)
		case len(newest) < r.filter.Last:
			newest = append(newest, Line{l.Event, bytes.Clone(l.Text)})
		default:
			newest[oldest] = Line{l.Event, append(newest[oldest].Text[:0], l.Text...)}
			oldest = (oldest + 1) % len(newest)
		}
		return true
	}) {
		return false
	}
	for i := range newest {
		if !yield(newest[(oldest+i)%len(newest)], nil) {
			return false
		}
	}
	return true
}

// more yields everything from the reader's place to the end; false when the
// consumer has enough or the record cannot be read.
func (r *reader) more(yield func(Line, error) bool) bool {
	for {
		// Whether a next segment exists is asked before this one is read to
		// its end: what is written in between is then read, not lost.
		next, err := r.next()
		if err != nil {
			return yield(Line{}, fmt.Errorf("read audit: %w", err)) && false
		}
		if r.file != nil && !r.drain(yield) {
			return false
		}
		if next == "" {
			return true
		}
		if err := r.advance(next); err != nil {
			return yield(Line{}, fmt.Errorf("read audit: %w", err)) && false
		}
	}
}

// next is the name of the segment behind the one that is open.
func (r *reader) next() (string, error) {
	found, err := segments(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // nothing was ever recorded
	}
	if err != nil {
		return "", err
	}
	for _, s := range found {
		if s.number > r.number && !r.old(s) {
			return s.name, nil
		}
	}
	return "", nil
}

// old says that nothing in s is as new as the filter wants.
func (r *reader) old(s segment) bool {
	if r.filter.Since.IsZero() {
		return false
	}
	info, err := os.Stat(filepath.Join(r.dir, s.name))
	return err == nil && info.ModTime().Add(time.Minute).Before(r.filter.Since)
}

func (r *reader) advance(name string) error {
	r.close()
	f, err := openFile(filepath.Join(r.dir, name), os.O_RDONLY)
	if err != nil {
		return err
	}
	r.file, r.line, r.offset = f, 0, 0
	_, err = fmt.Sscanf(name, "audit-%d.jsonl", &r.number)
	return err
}

// drain yields the whole lines that the open segment has by now.
func (r *reader) drain(yield func(Line, error) bool) bool {
	if _, err := r.file.Seek(r.offset, io.SeekStart); err != nil {
		return yield(Line{}, fmt.Errorf("read audit: %w", err)) && false
	}
	for in := newLines(r.file, r.offset, r.line); ; {
		one, err := in.next()
		if errors.Is(err, io.EOF) || one.torn {
			return true
		}
		if err != nil {
			return yield(Line{}, fmt.Errorf("read audit: %w", err)) && false
		}
		r.offset, r.line = in.offset, in.number
		if !r.show(one, yield) {
			return false
		}
	}
}

func (r *reader) show(one line, yield func(Line, error) bool) bool {
	e, err := Event{}, errors.New("longer than allowed")
	if !one.long {
		e, err = r.keys.decode(one.text)
	}
	if err != nil {
		return yield(Line{}, &BadRecord{
			File:   fmt.Sprintf("audit-%06d.jsonl", r.number),
			Line:   one.number,
			Seq:    e.Seq,
			Reason: err.Error(),
		})
	}
	if !r.filter.Match(e) {
		return true
	}
	return yield(Line{e, one.text}, nil)
}
