package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
)

// backBlock is how much Back reads at once.
const backBlock = 256 << 10

// Back yields the events of dir from the newest to the oldest, and ends where the
// reader has enough: what a person looks at is new, and the record long. A line
// that cannot be read yields a [*BadRecord], without its number, after which
// reading goes on.
func Back(dir string, f Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		found, err := segments(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Event{}, fmt.Errorf("read audit: %w", err))
			return
		}
		keys, err := readKeys(dir)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for _, s := range slices.Backward(found) {
			if !backSegment(dir, s.name, keys, f, yield) {
				return
			}
		}
	}
}

func backSegment(dir, name string, keys *keyring, f Filter, yield func(Event, error) bool) bool {
	file, err := openFile(filepath.Join(dir, name), os.O_RDONLY)
	if err != nil {
		return yield(Event{}, fmt.Errorf("read audit: %w", err)) && false
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return yield(Event{}, fmt.Errorf("read audit: %w", err)) && false
	}
	var rest []byte // the beginning of what was read last: a line may begin before it
	whole := false  // the first line from the end is whole, or being written
	for end := info.Size(); end > 0; {
		from := max(0, end-backBlock)
		block := make([]byte, end-from, end-from+int64(len(rest)))
		if _, err := file.ReadAt(block, from); err != nil && !errors.Is(err, io.EOF) {
			return yield(Event{}, fmt.Errorf("read audit: %w", err)) && false
		}
		block = append(block, rest...)
		end = from
		for {
			at := bytes.LastIndexByte(block, '\n')
			if at < 0 {
				break
			}
			line := block[at+1:]
			block = block[:at]
			if whole && !backLine(name, line, keys, f, yield) {
				return false
			}
			whole = true
		}
		if len(block) > 2*MaxRecord {
			block = block[:0] // longer than any record: it cannot be read
		}
		rest = block
	}
	if whole {
		return backLine(name, rest, keys, f, yield)
	}
	return true
}

// backLine shows one line; false ends the reading: by the reader's word, or
// because everything before is older than the filter wants.
func backLine(name string, line []byte, keys *keyring, f Filter, yield func(Event, error) bool) bool {
	e, err := keys.decode(line)
	if err != nil {
		return yield(Event{}, &BadRecord{File: name, Reason: err.Error()})
	}
	if e.Time.Before(f.Since) {
		return false
	}
	return !f.Match(e) || yield(e, nil)
}
