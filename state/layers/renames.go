package layers

import (
	"crypto/sha256"
	"io"
)

const (
	// maxRename bounds a file that is read to find out whether it was renamed, and
	// allRenames what is read of all, in bytes: a payload may make files of terabytes that
	// take no place. What is beyond is shown as deleted and added, which it is as well.
	maxRename  = 64 << 20
	allRenames = 1 << 30
)

// renames joins a deleted and an added file of the same content into one change. Only
// files of a size that occurs on both sides are read.
func (s *Stack) renames(list []Change) ([]Change, error) {
	gone := map[int64][]int{}
	for i, c := range list {
		if c.Op == Deleted && c.Old.Kind == File && c.Old.Size > 0 && c.Old.Size <= maxRename {
			gone[c.Old.Size] = append(gone[c.Old.Size], i)
		}
	}
	if len(gone) == 0 {
		return list, nil
	}
	digests, drop, left := map[int][32]byte{}, map[int]bool{}, int64(allRenames)
	for i := range list {
		c := &list[i]
		if c.Op != Added || c.New.Kind != File || len(gone[c.New.Size]) == 0 {
			continue
		}
		if left -= c.New.Size; left < 0 {
			break
		}
		mine, err := digest(c.New.Size, func() (io.ReadCloser, error) { return s.OpenNew(*c) })
		if err != nil {
			return nil, err
		}
		for _, j := range gone[c.New.Size] {
			if drop[j] {
				continue
			}
			theirs, known := digests[j]
			if !known {
				left -= list[j].Old.Size
				if theirs, err = digest(list[j].Old.Size, func() (io.ReadCloser, error) { return s.OpenOld(list[j]) }); err != nil {
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

func digest(size int64, open func() (io.ReadCloser, error)) (sum [32]byte, err error) {
	f, err := open()
	if err != nil {
		return sum, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, size+1)); err != nil {
		return sum, err
	}
	h.Sum(sum[:0])
	return sum, nil
}
