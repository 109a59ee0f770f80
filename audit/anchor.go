package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An Anchor is a head of the chain as it is stored outside the record, where whoever
// can write the record and read its keys cannot change it.
type Anchor struct {
	V    int       `json:"v"`
	Time time.Time `json:"time"`
	Seq  uint64    `json:"seq"`
	Hash string    `json:"hash"`
	Key  string    `json:"key,omitempty"` // the guardian's key that sealed it
	MAC  string    `json:"mac,omitempty"`

	// Where names the place that it was read from, for messages.
	Where string `json:"-"`
}

// Agreed is what the anchors of one place proved.
type Agreed struct {
	Where  string    `json:"where"`
	Seq    uint64    `json:"seq"` // the newest record that one names
	Time   time.Time `json:"time"`
	Number int       `json:"number"`
}

// Head is the anchor for the record of dir as r found it.
func Head(dir string, r Report, now time.Time) (Anchor, error) {
	if r.Records == 0 {
		return Anchor{}, errors.New("anchor audit: nothing is recorded yet")
	}
	keys, err := readKeys(dir)
	if err != nil {
		return Anchor{}, err
	}
	h := keys.sealed(head{Seq: r.Records, Hash: r.Head})
	return Anchor{V: Version, Time: now.UTC().Round(time.Second), Seq: h.Seq, Hash: h.Hash, Key: h.Key, MAC: h.MAC}, nil
}

// Line is the anchor as one line of JSON.
func (a Anchor) Line() ([]byte, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("write anchor: %w", err)
	}
	return append(text, '\n'), nil
}

// AppendAnchor writes an anchor at the end of a file, which is made if need be, and
// returns when it is on the disk.
func AppendAnchor(path string, a Anchor) error {
	text, err := a.Line()
	if err != nil {
		return err
	}
	f, err := openFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("anchor audit: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("anchor audit: %w", err)
	}
	return nil
}

// mostAnchors bounds a file of anchors in bytes: one each minute of five years.
const mostAnchors = 1 << 30

// ReadAnchors reads a file of anchors. One that cannot be read is an error: it could
// be the one that disagrees. A file that is not there holds none.
func ReadAnchors(path string) ([]Anchor, error) {
	f, err := openFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read anchors: %w", err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil {
		return nil, fmt.Errorf("read anchors: %w", err)
	} else if info.Size() > mostAnchors {
		return nil, fmt.Errorf("read anchors: %s is larger than %d bytes", path, mostAnchors)
	}
	var out []Anchor
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		a := Anchor{Where: fmt.Sprintf("%s:%d", filepath.Clean(path), n)}
		if err := json.Unmarshal(in.Bytes(), &a); err != nil || a.Seq == 0 || len(a.Hash) != len(genesis) {
			return nil, fmt.Errorf("read anchors: %s is no anchor", a.Where)
		}
		out = append(out, a)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("read anchors: %s: %w", path, err)
	}
	return out, nil
}

func byRecord(all []Anchor) []Anchor {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Anchor) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

// agree holds a record against the anchors from elsewhere that name it.
func (v *verifier) agree(e Event) error {
	for len(v.outside) > 0 && v.outside[0].Seq == e.Seq {
		a := v.outside[0]
		v.outside = v.outside[1:]
		if a.Hash != e.Hash {
			return fmt.Errorf("it is not the record that %s names: the record was written anew, or that is of another record",
				a.Where)
		}
		where := a.Where
		if i := strings.LastIndexByte(where, ':'); i > 0 {
			where = where[:i]
		}
		at := slices.IndexFunc(v.Outside, func(o Agreed) bool { return o.Where == where })
		if at < 0 {
			at = len(v.Outside)
			v.Outside = append(v.Outside, Agreed{Where: where})
		}
		v.Outside[at].Seq, v.Outside[at].Time = a.Seq, a.Time
		v.Outside[at].Number++
	}
	return nil
}
