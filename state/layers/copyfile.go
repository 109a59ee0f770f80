package layers

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// CopyFile copies the content of a file into an empty one: shared where the file system
// can do that, and elsewhere with its holes.
func CopyFile(out, in *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(in.Fd()), &st); err != nil {
		return err
	}
	if small(&st) {
		return copySmall(out, in)
	}
	if cloneFile(out, in) == nil {
		return nil
	}
	return copySparse(out, in)
}

// maxSmall bounds a file without holes that one read and one write copy, in bytes.
const maxSmall = 16 << 10

// small reports whether a file is one of those. A hole can make a file of terabytes.
func small(st *unix.Stat_t) bool {
	return st.Size <= maxSmall && int64(st.Blocks)*512 >= st.Size // stat(2): units of 512 bytes
}

func copySmall(out, in *os.File) error {
	buf := make([]byte, maxSmall+1)
	n, err := io.ReadFull(in, buf)
	switch {
	case err == nil:
		_, err = in.Seek(0, io.SeekStart)
		return errors.Join(err, copySparse(out, in)) // it has grown
	case errors.Is(err, io.EOF):
		return nil
	case !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	_, err = out.Write(buf[:n])
	return err
}

// copySparse copies the parts of a file that have data: a payload can make one of
// terabytes that takes no room.
func copySparse(out, in *os.File) error {
	fi, err := in.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < fi.Size(); {
		data, err := in.Seek(at, seekData)
		if errors.Is(err, unix.ENXIO) {
			break // a hole to the end
		}
		if err != nil {
			return err
		}
		end, err := in.Seek(data, seekHole)
		if err != nil {
			return err
		}
		if _, err := in.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, end-data); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		at = end
	}
	return out.Truncate(fi.Size())
}
