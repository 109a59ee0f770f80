package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/internal/durable"
)

// numberOf is the number of a segment: it is called audit-000001.jsonl, growing.
func numberOf(name string) (int, bool) {
	digits, prefixed := strings.CutPrefix(name, "audit-")
	digits, suffixed := strings.CutSuffix(digits, ".jsonl")
	if !prefixed || !suffixed || len(digits) < 6 || len(digits) > 12 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 62) // no sign, as Atoi would take one
	return int(n), err == nil
}

const (
	anchorFile = "anchor"
	lockFile   = "lock"
)

// BadRecord is the first record that does not fit the chain.
type BadRecord struct {
	File   string // base name of the segment
	Line   int    // 1-based; 0 when the segment as a whole is meant
	Seq    uint64 // what the record should be, by the chain
	Reason string
}

// Error names place and reason.
func (b *BadRecord) Error() string {
	return fmt.Sprintf("audit record %d at %s:%d: %s", b.Seq, b.File, b.Line, b.Reason)
}

type segment struct {
	name   string
	number int
}

// segments lists the segments of dir in order; a gap in their numbers shows
// as a break of the chain.
func segments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list audit: %w", err)
	}
	var found []segment
	for _, e := range entries {
		n, ok := numberOf(e.Name())
		if !ok {
			continue // not ours
		}
		found = append(found, segment{name: e.Name(), number: n})
	}
	slices.SortFunc(found, func(a, b segment) int { return a.number - b.number })
	return found, nil
}

func segmentPath(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("audit-%06d.jsonl", number))
}

// openFile opens one file of the record without following a link that
// someone put in its place.
func openFile(path string, flag int) (*os.File, error) {
	return os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
}

// line is one line of a segment.
type line struct {
	text   []byte // without its newline; valid until the next call
	number int    // 1-based
	offset int64  // of its first byte
	torn   bool   // the newline is missing
	long   bool   // longer than MaxRecord; text is its head
}

// lines reads a segment line by line in bounded memory.
type lines struct {
	r      *bufio.Reader
	offset int64
	number int
}

func newLines(r io.Reader, offset int64, number int) *lines {
	return &lines{r: bufio.NewReaderSize(r, MaxRecord), offset: offset, number: number}
}

// next returns io.EOF after the last line.
func (l *lines) next() (line, error) {
	text, err := l.r.ReadSlice('\n')
	if len(text) == 0 && err != nil {
		return line{}, err
	}
	l.number++
	this := line{text: text, number: l.number, offset: l.offset}
	l.offset += int64(len(text))
	switch {
	case err == nil:
		this.text = text[:len(text)-1]
	case errors.Is(err, io.EOF):
		this.torn = true
	case errors.Is(err, bufio.ErrBufferFull):
		this.long = true
		this.text = slices.Clone(text[:64])
		n, err := skip(l.r)
		l.offset += n
		if errors.Is(err, io.EOF) {
			this.torn = true
		} else if err != nil {
			return line{}, err
		}
	default:
		return line{}, err
	}
	return this, nil
}

// skip reads up to and including the next newline.
func skip(r *bufio.Reader) (int64, error) {
	var n int64
	for {
		text, err := r.ReadSlice('\n')
		n += int64(len(text))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}

// head is where a chain stands: its last record. In a file it is sealed by the key
// of that record.
type head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
	Key  string `json:"key,omitempty"`
	MAC  string `json:"mac,omitempty"`
}

func start() head { return head{Hash: genesis} }

// follow checks that l continues the chain at h.
func (h head) follow(l line, keys *keyring) (Event, error) {
	switch {
	case l.long:
		return Event{}, fmt.Errorf("longer than %d bytes", MaxRecord)
	case l.torn:
		return Event{}, errors.New("the line is cut")
	}
	e, err := keys.decode(l.text)
	switch {
	case err != nil:
		return Event{}, err
	case e.Seq != h.Seq+1:
		return Event{}, fmt.Errorf("record %d stands here", e.Seq)
	case e.Prev != h.Hash:
		return Event{}, errors.New("it does not continue the record before")
	}
	return e, nil
}

// The anchor holds the head that was last made durable, in two slots written
// in turn, so that a torn write leaves the older one. It is written after the
// records it names are on the disk: it is never ahead of them. A second one lies
// with the keys, where an older copy of the record's folder does not replace it.
const (
	slotSize    = 256
	slotUnkeyed = 128 // of an anchor from before there were keys
)

func (h head) slot() []byte {
	text, err := json.Marshal(h)
	if err != nil { // a number and strings always encode
		return nil
	}
	slot := make([]byte, slotSize)
	for i := copy(slot, text); i < slotSize; i++ {
		slot[i] = ' '
	}
	slot[slotSize-1] = '\n'
	return slot
}

// openAnchor opens an anchor for writing; where there is none of today's form it is
// written, naming h.
func openAnchor(path string, h head) (*os.File, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() != 2*slotSize {
		err = durable.WriteFile(path, slices.Concat(h.slot(), h.slot()), 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("open anchor: %w", err)
	}
	return openFile(path, os.O_RDWR)
}

// readAnchor returns the newer slot that is whole and genuine; ok is false when
// there is none.
func readAnchor(path string, keys *keyring) (h head, ok bool, err error) {
	f, err := openFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return start(), false, nil
	}
	if err != nil {
		return start(), false, fmt.Errorf("read anchor: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, 2*slotSize))
	if err != nil {
		return start(), false, fmt.Errorf("read anchor: %w", err)
	}
	size := slotSize
	if len(text) <= 2*slotUnkeyed {
		size = slotUnkeyed
	}
	h = start()
	for slot := range slices.Chunk(text, size) {
		var one head
		if json.Unmarshal(slot, &one) == nil && len(one.Hash) == len(genesis) && one.Seq >= h.Seq && keys.genuine(one) {
			h, ok = one, true
		}
	}
	return h, ok, nil
}

// anchors are the anchor of the record in dir and the head beside its keys. newest is
// the one that is further; ok reports whether the record's own is there.
func anchors(dir string, keys *keyring) (newest head, ok bool, err error) {
	own, ok, err := readAnchor(filepath.Join(dir, anchorFile), keys)
	if err != nil {
		return own, false, err
	}
	kept, found, err := readAnchor(filepath.Join(keys.dir, headFile), keys)
	if err != nil {
		return own, false, err
	}
	if found && kept.Seq > own.Seq {
		return kept, ok, nil
	}
	return own, ok, nil
}
