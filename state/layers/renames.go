package layers

import (
	"crypto/sha256"
	"io"
)

// renames joins a deleted and an added file of the same content into one change. Only
// files of a size that occurs on both sides are read.
func (s *Stack) renames(list []Change) ([]Change, error) {
	gone := map[int64][]int{}
	for i, c := range list {
		if c.Op == Deleted && c.Old.Kind == File && c.Old.Size > 0 {
			gone[c.Old.Size] = append(gone[c.Old.Size], i)
		}
	}
	if len(gone) == 0 {
		return list, nil
	}
	digests, drop := map[int][32]byte{}, map[int]bool{}
	for i := range list {
		c := &list[i]
		if c.Op != Added || c.New.Kind != File || len(gone[c.New.Size]) == 0 {
			continue
		}
		mine, err := digest(func() (io.ReadCloser, error) { return s.OpenNew(*c) })
		if err != nil {
			return nil, err
		}
		for _, j := range gone[c.New.Size] {
			if drop[j] {
				continue
			}
			theirs, known := digests[j]
			if !known {
				if theirs, err = digest(func() (io.ReadCloser, error) { return s.OpenOld(list[j]) }); err != nil {
					return nil, err
				}
				digests[j] = theirs
			}
			if mine == theirs {
				c.Op, c.From, c.Old, drop[j] = Renamed, list[j].Path, list[j].Old, true
				break
			}
		}
	}
	var out []Change
	for i, c := range list {
		if !drop[i] {
			out = append(out, c)
		}
	}
	return out, nil
}

func digest(open func() (io.ReadCloser, error)) (sum [32]byte, err error) {
	f, err := open()
	if err != nil {
		return sum, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	h.Sum(sum[:0])
	return sum, nil
}
