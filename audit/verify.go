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
	// Unkeyed is how many records from the first on are from before there were keys:
	// whoever can write the files could have written those anew until Keyed was.
	Unkeyed uint64
	// Keys are the IDs of the keys that cover the rest, oldest first, and KeysDir where
	// they lie: against whoever reads those nothing is proven.
	Keys    []string
	KeysDir string
	// Retired is how many records were in the folder before this one, and taken out as
	// a whole.
	Retired int
	// Outside is what anchors stored elsewhere agreed to.
	Outside []Agreed
	// TornBytes stand behind the last whole record: a crash left them, or a
	// guardian is writing right now. The next start of the guardian notes
	// and cuts what a crash left.
	TornBytes int64
}

// Verify reads the whole chain in dir. The error is a [*BadRecord] when a
// record was edited, removed, reordered, cut off or brought from elsewhere, or when
// one of the anchors from elsewhere names another;
// any other error means that the files could not be read.
func Verify(dir string, outside ...Anchor) (Report, error) {
	v := verifier{dir: dir, outside: byRecord(outside)}
	r, err := v.verify()
	var bad *BadRecord
	if err != nil && !errors.As(err, &bad) {
		return r, fmt.Errorf("verify audit: %w", err)
	}
	return r, err
}

// VerifyCopy is Verify of a copy in dir of the record that is or was in of, by the keys of that: the copy
// must reach each of the heads, which the guardian must have sealed. It may end before the record does.
func VerifyCopy(dir, of string, heads ...Anchor) (Report, error) {
	v := verifier{dir: dir, copyOf: of, outside: byRecord(heads)}
	keys, err := readKeys(of)
	if err != nil {
		return v.Report, fmt.Errorf("verify audit: %w", err)
	}
	for _, a := range heads {
		if !keys.genuine(head{Seq: a.Seq, Hash: a.Hash, Key: a.Key, MAC: a.MAC}) {
			return v.Report, &BadRecord{File: anchorFile, Seq: a.Seq,
				Reason: fmt.Sprintf("the head of %q is not the guardian's", a.Where)}
		}
	}
	r, err := v.verify()
	var bad *BadRecord
	if err != nil && !errors.As(err, &bad) {
		return r, fmt.Errorf("verify audit: %w", err)
	}
	return r, err
}

// verifier is one run of Verify.
type verifier struct {
	Report

	dir      string
	copyOf   string // the record that dir is a copy of; empty for the record itself
	keys     *keyring
	anchored head
	outside  []Anchor // by record
}

func (v *verifier) verify() (Report, error) {
	var err error
	of := v.dir
	if v.copyOf != "" {
		of = v.copyOf
	}
	if v.keys, err = readKeys(of); err != nil {
		return v.Report, err
	}
	// The anchors first: they are never ahead of the records, so records written
	// meanwhile cannot look like a cut tail.
	newest, haveAnchor := start(), true // a copy's heads come from elsewhere
	if v.copyOf == "" {
		if newest, haveAnchor, err = anchors(v.dir, v.keys); err != nil {
			return v.Report, err
		}
	}
	v.anchored = newest
	v.Anchored = newest.Seq
	if v.Retired, err = v.keys.retired(); err != nil {
		return v.Report, err
	}
	found, err := segments(v.dir)
	if err != nil {
		return v.Report, err
	}
	at := start()
	for i, s := range found {
		if at, err = v.segment(s, at, i == len(found)-1); err != nil {
			return v.Report, err
		}
	}
	name := "audit-000001.jsonl"
	if len(found) > 0 {
		name = found[len(found)-1].name
	}
	if len(v.keys.list) > 0 {
		v.KeysDir = v.keys.dir
	}
	cut := func(format string, args ...any) error {
		return &BadRecord{File: name, Seq: at.Seq + 1,
			Reason: "the record ends before; " + fmt.Sprintf(format, args...) + ": the tail was cut off"}
	}
	switch last := v.keys.last(); {
	case at.Seq < v.anchored.Seq:
		return v.Report, cut("the anchor names record %d", v.anchored.Seq)
	case last != nil && at.Seq+1 < last.From && v.copyOf == "":
		return v.Report, cut("the guardian keyed the records from %d on", last.From)
	case len(v.outside) > 0:
		return v.Report, cut("%s names record %d", v.outside[0].Where, v.outside[0].Seq)
	case !haveAnchor && at.Seq > 0:
		return v.Report, &BadRecord{
			File: anchorFile, Seq: at.Seq,
			Reason: "the anchor is gone, or is not the guardian's: a cut tail could not be noticed",
		}
	}
	return v.Report, nil
}

// segment follows the chain through one file.
func (v *verifier) segment(s segment, at head, last bool) (head, error) {
	f, err := openFile(filepath.Join(v.dir, s.name), os.O_RDONLY)
	if err != nil {
		return at, err
	}
	defer func() { _ = f.Close() }()
	v.Segments++
	for in := newLines(f, 0, 0); ; {
		one, err := in.next()
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		if err != nil {
			return at, fmt.Errorf("%s: %w", s.name, err)
		}
		if one.torn && last {
			v.TornBytes = in.offset - one.offset
			return at, nil
		}
		e, err := at.follow(one, v.keys)
		if err == nil && e.Seq == v.anchored.Seq && e.Hash != v.anchored.Hash {
			err = errors.New("it is not the record that the anchor names")
		}
		if err == nil {
			err = v.agree(e)
		}
		if err != nil {
			return at, &BadRecord{File: s.name, Line: one.number, Seq: at.Seq + 1, Reason: err.Error()}
		}
		at = head{Seq: e.Seq, Hash: e.Hash}
		v.saw(e, in.offset-one.offset)
	}
}

func (r *Report) saw(e Event, size int64) {
	if r.Records == 0 {
		r.First = e.Time
	}
	switch {
	case e.Key == "":
		r.Unkeyed++
	case len(r.Keys) == 0 || r.Keys[len(r.Keys)-1] != e.Key:
		r.Keys = append(r.Keys, e.Key)
	}
	r.Records++
	r.Bytes += size
	r.Last, r.Head = e.Time, e.Hash
}
