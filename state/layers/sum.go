package layers

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
)

// Sum is what is in a layer: a digest over names, kinds, sizes, modes, link targets and
// times, how many entries there are, and how many bytes its files have.
type Sum struct {
	Digest  string
	Entries int
	Bytes   int64
}

// Summary looks through a layer.
func Summary(layer string) (Sum, error) {
	top, err := OpenLayer(layer)
	if err != nil {
		return Sum{}, err
	}
	defer func() { _ = top.Close() }()
	s := &summary{hash: sha256.New()}
	if err := s.folder(top, 0); err != nil {
		return Sum{}, fmt.Errorf("summarize layer: %w", err)
	}
	return Sum{hex.EncodeToString(s.hash.Sum(nil)), s.entries, s.bytes}, nil
}

type summary struct {
	hash    hash.Hash
	entries int
	bytes   int64
}

func (s *summary) folder(f *Folder, depth int) error {
	if depth > maxDepth {
		return &TooMany{f.name, fmt.Sprintf("more than %d folders in each other", maxDepth)}
	}
	names, err := f.Names()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		node, removed, err := f.stat(name)
		if err != nil {
			return err
		}
		s.entries++
		mode := node.Mode
		if node.Kind == Dir {
			mode |= 0o700 // a kill can leave a closed one open to its owner
		}
		fmt.Fprintf(s.hash, "%q %s %v %o %q ", name, node.Kind, removed, mode, node.Target)
		if node.Kind == File {
			s.bytes += node.Size
			_ = binary.Write(s.hash, binary.BigEndian, [2]int64{node.Size, node.Stamp.Mtime}) // a hash takes it
		}
		if node.Kind != Dir {
			continue
		}
		sub, err := f.Folder(name)
		if err != nil {
			return err
		}
		opaque, err := sub.opaque()
		if err == nil {
			fmt.Fprintf(s.hash, "{%v ", opaque)
			err = s.folder(sub, depth+1)
			fmt.Fprint(s.hash, "}")
		}
		if err := errors.Join(err, sub.Close()); err != nil {
			return err
		}
	}
	return nil
}
